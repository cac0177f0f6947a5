package schema_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// TestHeaderInsideTheSchema: a schema with the field of the audit header carries it, for
// records of all sorts, and it is read without the rest of the record.
func TestHeaderInsideTheSchema(t *testing.T) {
	registry, _, _ := newRegistry(t)
	c := newClient(t, registry.URL)
	ctx := bounded(t)
	h := header()
	for i, row := range []struct{ text, value, printed string }{
		{viewV2, `{"member":5,"page":"p"}`, `"member":5,"page":"p"}`},
		{`{"type":"record","name":"Empty","fields":[]}`, `{}`, `}`},
		{`{"namespace":"a.b","doc":"x","type":"record","name":"Spaced","fields":[{"name":"time","type":"long"}]}`, ` {"time":1} `, `"time":1}`},
		{`{"type":"record","name":"c.d.Full","aliases":["Old"],"fields":[{"name":"in","type":{"type":"record","name":"Inner","fields":[{"name":"header","type":"int"}]}},{"name":"again","type":"Inner"}]}`,
			`{"in":{"header":1},"again":{"header":2}}`, `"in":{"header":1},"again":{"header":2}}`},
		{allTypes, allJSON, allJSON[1:]},
	} {
		with, err := schema.WithHeader(row.text)
		if err != nil {
			t.Fatalf("%s: %v", row.text, err)
		}
		if again, err := schema.WithHeader(with); err != nil || again != with {
			t.Errorf("%s: twice it is %s, %v", with, again, err)
		}
		e, err := c.Encoder(ctx, strings.Repeat("s", i+1), mustParse(t, with))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := e.AppendJSONWithHeader([]byte("x"), []byte(row.value), h)
		if err != nil || payload[0] != 'x' {
			t.Fatalf("%s: %v", row.value, err)
		}
		if got, err := c.Header(ctx, payload[1:]); err != nil || got != h {
			t.Errorf("%s: header %+v, %v\nwant %+v", row.text, got, err, h)
		}
		if text, err := c.AppendJSON(ctx, nil, payload[1:]); err != nil || !bytes.HasPrefix(text, []byte(`{"header":{"time":1790000000123,"server":"front \"1\" é","producer":"`)) || !bytes.HasSuffix(text, []byte(row.printed)) {
			t.Errorf("%s: prints %s, %v", row.text, text, err)
		}
	}
}

// TestHeaderThatIsNotThere: messages without an audit header, and payloads that are
// none, are told apart from a registry that does not answer.
func TestHeaderThatIsNotThere(t *testing.T) {
	registry, _, _ := newRegistry(t)
	c := newClient(t, registry.URL)
	ctx := bounded(t)
	with, err := schema.WithHeader(viewV1)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(subject, text, value string) []byte {
		t.Helper()
		e, err := c.Encoder(ctx, subject, mustParse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.AppendJSON(nil, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const other = `{"type":"record","name":"R","fields":[{"name":"header","type":"string"}]}`
	for name, payload := range map[string][]byte{
		"a schema without":  encode("a", viewV1, `{"member":1}`),
		"another header":    encode("b", other, `{"header":"x"}`),
		"no record":         encode("c", `"string"`, `"x"`),
		"made without":      encode("d", with, `{"member":1}`),
		"a union":           encode("e", `["null","string"]`, `null`),
		"an array of those": encode("f", `{"type":"array","items":`+viewV1+`}`, `[]`),
	} {
		if h, err := c.Header(ctx, payload); !errors.Is(err, schema.ErrNoHeader) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	full := encode("d", with, `{"header":{"time":1,"server":"s","producer":"0123456789abcdef","sequence":1},"member":1}`)
	if h, err := c.Header(ctx, full); err != nil || h.Sequence != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	var bad *schema.PayloadError
	for n := range full {
		if h, err := c.Header(ctx, full[:n]); err == nil || n > 5 && !errors.As(err, &bad) {
			t.Fatalf("%d bytes of it: %+v, %v", n, h, err)
		}
	}
	if _, err := c.Header(ctx, append(full, 0)); !errors.As(err, &bad) {
		t.Errorf("a tail: %v", err)
	}
	if _, err := c.Header(ctx, []byte("KLA")); !errors.Is(err, envelope.ErrNotEnvelope) {
		t.Errorf("a plain envelope: %v", err)
	}
}

// TestHeaderCannotBeAdded: schemas that cannot have the field, and values.
func TestHeaderCannotBeAdded(t *testing.T) {
	for _, text := range []string{
		`"string"`, `["null","string"]`, `{"type":"array","items":"int"}`, `{"type":"enum","name":"E","symbols":["A"]}`, `{`, ``,
		`{"type":"record","name":"R","fields":[{"name":"header","type":"string"}]}`,
		`{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"fixed","name":"kafkalab.AuditHeader","size":1}}]}`,
	} {
		if got, err := schema.WithHeader(text); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
	with, err := schema.WithHeader(viewV1)
	if err != nil {
		t.Fatal(err)
	}
	e := schema.NewEncoder(1, mustParse(t, with))
	for _, value := range []string{``, `5`, `null`, `[]`, `{`, `{"header":{},"member":1}`, `{"member":"x"}`} {
		if got, err := e.AppendJSONWithHeader([]byte("x"), []byte(value), header()); err == nil || string(got) != "x" {
			t.Errorf("%s: %x, %v", value, got, err)
		}
	}
	if _, err := e.AppendJSONWithHeader(nil, []byte(`{"member":1}`), envelope.Header{}); err == nil {
		t.Error("an empty header")
	}
	large := header()
	large.Sequence = 1 << 63
	if _, err := e.AppendJSONWithHeader(nil, []byte(`{"member":1}`), large); err == nil {
		t.Error("a sequence beyond a long")
	}
	without := schema.NewEncoder(1, mustParse(t, viewV1))
	if got, err := without.AppendJSONWithHeader(nil, []byte(`{"member":1}`), header()); !errors.Is(err, schema.ErrNoHeader) {
		t.Errorf("a schema without the field: %x, %v", got, err)
	}
}

// TestHeaderCanBeAddedLater: a subject whose schema gets the field stays compatible both
// ways.
func TestHeaderCanBeAddedLater(t *testing.T) {
	_, store, _ := newRegistry(t)
	if err := store.SetLevel(bounded(t), "", schema.FullTransitive); err != nil {
		t.Fatal(err)
	}
	register(t, store, "s", viewV1)
	with, err := schema.WithHeader(viewV2)
	if err != nil {
		t.Fatal(err)
	}
	if v := register(t, store, "s", with); v.Version != 2 {
		t.Errorf("%+v", v)
	}
}
