package etl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/schema"
)

// sort1 sorts payloads of one split and returns the files by name, and the counts.
func sort1(t *testing.T, s Split, schemas SchemaSource, payloads ...[]byte) (string, []Made, Counts) {
	t.Helper()
	dir := t.TempDir()
	out := newSorter(s, newLocal(vfs.OS(), dir), "", schemas)
	for i, p := range payloads {
		must(t, out.add(testContext(t), s.Start+int64(i), p))
	}
	made, err := out.finish()
	must(t, err)
	for _, m := range made {
		info, err := os.Stat(filepath.Join(dir, filesFolder, m.Name))
		must(t, err)
		if info.Size() != m.Bytes {
			t.Errorf("%s has %d bytes, and %d are told", m.Name, info.Size(), m.Bytes)
		}
	}
	return filepath.Join(dir, filesFolder), made, out.counts
}

func testSplit() Split {
	return Split{
		Plan: newPlanID(1, noon, false), Partition: Partition{"clicks", 3, 1}, Address: "127.0.0.1:1", Start: 1000, End: 1 << 40,
		Settings: Settings{By: ByEnvelope, ArrivalMs: noon.UnixMilli(), MaxLateMs: DefaultMaxLate.Milliseconds(), MaxAheadMs: DefaultMaxAhead.Milliseconds()},
	}
}

// Messages are filed under the day of their making; those that tell none, or one that is
// too far off, under their arrival, and counted.
func TestDays(t *testing.T) {
	at := func(d time.Duration) []byte { return enveloped(noon.Add(d), 1) }
	broken := at(0)
	broken[3] = 99
	const hour, day = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		name    string
		payload []byte
		by      By
		day     string
		counts  Counts
	}{
		{"now", at(0), ByEnvelope, "2026/11/29", Counts{}},
		{"yesterday", at(-13 * hour), ByEnvelope, "2026/11/28", Counts{}},
		{"midnight", at(-12 * hour), ByEnvelope, "2026/11/29", Counts{}},
		{"a millisecond before", at(-12*hour - time.Millisecond), ByEnvelope, "2026/11/28", Counts{}},
		{"as late as may be", at(-7 * day), ByEnvelope, "2026/11/22", Counts{}},
		{"later", at(-7*day - time.Millisecond), ByEnvelope, "2026/11/29", Counts{TooLate: 1}},
		{"clocks off by minutes", at(59 * time.Minute), ByEnvelope, "2026/11/29", Counts{}},
		{"tomorrow", at(13 * hour), ByEnvelope, "2026/11/29", Counts{TooEarly: 1}},
		{"the end of time", enveloped(envelope.MaxTime, 1), ByEnvelope, "2026/11/29", Counts{TooEarly: 1}},
		{"1970", enveloped(time.UnixMilli(0), 1), ByEnvelope, "2026/11/29", Counts{TooLate: 1}},
		{"no envelope", []byte("hello"), ByEnvelope, "2026/11/29", Counts{NoEnvelope: 1}},
		{"nothing", nil, ByEnvelope, "2026/11/29", Counts{NoEnvelope: 1}},
		{"looks like one", broken, ByEnvelope, "2026/11/29", Counts{BadEnvelope: 1}},
		{"by arrival", at(-13 * hour), ByArrival, "2026/11/29", Counts{}},
	} {
		s := testSplit()
		s.By = c.by
		_, made, counts := sort1(t, s, nil, c.payload)
		c.counts.Messages, c.counts.Bytes = 1, int64(len(c.payload))
		want := fmt.Sprintf("clicks/%s/3-1-1000-%d.gz", c.day, int64(1<<40))
		if len(made) != 1 || made[0].Name != want || counts != c.counts {
			t.Errorf("%s: %v, %+v, want %s, %+v", c.name, made, counts, want, c.counts)
		}
	}
}

// A task with very many days keeps them apart, in bounded memory, and large messages
// come through whole.
func TestManyFilesAndLargeMessages(t *testing.T) {
	s := testSplit()
	s.MaxLateMs = (10 * 365 * 24 * time.Hour).Milliseconds()
	var payloads [][]byte
	want := map[string]int{}
	for i := range 1200 {
		size := 100
		if i%80 == 7 {
			size = 700_000
		}
		h := envelope.Header{Time: noon.Add(-time.Duration(i%200) * 24 * time.Hour), Server: "s", Producer: envelope.ProducerID{1}, Sequence: uint64(i + 1)}
		p := envelope.Append(nil, h, []byte(strings.Repeat(string(rune('a'+i%26)), size)))
		payloads = append(payloads, p)
		want[string(p)]++
	}
	dir, made, counts := sort1(t, s, nil, payloads...)
	if len(made) != 200 || counts.Messages != 1200 {
		t.Fatalf("%d files of %d messages", len(made), counts.Messages)
	}
	readOutput(t, vfs.OS(), dir).holdsEach(t, want)
}

// One message after another costs no allocation.
func TestSortingDoesNotAllocate(t *testing.T) {
	out := newSorter(testSplit(), newLocal(vfs.OS(), t.TempDir()), "", nil)
	p := enveloped(noon, 7)
	ctx := testContext(t)
	n := int64(1000)
	add := func() {
		n++
		if err := out.add(ctx, n, p); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * pieceBytes / len(p) { // until all buffers have their size
		add()
	}
	if got := testing.AllocsPerRun(1000, add); got > 0.1 {
		t.Errorf("%v allocations for a message", got)
	}
}

// A file that was cut at any byte, even between two parts of it, or in which a byte was
// changed, is refused.
func TestTornFiles(t *testing.T) {
	var raw, avro [][]byte
	for i := range 12 {
		raw = append(raw, enveloped(noon, i+1))
		avro = append(avro, datum(7, fmt.Sprint("record ", i), int64(i)))
	}
	s := testSplit()
	dir, made, _ := sort1(t, s, nil, raw...)
	s.SchemaRegistry = "http://registry"
	dir2, made2, _ := sort1(t, s, testSchemas{}, avro...)
	for _, name := range []string{filepath.Join(dir, made[0].Name), filepath.Join(dir2, made2[0].Name)} {
		whole, err := os.ReadFile(name)
		must(t, err)
		count := func(b []byte) (n int, err error) {
			err = readFrom(bytes.NewReader(b), name, func(int64, []byte) error { n++; return nil })
			return n, err
		}
		if n, err := count(whole); n != 12 || err != nil {
			t.Fatalf("%s: %d messages, %v", name, n, err)
		}
		for cut := range whole {
			if n, err := count(whole[:cut]); !errors.Is(err, ErrTorn) || n > 12 {
				t.Fatalf("%s: cut to %d of %d bytes: %d messages, %v", name, cut, len(whole), n, err)
			}
		}
		cut := filepath.Join(t.TempDir(), filepath.Base(name))
		must(t, os.WriteFile(cut, whole[:len(whole)-1], 0o644))
		if err := ReadFile(cut, func(int64, []byte) error { return nil }); !errors.Is(err, ErrTorn) || !strings.Contains(err.Error(), cut) {
			t.Errorf("%s without its last byte: %v", cut, err)
		}
		if _, err := count(append(slices.Clone(whole), 0)); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: with a byte more: %v", name, err)
		}
		if _, err := count(append(slices.Clone(whole), whole...)); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: twice: %v", name, err)
		}
		if !strings.HasSuffix(name, rawSuffix) {
			continue // deflate has no checksum, and text of a header is not looked at
		}
		for at := 10; at < len(whole); at++ { // behind the header of gzip, whose time and system mean nothing
			changed := slices.Clone(whole)
			changed[at] ^= 0x10
			if n, err := count(changed); err == nil && n != 12 {
				t.Fatalf("%s: byte %d changed: %d messages and no error", name, at, n)
			}
		}
	}
}

// An error of who reads comes back as it is.
func TestReadFileStops(t *testing.T) {
	dir, made, _ := sort1(t, testSplit(), nil, []byte("a"), []byte("b"))
	stop := errors.New("enough")
	n := 0
	err := ReadFile(filepath.Join(dir, made[0].Name), func(int64, []byte) error { n++; return stop })
	if err != stop || n != 1 {
		t.Errorf("%d messages, %v", n, err)
	}
}

// schemaText is a schema with a header, of two fields.
const schemaText = `{"type":"record","name":"Click","namespace":"test","fields":[
	{"name":"header","type":{"type":"record","name":"AuditHeader","fields":[{"name":"time","type":"long"}]}},
	{"name":"text","type":"string"},{"name":"n","type":["null","long"]},
	{"name":"tags","type":{"type":"array","items":"string"}},{"name":"of","type":{"type":"map","values":"AuditHeader"}},
	{"name":"id","type":{"type":"fixed","name":"ID","size":3}},{"name":"next","type":["null","Click"]}]}`

// datum returns a payload of schemaText, made at noon yesterday.
func datum(id uint32, text string, n int64) []byte {
	made := noon.Add(-24 * time.Hour).UnixMilli()
	var b []byte
	for i := range 2 { // it contains another one of its kind
		b = binary.AppendVarint(b, made)
		b = binary.AppendVarint(b, int64(len(text)))
		b = append(b, text...)
		b = binary.AppendVarint(b, 1)
		b = binary.AppendVarint(b, n)
		b = append(b, 2, 2, 'x', 1, 4, 2, 'y', 0) // tags: a block of one, and one that tells its length
		b = append(b, 2, 2, 'k', 2, 0)            // of: {"k": {1}}
		b = append(b, 'I', 'D', '!', byte(2-2*i)) // id, and the branch of next
	}
	return envelope.AppendSchema(nil, id, b)
}

// testSchemas stands in for a registry's client: it knows ids 7 and 8, does not know 9,
// and is down for 10.
type testSchemas struct{}

var errRegistryDown = errors.New("the registry is down")

func (testSchemas) Text(_ context.Context, id uint32) (string, error) {
	switch id {
	case 7, 8:
		return schemaText, nil
	case 9:
		return "", fmt.Errorf("id 9: %w", ErrNoSchema)
	}
	return "", errRegistryDown
}

func (testSchemas) Header(_ context.Context, payload []byte) (envelope.Header, error) {
	_, avro, err := envelope.OpenSchema(payload)
	if err != nil {
		return envelope.Header{}, err
	}
	ms, _ := binary.Varint(avro)
	return envelope.Header{Time: time.UnixMilli(ms)}, nil
}

// Payloads with schemas go into one container for each schema, those that do not fit
// theirs are kept raw and counted, and a registry that is down fails the attempt.
func TestSchemas(t *testing.T) {
	s := testSplit()
	s.SchemaRegistry = "http://registry"
	payloads := [][]byte{
		datum(7, "a", 1), datum(8, "b", 2), datum(7, "c", 3),
		datum(9, "unknown id", 4), datum(7, "cut", 5)[:20], append(datum(7, "more", 6), 0),
		enveloped(noon, 1), []byte("plain"), {0, 1}, {0, 0, 0, 0, 7},
	}
	dir, made, counts := sort1(t, s, testSchemas{}, payloads...)
	names := map[string]int64{}
	for _, m := range made {
		names[m.Name] = m.Messages
	}
	base := fmt.Sprintf("3-1-1000-%d", int64(1<<40))
	want := map[string]int64{
		"clicks/2026/11/28/" + base + "-s7.avro": 2, "clicks/2026/11/28/" + base + "-s8.avro": 1, "clicks/2026/11/29/" + base + ".gz": 7,
	}
	if !maps.Equal(names, want) || counts.NoSchema != 7 || counts.Messages != 10 {
		t.Errorf("files %v, want %v; %+v", names, want, counts)
	}
	sent := map[string]int{}
	for _, p := range payloads {
		sent[string(p)]++
	}
	readOutput(t, vfs.OS(), dir).holdsEach(t, sent)

	out := newSorter(s, newLocal(vfs.OS(), t.TempDir()), "", testSchemas{})
	if err := out.add(testContext(t), 1000, datum(10, "?", 1)); !errors.Is(err, errRegistryDown) {
		t.Errorf("while the registry is down: %v", err)
	}
	// Without a registry bytes are bytes.
	s.SchemaRegistry = ""
	if _, made, counts := sort1(t, s, testSchemas{}, payloads...); len(made) != 1 || counts.NoSchema != 0 {
		t.Errorf("%v, %+v", made, counts)
	}
}

// clientSchemas is a client of a schema registry as a load has it.
type clientSchemas struct{ *schema.Client }

func (c clientSchemas) Text(ctx context.Context, id uint32) (string, error) {
	s, err := c.Schema(ctx, id)
	if errors.Is(err, schema.ErrUnknownID) {
		return "", fmt.Errorf("%w: %w", ErrNoSchema, err)
	}
	if err != nil {
		return "", err
	}
	return s.String(), nil
}

// More payloads that only look as if they had a schema than a client asks for ids in a time
// are kept raw, as few are.
func TestManyUnknownSchemas(t *testing.T) {
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
	}))
	defer registry.Close()
	client, err := schema.NewClient(schema.ClientConfig{URL: registry.URL, UnknownInterval: time.Second, AwaitTurn: true})
	must(t, err)
	defer client.Close()
	s := testSplit()
	s.SchemaRegistry = registry.URL
	out := newSorter(s, newLocal(vfs.OS(), t.TempDir()), "", clientSchemas{client})
	ctx := testContext(t)
	for id := range uint32(2500) {
		must(t, out.add(ctx, 1000+int64(id), envelope.AppendSchema(nil, id+1, []byte("?"))))
	}
	made, err := out.finish()
	must(t, err)
	if out.counts.NoSchema != 2500 || len(made) != 1 || made[0].Messages != 2500 {
		t.Errorf("%+v, %+v", out.counts, made)
	}
}

// A whole load of a topic with schemas, from a broker; and one whose registry is down
// publishes nothing.
func TestLoadWithSchemas(t *testing.T) {
	c := startCluster(t, 1)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	c.send(0, "clicks", 0, message.CodecGzip, datum(7, "a", 1), datum(8, "b", 2), datum(9, "?", 3))
	cfg := c.config("clicks")
	cfg.SchemaRegistry = "http://registry"
	cfg.Map.Schemas = testSchemas{}
	m, err := f.Run(testContext(t), cfg)
	must(t, err)
	if len(m.Files) != 3 || m.NoSchema != 1 {
		t.Errorf("%+v", m)
	}
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
	c.send(0, "clicks", 0, message.CodecNone, datum(10, "later", 1))
	if m, err := f.Run(testContext(t), cfg); m != nil || !errors.Is(err, errRegistryDown) {
		t.Errorf("%+v, %v", m, err)
	}
	cfg.Map.Schemas = nil
	if _, err := f.Run(testContext(t), cfg); err == nil {
		t.Error("no error without a client of the registry")
	}
}
