package rawlimit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server goes on with the files of one before it, without an entry that was
// cut off.
func TestFilesAreGoneOnWith(t *testing.T) {
	for _, path := range []Path{PathFile, PathDisk} {
		addr, dir := serve(t, path)
		c := dial(t, addr, path)
		send(t, c, "q", 3, 0, 1000, 200)
		waitArrived(t, c, "q", 1000)
		entries, err := os.ReadFile(filepath.Join(dir, "71.raw"))
		if err != nil {
			t.Fatal(err)
		}
		other, otherDir := serve(t, path)
		if err := os.WriteFile(filepath.Join(otherDir, "71.raw"), append(entries, entries[:100]...), 0o644); err != nil {
			t.Fatal(err)
		}
		c = dial(t, other, path)
		waitArrived(t, c, "q", 1000)
		send(t, c, "q", 3, 1000, 500, 200)
		waitArrived(t, c, "q", 1500)
		consumer, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		receive(t, consumer, 3, 1500)
		if err := os.WriteFile(filepath.Join(otherDir, "72.raw"), []byte("no entry of ours"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Arrived(t.Context(), "r"); err == nil || !strings.Contains(err.Error(), "none of ours") {
			t.Errorf("path %s: %v", path, err)
		}
	}
}
