package schema

import (
	"errors"
	"fmt"
	"net/http"
)

// Codes of errors, those that today's registry clients know. The first three digits
// are the status of HTTP.
const (
	CodeSubjectNotFound      = 40401
	CodeVersionNotFound      = 40402
	CodeSchemaNotFound       = 40403
	CodeSubjectSoftDeleted   = 40404
	CodeSubjectNotDeleted    = 40405
	CodeVersionSoftDeleted   = 40406
	CodeVersionNotDeleted    = 40407
	CodeSubjectWithoutLevel  = 40408
	CodeSubjectWithoutMode   = 40409
	CodeIncompatible         = 409
	CodeInvalidSchema        = 42201
	CodeInvalidVersion       = 42202
	CodeInvalidCompatibility = 42203
	CodeInvalidMode          = 42204
	CodeNotPermitted         = 42205
	CodeInvalidSubject       = 42208
	CodeStore                = 50001
	CodeTimeout              = 50002
)

// Error is an answer of a registry that is no success.
type Error struct {
	Code    int    // one of the constants, or a status of HTTP
	Message string // for people
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Status returns the status of HTTP that the error is answered with.
func (e *Error) Status() int {
	status := e.Code
	if status >= 10000 {
		status /= 100
	}
	if status < 400 || status > 599 {
		return http.StatusInternalServerError
	}
	return status
}

// Is makes [errors.Is] tell errors apart by their codes.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

func errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func subjectNotFound(subject string) *Error {
	return errorf(CodeSubjectNotFound, "Subject '%s' not found.", subject)
}

func versionNotFound(version int) *Error {
	return errorf(CodeVersionNotFound, "Version %d not found.", version)
}

func schemaNotFound(id uint32) *Error {
	return errorf(CodeSchemaNotFound, "Schema %d not found", id)
}

// ErrBroken says that the topic of schemas is not what it was, so that the registry
// can change nothing any more.
var ErrBroken = errors.New("the topic of schemas is damaged")
