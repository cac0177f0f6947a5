package coord

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Errors of requests. They come wrapped with the request and its path: test for
// them with errors.Is.
var (
	ErrNoNode     = errors.New("no such node")
	ErrExists     = errors.New("node exists")
	ErrBadVersion = errors.New("node has another version")
	ErrNotEmpty   = errors.New("node has children")
	// ErrExpired: the session has ended at the server, so the request was not
	// carried out, unless the error is ErrInDoubt too.
	ErrExpired = errors.New("session expired")
	// ErrUnavailable: no connection, no session or no answer within the time.
	ErrUnavailable = errors.New("ZooKeeper is unavailable")
	// ErrInDoubt: the request was a change, and its answer did not come: it may
	// have been carried out, and then once. Read to find out. It comes with
	// ErrUnavailable, ErrExpired, ErrClosed or the error of the context.
	ErrInDoubt = errors.New("the change may or may not have been made")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client is closed")
	// ErrArgument: a path, a size or an operation that no server takes. Nothing
	// was sent.
	ErrArgument = errors.New("bad argument")
)

// ConflictError says that an ephemeral node could not be made as there is one
// that is not of this session, or has another value. errors.Is says [ErrExists].
type ConflictError struct {
	Path string
	Data []byte // of the node that is there
	Stat Stat   // its EphemeralOwner is the session it belongs to, 0 if it is persistent
}

func (e *ConflictError) Error() string {
	owner := "persistent"
	if e.Stat.EphemeralOwner != 0 {
		owner = fmt.Sprintf("of session %#x", e.Stat.EphemeralOwner)
	}
	return fmt.Sprintf("node %s exists, %s, with value %.200q", e.Path, owner, e.Data)
}

// Unwrap returns ErrExists.
func (e *ConflictError) Unwrap() error { return ErrExists }

// MultiError says which operation of a Multi was refused. None was carried out.
type MultiError struct {
	Index int // of the operation, from 0
	Path  string
	Err   error // why, as of a request of its own
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d on %s: %v", e.Index, e.Path, e.Err)
}

// Unwrap returns Err.
func (e *MultiError) Unwrap() error { return e.Err }

// refusals are the answers that callers tell apart.
var refusals = map[error]error{
	zk.ErrNoNode:         ErrNoNode,
	zk.ErrNodeExists:     ErrExists,
	zk.ErrBadVersion:     ErrBadVersion,
	zk.ErrNotEmpty:       ErrNotEmpty,
	zk.ErrSessionExpired: ErrExpired,
	zk.ErrInvalidPath:    ErrArgument,
}

// refusal returns the error of this package for one of the library.
func refusal(err error) error {
	if e, ok := refusals[err]; ok {
		return e
	}
	return err
}
