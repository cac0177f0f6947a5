package etl

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hamba/avro/v2/ocf"
)

// TestHambaAvroReadsContainers: the Avro library of hamba/avro, unchanged, reads the
// container files of a load from end to end, and finds the schema's id in the header.
func TestHambaAvroReadsContainers(t *testing.T) {
	s := testSplit()
	s.SchemaRegistry = "http://registry"
	var payloads [][]byte
	const messages = 20_000 // of several blocks
	for i := range messages {
		payloads = append(payloads, datum(7, fmt.Sprint("record ", i), int64(i)))
	}
	dir, made, _ := sort1(t, s, testSchemas{}, payloads...)
	if len(made) != 1 || made[0].Messages != messages {
		t.Fatalf("%+v", made)
	}
	f, err := os.Open(filepath.Join(dir, made[0].Name))
	must(t, err)
	defer f.Close()
	d, err := ocf.NewDecoder(f)
	must(t, err)
	defer func() { must(t, d.Close()) }()
	if id := string(d.Metadata()[schemaIDKey]); id != "7" {
		t.Errorf("the header has schema id %q", id)
	}
	type click struct {
		Text string              `avro:"text"`
		N    *int64              `avro:"n"`
		Tags []string            `avro:"tags"`
		Of   map[string]struct{} `avro:"of"`
		ID   [3]byte             `avro:"id"`
		Next *click              `avro:"next"`
	}
	n := int64(0)
	for ; d.HasNext(); n++ {
		var c click
		if err := d.Decode(&c); err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
		if c.Text != fmt.Sprint("record ", n) || c.N == nil || *c.N != n || len(c.Tags) != 2 || len(c.Of) != 1 || c.ID != [3]byte{'I', 'D', '!'} || c.Next == nil || c.Next.Text != c.Text || c.Next.Next != nil {
			t.Fatalf("record %d: %+v", n, c)
		}
	}
	if d.HasNext() || d.Error() != nil || n != messages {
		t.Errorf("%d records of %d, and then %v", n, messages, d.Error())
	}
}
