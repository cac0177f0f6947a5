package schema_test

import (
	"net/http"
	"reflect"
	"testing"

	hamba "github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/registry"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// allTypes has a field of each type that Avro has.
const allTypes = `{"type":"record","name":"All","namespace":"test","fields":[
	{"name":"yes","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"d","type":"double"},
	{"name":"s","type":"string"},{"name":"b","type":"bytes"},{"name":"x","type":{"type":"fixed","name":"X","size":3}},
	{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"a","type":{"type":"array","items":"long"}},
	{"name":"m","type":{"type":"map","values":"string"}},{"name":"u","type":["null","string","long"]},{"name":"n","type":"null"}]}`

const allJSON = `{"yes":true,"i":-7,"l":9007199254740993,"f":1.5,"d":-0.1,"s":"aé\n","b":"\u0000\u00ff","x":"abc","e":"B","a":[1,-2],"m":{"k":"v"},"u":{"string":"x"},"n":null}`

// TestHambaAvroReadsPayloads: the Avro library and the registry client of hamba/avro,
// unchanged, read a payload of ours, looking its schema up at our registry; and ours
// reads what its writer has written.
func TestHambaAvroReadsPayloads(t *testing.T) {
	r, _, _ := newRegistry(t)
	ctx := bounded(t)
	e, err := newClient(t, r.URL).Encoder(ctx, "all-value", mustParse(t, allTypes))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := e.AppendJSON(nil, []byte(allJSON))
	if err != nil {
		t.Fatal(err)
	}
	c, err := registry.NewClient(r.URL, registry.WithHTTPClient(&http.Client{Transport: httpClient.Transport, Timeout: patience}))
	if err != nil {
		t.Fatal(err)
	}
	type all struct {
		Yes bool              `avro:"yes"`
		I   int               `avro:"i"`
		L   int64             `avro:"l"`
		F   float32           `avro:"f"`
		D   float64           `avro:"d"`
		S   string            `avro:"s"`
		B   []byte            `avro:"b"`
		X   [3]byte           `avro:"x"`
		E   string            `avro:"e"`
		A   []int64           `avro:"a"`
		M   map[string]string `avro:"m"`
		U   any               `avro:"u"`
		N   any               `avro:"n"`
	}
	want := all{true, -7, 9007199254740993, 1.5, -0.1, "aé\n", []byte{0, 255}, [3]byte{'a', 'b', 'c'}, "B", []int64{1, -2}, map[string]string{"k": "v"}, "x", nil}
	var got all
	if err := registry.NewDecoder(c).Decode(ctx, payload, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it reads %+v, %v\nwant %+v", got, err, want)
	}
	datum, err := hamba.Marshal(hamba.MustParse(allTypes), want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := newClient(t, r.URL).AppendJSON(ctx, nil, envelope.AppendSchema(nil, e.ID(), datum))
	if err != nil || string(text) != allJSON {
		t.Errorf("ours prints %s, %v\nwant %s", text, err, allJSON)
	}
}

// TestHambaAvroReadsTheAuditHeader: the audit header is a record inside the schema, so
// a tool that knows nothing of it finds it as a field like others.
func TestHambaAvroReadsTheAuditHeader(t *testing.T) {
	r, _, _ := newRegistry(t)
	ctx := bounded(t)
	with, err := schema.WithHeader(viewV2)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newClient(t, r.URL).Encoder(ctx, "views-value", mustParse(t, with))
	if err != nil {
		t.Fatal(err)
	}
	h := header()
	payload, err := e.AppendJSONWithHeader(nil, []byte(`{"member":5,"page":"p"}`), h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := registry.NewClient(r.URL, registry.WithHTTPClient(httpClient))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := registry.NewDecoder(c).Decode(ctx, payload, &got); err != nil {
		t.Fatal(err)
	}
	read, ok := got["header"].(map[string]any)
	if !ok || got["member"] != int64(5) || got["page"] != "p" {
		t.Fatalf("it reads %v", got)
	}
	producer, _ := read["producer"].([16]byte)
	if read["server"] != h.Server || envelope.ProducerID(producer) != h.Producer || read["sequence"] != int64(h.Sequence) {
		t.Errorf("it reads the header %v, want %+v", read, h)
	}
}
