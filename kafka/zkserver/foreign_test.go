package zkserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolderOfBroker: the log folder of a broker is no data folder, and nothing is
// made in it.
func TestFolderOfBroker(t *testing.T) {
	t.Parallel()
	for file, refused := range map[string]bool{
		".lock":                               true,
		".kafka_cleanshutdown":                true,
		"broker.creator":                      true,
		"broker.id":                           true,
		"clicks-0/00000000000000000000.kafka": true,
		"notes.txt":                           false,
		"clicks-0/notes.txt":                  false,
		"lock":                                false,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", DataDir: dir, Logger: quiet()})
		if (err != nil) != refused {
			t.Errorf("%s: %v", file, err)
		}
		if err == nil {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			continue
		}
		if text := err.Error(); !strings.Contains(text, dir) || !strings.Contains(text, "log folder of a broker, as "+file) {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "lock")); !os.IsNotExist(err) {
			t.Errorf("%s: a lock was made: %v", file, err)
		}
	}
}
