package measure

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Too much that is free is taken a step at a time, up to all there is; too little
// is made up for at once, as far as what is held reaches; in between nothing moves.
func TestHoldingBalances(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, 3*holdStep, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	}()
	free := int64(0)
	h := holding{memory: memory, free: func() (int64, error) { return free, nil }}
	for _, c := range []struct {
		name string
		free int64
		held int
		more bool
	}{
		{"enough", holdMost, 0, false},
		{"much", holdMost + 1, 1, true},
		{"much", 1 << 40, 2, true},
		{"just enough", holdLeast, 2, false},
		{"much", 1 << 40, 3, true},
		{"nothing left to take it to", 1 << 40, 3, false},
		{"less than a step too little", (holdLeast+holdMost)/2 - 2*holdStep, 3, false},
		{"all", 0, 0, false},
		{"nothing to give", 0, 0, false},
	} {
		free = c.free
		more, err := h.balance(holdMost)
		if err != nil || more != c.more || h.held != c.held*holdStep {
			t.Errorf("%s, %d free: %d held, more %v, %v; want %d, %v", c.name, c.free, h.held, more, err, c.held*holdStep, c.more)
		}
	}
}

// What is left free is touched and given up again, as far as it may be.
func TestHoldingTouches(t *testing.T) {
	h, err := newHolding(4 * holdStep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(h.memory); err != nil {
			t.Error(err)
		}
	}()
	const all = touchMost + 2*holdStep + 1
	h.free = func() (int64, error) { return all - int64(h.held), nil }
	got, err := h.touchFree(t.Context())
	if err != nil || got.TouchedBytes != 3*holdStep || got.Bytes != 0 || h.held != 0 || got.Seconds <= 0 {
		t.Errorf("%+v, %d held, %v", got, h.held, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := h.touchFree(ended); err != nil || got.TouchedBytes != 0 {
		t.Errorf("after its end: %+v, %v", got, err)
	}
}

// It holds no more than it may, says so, touches when it is asked to, and ends with
// its context.
func TestHoldMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan bool, 1)
	var told []Held
	err := HoldMemory(ctx, 2*holdStep+1, asked, func(h Held) {
		switch told = append(told, h); len(told) {
		case 1:
			asked <- true
		case 2:
			asked <- false
		default:
			cancel()
		}
	})
	if err != nil || len(told) != 3 || told[0].Seconds > 0 || told[1].Seconds <= 0 || told[2].Seconds > 0 {
		t.Errorf("%+v, %v", told, err)
	}
	for _, h := range told {
		if h.Bytes < 0 || h.Bytes > 2*holdStep {
			t.Errorf("%+v", told)
		}
	}
	if err := HoldMemory(ctx, 0, nil, func(Held) { t.Error("told after its end") }); err != nil {
		t.Error(err)
	}
}

// What has come free by the time of a question is held before its answer.
func TestHoldingAnswersOnceItHolds(t *testing.T) {
	h, err := newHolding(3 * holdStep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(h.memory); err != nil {
			t.Error(err)
		}
	}()
	free := int64(holdMost)
	h.free = func() (int64, error) { return free, nil }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan bool, 1)
	var told []int64
	err = h.hold(ctx, asked, func(got Held) {
		if told = append(told, got.Bytes); len(told) == 2 {
			cancel()
		}
		free = 1 << 40
		asked <- false
	})
	if err != nil || !slices.Equal(told, []int64{0, 3 * holdStep}) {
		t.Errorf("%v held, %v", told, err)
	}
}

// Only a balloon that tells its host what is free has it taken back.
func TestTakesMemoryBack(t *testing.T) {
	const virtio, hyperV = "virtio/drivers/virtio_balloon/virtio0", "vmbus/drivers/hv_balloon/1eccfd72-4b41-45ef-b73a-4a6e44c12924"
	for _, c := range []struct {
		name, device, features string
		want                   bool
	}{
		{"none", "virtio/drivers/virtio_net/virtio0", "1111111", false},
		{"that reports", virtio, "0110010100", true},
		{"that does not", virtio, "0111101111", false},
		{"that says little", virtio, "01111", false},
		{"that says nothing", virtio, "", true},
		{"of Hyper-V", hyperV, "", true},
	} {
		buses := t.TempDir()
		device := filepath.Join(buses, c.device)
		if err := os.MkdirAll(device, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.features != "" {
			if err := os.WriteFile(filepath.Join(device, "features"), []byte(c.features+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := takesMemoryBack(buses); got != c.want {
			t.Errorf("a balloon %s: %v", c.name, got)
		}
	}
}

// The least limit of a process's groups counts, of either version and in a container.
func TestMemoryLimitOfControlGroups(t *testing.T) {
	for _, c := range []struct {
		name, own string
		files     map[string]string // by path; others are not there
		limit     int64
		file      string
	}{
		{"none", "", nil, 0, ""},
		{"version 2, none", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "max\n"}, 0, ""},
		{"version 2, of a group above", "0::/a/b\n", map[string]string{"a/b/memory.max": "9000\n", "a/memory.max": "7000\n", "memory.max": "8000"}, 7000, "a/memory.max"},
		{"version 2, of another group", "0::/a\n", map[string]string{"b/memory.max": "7000\n"}, 0, ""},
		{"version 2, a container", "0::/\n", map[string]string{"memory.max": "7000\n"}, 7000, "memory.max"},
		{"version 1", "5:cpu,memory:/a\n4:cpu:/b\n0::/c\n", map[string]string{"memory/a/memory.limit_in_bytes": "7000\n", "memory/memory.limit_in_bytes": "9223372036854771712\n", "b/memory.max": "5"}, 7000, "memory/a/memory.limit_in_bytes"},
		{"version 1, a container", "4:memory:/docker/0123\n", map[string]string{"memory/memory.limit_in_bytes": "7000\n"}, 7000, "memory/memory.limit_in_bytes"},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file := c.file
		if file != "" {
			file = filepath.Join(root, file)
		}
		if limit, got := memoryLimit(root, c.own); limit != c.limit || got != file {
			t.Errorf("%s: %d of %q", c.name, limit, got)
		}
	}
}
