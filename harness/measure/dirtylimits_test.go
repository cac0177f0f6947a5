package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settings writes files that stand for the kernel's.
func settings(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestDirtyLimits(t *testing.T) {
	counters := filepath.Join(settings(t, map[string]string{"vmstat": "nr_dirty 1\nnr_dirty_threshold 1000\nnr_dirty_background_threshold 500\n"}), "vmstat")
	byRatio := map[string]string{"dirty_ratio": "20\n", "dirty_bytes": "0\n", "dirty_background_ratio": "10\n", "dirty_background_bytes": "0\n"}
	for _, c := range []struct {
		name            string
		files           map[string]string
		kept, restored  map[string]string
		counters, fails string
	}{
		{"by ratio", byRatio,
			map[string]string{"dirty_bytes": "4096000", "dirty_background_bytes": "2048000"},
			map[string]string{"dirty_ratio": "20", "dirty_background_ratio": "10"}, counters, ""},
		{"in bytes already", map[string]string{"dirty_ratio": "0", "dirty_bytes": "77", "dirty_background_ratio": "0", "dirty_background_bytes": "7"},
			map[string]string{"dirty_bytes": "77", "dirty_background_bytes": "7"},
			map[string]string{"dirty_ratio": "0", "dirty_bytes": "77", "dirty_background_ratio": "0", "dirty_background_bytes": "7"}, counters, ""},
		{"not there", map[string]string{}, nil, nil, counters, "vm.dirty_bytes"},
		{"not known", byRatio, nil, map[string]string{"dirty_bytes": "0\n"}, filepath.Join(settings(t, map[string]string{"empty": ""}), "empty"), "no nr_dirty_threshold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := settings(t, c.files)
			holds := func(what string, want map[string]string) {
				t.Helper()
				for name, value := range want {
					if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != value {
						t.Errorf("%s: %s holds %q, %v; want %q", what, name, got, err, value)
					}
				}
			}
			d, err := keepDirtyLimits(folder, c.counters, 4096)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("%v", err)
			}
			if err == nil {
				holds("kept", c.kept)
				if err := d.Restore(); err != nil {
					t.Error(err)
				}
				if err := d.Restore(); err != nil {
					t.Error(err)
				}
			}
			holds("restored", c.restored)
		})
	}
}
