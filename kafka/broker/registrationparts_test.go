package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// TestCreatorFile: what is added is there after a crash at any step, and nothing
// that was there is lost by it.
func TestCreatorFile(t *testing.T) {
	for fail := 0; ; fail++ {
		files := vfs.NewMem(time.Now)
		if err := errors.Join(files.Mkdir("/logs"), files.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		c := creatorFile{fs: files, dir: "/logs"}
		if err := errors.Join(c.load(), c.add("h-1")); err != nil || !slices.Equal(c.creators, []string{"h-1"}) {
			t.Fatalf("%v, %v", c.creators, err)
		}
		steps := 0
		files.SetHook(func(vfs.Op) error {
			if steps++; steps == fail {
				return errors.New("no luck")
			}
			return nil
		})
		err := c.add("h-2")
		files.SetHook(nil)
		for _, crashed := range []vfs.FS{files, files.CrashClone(nil)} {
			after := creatorFile{fs: crashed, dir: "/logs"}
			if err := after.load(); err != nil {
				t.Fatalf("step %d: %v", fail, err)
			}
			if !slices.Contains(after.creators, "h-1") || err == nil && !slices.Contains(after.creators, "h-2") {
				t.Errorf("step %d, %v: %v", fail, err, after.creators)
			}
			if err := after.add("h-3"); err != nil || !slices.Contains(after.creators, "h-1") {
				t.Errorf("step %d: %v, %v", fail, after.creators, err)
			}
		}
		if err != nil && !strings.Contains(err.Error(), "/logs/broker.creator") {
			t.Errorf("step %d: %v", fail, err)
		}
		if fail > 0 && steps < fail {
			break
		}
	}
}

func TestCreatorFileBounds(t *testing.T) {
	files := vfs.NewMem(time.Now)
	if err := files.Mkdir("/logs"); err != nil {
		t.Fatal(err)
	}
	c := creatorFile{fs: files, dir: "/logs"}
	for i := range maxCreators + 5 {
		if err := c.add(fmt.Sprintf("h-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.creators) != maxCreators || c.creators[0] != "h-5" {
		t.Errorf("%d creators, first %s", len(c.creators), c.creators[0])
	}
	if last := c.last(); last != "h-104" {
		t.Errorf("last: %s", last)
	}
	if err := c.keepOnly("h-104"); err != nil {
		t.Fatal(err)
	}
	again := creatorFile{fs: files, dir: "/logs"}
	if err := again.load(); err != nil || !slices.Equal(again.creators, []string{"h-104"}) {
		t.Errorf("%v, %v", again.creators, err)
	}
	big, err := files.OpenWrite(filepath.Join("/logs", creatorName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := big.WriteAt(make([]byte, maxCreatorBytes+1), 0); err != nil {
		t.Fatal(err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	if err := again.load(); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
}

func TestAdvertisedHost(t *testing.T) {
	for _, row := range []struct {
		host, listen, servers string
		want                  string // "" for an error
		says                  string
	}{
		{host: "kafka-1.example.org", listen: ":0", servers: "127.0.0.1:1", want: "kafka-1.example.org"},
		{host: "10.1.2.3", listen: "127.0.0.1:0", servers: "127.0.0.1:1", want: "10.1.2.3"},
		{listen: "127.0.0.2:0", servers: "127.0.0.1:1", want: "127.0.0.2"},
		{listen: ":9092", servers: "127.0.0.1:2181", want: "127.0.0.1"},
		{listen: "0.0.0.0:9092", servers: "127.0.0.1/path", want: "127.0.0.1"},
		{listen: "[::]:9092", servers: " 127.0.0.1 , h.invalid:1/path", want: "127.0.0.1"},
		{listen: "localhost:9092", servers: "localhost:2181", want: "127.0.0.1"},
		{host: "fe80::1", listen: ":0", servers: "127.0.0.1:1", says: "--hostname"},
		{listen: "[::1]:0", servers: "127.0.0.1:1", says: "give a host name"},
		{listen: ":0", servers: "[::1]:2181", says: "--hostname"},
	} {
		cfg := DefaultConfig()
		cfg.AdvertisedHost, cfg.Listen, cfg.ZooKeeper.Servers = row.host, row.listen, row.servers
		got, err := advertisedHost(t.Context(), &cfg)
		if got != row.want || (err == nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%+v: %q, %v", row, got, err)
		}
	}
}
