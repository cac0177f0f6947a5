package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// handler returns what answers all paths.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*request) (any, error){
		"GET /{$}":                                          func(*request) (any, error) { return struct{}{}, nil },
		"GET /contexts":                                     func(*request) (any, error) { return []string{"."}, nil }, // the one that there is
		"GET /schemas/types":                                func(*request) (any, error) { return []string{typeAvro}, nil },
		"GET /schemas":                                      (*request).schemas,
		"GET /schemas/ids/{id}":                             (*request).byID,
		"GET /schemas/ids/{id}/schema":                      (*request).textByID,
		"GET /schemas/ids/{id}/subjects":                    (*request).subjectsByID,
		"GET /schemas/ids/{id}/versions":                    (*request).versionsByID,
		"GET /subjects":                                     (*request).subjects,
		"POST /subjects/{subject}":                          (*request).lookup,
		"DELETE /subjects/{subject}":                        (*request).deleteSubject,
		"GET /subjects/{subject}/versions":                  (*request).versions,
		"POST /subjects/{subject}/versions":                 (*request).register,
		"GET /subjects/{subject}/versions/{version}":        (*request).version,
		"GET /subjects/{subject}/versions/{version}/schema": (*request).textByVersion,
		// Nothing refers to another schema here.
		"GET /subjects/{subject}/versions/{version}/referencedby":   (*request).referencedBy,
		"DELETE /subjects/{subject}/versions/{version}":             (*request).deleteVersion,
		"POST /compatibility/subjects/{subject}/versions":           (*request).compatible,
		"POST /compatibility/subjects/{subject}/versions/{version}": (*request).compatible,
		"GET /config":              (*request).level,
		"PUT /config":              (*request).setLevel,
		"DELETE /config":           (*request).resetLevel,
		"GET /config/{subject}":    (*request).level,
		"PUT /config/{subject}":    (*request).setLevel,
		"DELETE /config/{subject}": (*request).resetLevel,
		"GET /mode":                (*request).mode,
		"PUT /mode":                (*request).setMode,
		"DELETE /mode":             (*request).resetMode,
		"GET /mode/{subject}":      (*request).mode,
		"PUT /mode/{subject}":      (*request).setMode,
		"DELETE /mode/{subject}":   (*request).resetMode,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, h) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern == "" { // no such path, or not with this method: said as all else is
			p := probe{header: http.Header{}}
			h.ServeHTTP(&p, r)
			if allow := p.header.Get("Allow"); allow != "" {
				w.Header().Set("Allow", allow)
			}
			writeError(w, errorf(p.status, "HTTP %d %s", p.status, http.StatusText(p.status)))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// probe takes the status of an answer, and nothing else of it.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// request is a request with what it is answered from.
type request struct {
	*http.Request
	w     http.ResponseWriter
	store *Store
}

// text is an answer that is the text of a schema, as it is.
type text string

// answer answers with what h returns.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, h func(*request) (any, error)) {
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		select {
		case s.bodies <- struct{}{}:
			defer func() { <-s.bodies }()
		case <-r.Context().Done():
			return // the peer is gone
		}
	}
	v, err := h(&request{Request: r, w: w, store: s.store})
	if err != nil {
		var known *Error
		if !errors.As(err, &known) {
			known = errorf(CodeStore, "%v", err)
		}
		if known.Status() >= http.StatusInternalServerError {
			s.log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "peer", r.RemoteAddr, "error", known)
		}
		writeError(w, known)
		return
	}
	writeAnswer(w, http.StatusOK, v)
}

func writeError(w http.ResponseWriter, err *Error) {
	writeAnswer(w, err.Status(), struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}{err.Code, err.Message})
}

// writeAnswer writes an answer. That it cannot be written is the peer's end.
func writeAnswer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if t, ok := v.(text); ok {
		_, _ = io.WriteString(w, string(t))
		return
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	all, ok := v.([]listed)
	if !ok {
		_ = e.Encode(v)
		return
	}
	// One by one: together they may be as large as the store.
	for i := range all {
		_, err := io.WriteString(w, []string{"[", ","}[min(i, 1)])
		if err == nil {
			err = e.Encode(all[i])
		}
		if err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, []string{"[]", "]"}[min(len(all), 1)])
}

// body reads the body of a request, which is JSON.
func (r *request) body(into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || kind != ContentType && kind != "application/vnd.schemaregistry+json" && kind != "application/json":
		// Also so that no page in a browser can send one unasked.
		return errorf(http.StatusUnsupportedMediaType, "HTTP 415 Unsupported Media Type: send %s", ContentType)
	case r.ContentLength > MaxBodyBytes:
		return r.tooLarge()
	}
	d := json.NewDecoder(http.MaxBytesReader(r.w, r.Body, MaxBodyBytes))
	err = d.Decode(into)
	if err == nil {
		var more json.RawMessage
		if err = d.Decode(&more); err == nil {
			err = errors.New("something follows behind the object")
		} else if errors.Is(err, io.EOF) {
			return nil
		}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return r.tooLarge()
	}
	return errorf(http.StatusBadRequest, "The body is not the JSON that is wanted: %v", err)
}

// tooLarge reads on for a while: a peer that is still sending when the connection ends
// may lose the answer with it.
func (r *request) tooLarge() error {
	_, _ = io.CopyN(io.Discard, r.Body, 8*MaxBodyBytes)
	return errorf(http.StatusRequestEntityTooLarge, "HTTP 413: a body has at most %d bytes", MaxBodyBytes)
}

const typeAvro = "AVRO"

// schemaBody is the body of what registers, looks up or compares a schema.
type schemaBody struct {
	Schema     *string           `json:"schema"`
	Type       string            `json:"schemaType"`
	References []json.RawMessage `json:"references"`
	Metadata   json.RawMessage   `json:"metadata"`
	RuleSet    json.RawMessage   `json:"ruleSet"`
	ID         int64             `json:"id"`
	Version    int64             `json:"version"`
}

// given says whether a part of a body is there.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// schema reads a body that holds a schema.
func (r *request) schema() (b schemaBody, s *Schema, err error) {
	if err := r.body(&b); err != nil {
		return b, nil, err
	}
	switch {
	case b.Type != "" && b.Type != typeAvro:
		err = fmt.Errorf("schema type %.40q: AVRO is what is kept here", b.Type)
	case len(b.References) > 0:
		err = errors.New("references to other schemas are not kept here: write the types out")
	case given(b.Metadata), given(b.RuleSet):
		err = errors.New("metadata and rules are not kept here")
	case b.Schema == nil || strings.TrimSpace(*b.Schema) == "":
		err = errors.New("empty schema")
	default:
		s, err = Parse(*b.Schema)
	}
	if err != nil {
		return b, nil, errorf(CodeInvalidSchema, "Invalid schema: %v", shorten(err.Error()))
	}
	return b, s, nil
}

// maxMessage bounds what an answer repeats of a schema in its message.
const maxMessage = 2000

func shorten(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}
