package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// FuzzPayload: whatever a payload holds, reading it ends, with a value that can be
// encoded again to the same value, or an error that is short and of a known kind.
func FuzzPayload(f *testing.F) {
	with, err := schema.WithHeader(allTypes)
	if err != nil {
		f.Fatal(err)
	}
	texts := []string{viewV3, allTypes, with, `{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]},{"name":"a","type":{"type":"array","items":"null"}}]}`,
		`{"type":"map","values":["null","string",{"type":"array","items":"double"}]}`, `{"type":"bytes","logicalType":"decimal","precision":20,"scale":5}`}
	url, _ := fakeRegistry(f, func(w http.ResponseWriter, r *http.Request) {
		var id int
		if _, err := fmt.Sscanf(r.URL.Path, "/schemas/ids/%d", &id); err != nil || id > len(texts) {
			w.WriteHeader(404)
			fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
			return
		}
		fmt.Fprintf(w, `{"schema":%s}`, quoted(texts[id-1]))
	})
	c := newClient(f, url)
	for id := range texts {
		f.Add(payloadOf(uint32(id+1), 2, 0, 0))
	}
	if p, err := schema.NewEncoder(2, mustParse(f, allTypes)).AppendJSON(nil, []byte(allJSON)); err == nil {
		f.Add(p)
	}
	if p, err := schema.NewEncoder(3, mustParse(f, with)).AppendJSONWithHeader(nil, []byte(allJSON), header()); err == nil {
		f.Add(p)
	}
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		ctx := t.Context()
		text, err := c.AppendJSON(ctx, nil, payload)
		known := func(err error) bool {
			var bad *schema.PayloadError
			var malformed *envelope.MalformedError
			return errors.As(err, &bad) || errors.As(err, &malformed) || errors.Is(err, envelope.ErrNotEnvelope) ||
				errors.Is(err, schema.ErrUnknownID) || errors.Is(err, schema.ErrUnavailable)
		}
		if err != nil {
			if !known(err) || len(err.Error()) > 4000 {
				t.Fatalf("an error of no kind: %v", err)
			}
		} else if id, _, _ := envelope.OpenSchema(payload); id != 5 { // the order of a map is its own
			s, err := c.Schema(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			again, err := schema.NewEncoder(id, s).AppendJSON(nil, text)
			if err != nil {
				t.Fatalf("%s is printed and not read: %v", text, err)
			}
			if printed, err := c.AppendJSON(ctx, nil, again); err != nil || !bytes.Equal(printed, text) && id != 2 && id != 3 {
				t.Fatalf("%s becomes %s, %v", text, printed, err)
			}
		}
		if h, err := c.Header(ctx, payload); err == nil {
			if err := h.Check(); err != nil {
				t.Fatalf("the header %+v: %v", h, err)
			}
		} else if !known(err) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}

// FuzzParse: whatever a schema's text holds, parsing it ends, and what comes of it is
// the same schema when it is parsed again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{viewV3, allTypes, `"string"`, `["null",{"type":"map","values":"int"}]`, `{"type":"fixed","name":"F","size":1e3}`, `{"type":"array","items":{}}`, ``, `{`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schema.Parse(text)
		if err != nil {
			return
		}
		again, err := schema.Parse(s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("%s is parsed, and then %v, %v", s, again, err)
		}
		if with, err := schema.WithHeader(text); err == nil {
			if _, err := schema.Parse(with); err != nil {
				t.Fatalf("%s has got a header: %v", with, err)
			}
		}
	})
}
