package etl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/avro/ocf"
)

// The Avro containers are read by a reader that others have written, that of twmb/avro.
func TestContainersAreReadByOthers(t *testing.T) {
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
	r, err := ocf.NewReader(f)
	must(t, err)
	for n := range int64(messages) {
		var c map[string]any
		if err := r.Decode(&c); err != nil || c["text"] != fmt.Sprint("record ", n) || c["n"] != n {
			t.Fatalf("record %d: %+v, %v", n, c, err)
		}
	}
	if err := r.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last record: %v", err)
	}
}
