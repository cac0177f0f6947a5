package etl

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// Whatever a file holds, reading it ends, with an error unless it is whole.
func FuzzReadFile(f *testing.F) {
	dir := f.TempDir()
	s := testSplit()
	s.SchemaRegistry = "http://registry"
	out := newSorter(s, newLocal(vfs.OS(), dir), "", testSchemas{})
	for i := range 3 {
		for _, p := range [][]byte{enveloped(noon, i+1), datum(7, "text", int64(i))} {
			if err := out.add(f.Context(), s.Start, p); err != nil {
				f.Fatal(err)
			}
		}
	}
	made, err := out.finish()
	must(f, err)
	for _, m := range made {
		b, err := os.ReadFile(filepath.Join(dir, filesFolder, m.Name))
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_ = readRaw(bufio.NewReader(bytes.NewReader(b)), func(int64, []byte) error { n++; return nil })
		_ = readContainer(bufio.NewReader(bytes.NewReader(b)), func([]byte) error { n++; return nil })
	})
}
