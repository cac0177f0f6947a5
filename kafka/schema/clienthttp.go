package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxAnswerBytes is the longest answer that a client reads.
	maxAnswerBytes = 2 << 20
	// maxLookups is how many requests of a client are under way at once.
	maxLookups = 8
)

func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxConnsPerHost:        maxLookups,
			MaxIdleConns:           maxLookups,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
	}
}

// do sends a request and reads the answer into into. The error is an [*Error] that the
// registry has answered with, or wraps [ErrUnavailable].
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s%s: %w", method, c.cfg.URL, path, err)
		}
		in = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.cfg.URL+path, in)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.Header.Set("Accept", ContentType)
	if body != nil {
		r.Header.Set("Content-Type", ContentType)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err) // it names method and address
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s %s%s: %w", ErrUnavailable, method, c.cfg.URL, path, err)
	case len(text) > maxAnswerBytes:
		return fmt.Errorf("%w: %s %s%s: the answer has more than %d bytes", ErrUnavailable, method, c.cfg.URL, path, maxAnswerBytes)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s%s: %w", method, c.cfg.URL, path, refusal(answer.StatusCode, text))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %s %s%s: no registry answers so: %w", ErrUnavailable, method, c.cfg.URL, path, err)
	}
	return nil
}

// refusal returns what an answer that is no success says.
func refusal(status int, text []byte) error {
	var said struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &said); err != nil || said.Code == 0 {
		return fmt.Errorf("%w: it answers with status %d, and not as a registry does", ErrUnavailable, status)
	}
	e := &Error{Code: said.Code, Message: shorten(said.Message)}
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return fmt.Errorf("%w: %w", ErrUnavailable, e)
	}
	return e
}

// fetch asks the registry for the schema of an id.
func (c *Client) fetch(ctx context.Context, id uint32) (*Schema, error) {
	var answer struct {
		Schema string `json:"schema"`
		Type   string `json:"schemaType"`
	}
	err := c.do(ctx, http.MethodGet, "/schemas/ids/"+strconv.FormatUint(uint64(id), 10), nil, &answer)
	var said *Error
	switch {
	case errors.Is(err, ErrUnavailable):
		return nil, fmt.Errorf("schema %d: %w", id, err)
	case errors.As(err, &said) && said.Code/100 == http.StatusNotFound:
		return nil, fmt.Errorf("%w %d: %w", ErrUnknownID, id, err)
	case said != nil: // who may not ask, or asks what is no registry, learns nothing of the id
		return nil, fmt.Errorf("schema %d: %w: %w", id, ErrUnavailable, err)
	case err != nil:
		return nil, fmt.Errorf("schema %d: %w", id, err)
	case answer.Type != "" && answer.Type != typeAvro:
		return nil, fmt.Errorf("%w %d: it is of type %.40q, and not AVRO", ErrUnknownID, id, answer.Type)
	}
	s, err := Parse(answer.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w %d: what %s has for it cannot be used: %w", ErrUnknownID, id, c.cfg.URL, err)
	}
	return s, nil
}

// Register gives a schema a version of a subject, and returns its id: the one that it
// has already, if it does. Errors are an [*Error] of the registry, which may refuse
// it, or wrap [ErrUnavailable].
func (c *Client) Register(ctx context.Context, subject string, s *Schema) (uint32, error) {
	var answer struct {
		ID uint32 `json:"id"`
	}
	body := struct {
		Schema string `json:"schema"`
	}{s.text}
	if err := c.do(ctx, http.MethodPost, "/subjects/"+url.PathEscape(subject)+"/versions", body, &answer); err != nil {
		return 0, fmt.Errorf("register a schema for subject %q: %w", subject, err)
	}
	if answer.ID == 0 || answer.ID > MaxID {
		return 0, fmt.Errorf("%w: register a schema for subject %q: it answers with id %d", ErrUnavailable, subject, answer.ID)
	}
	c.learn(answer.ID, s)
	return answer.ID, nil
}

// Encoder registers a schema for a subject and returns an encoder for it.
func (c *Client) Encoder(ctx context.Context, subject string, s *Schema) (*Encoder, error) {
	id, err := c.Register(ctx, subject, s)
	if err != nil {
		return nil, err
	}
	return NewEncoder(id, s), nil
}
