package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Memory that a machine's host takes back, and how it is kept from that.
//
// A virtual machine with a balloon tells its host which memory is free, and the
// host takes it back (free page reporting). It gives it again when it is written
// to, a page at a time and at a few hundred MB/s or much less, which a broker pays
// that writes messages into the page cache, and so does the limit that it is held
// against: some attempts do and others do not, as chance will have it. A process
// that holds all memory that would lie free, and gives it up as others want it,
// keeps the host from taking it: what is free is then never more than would be let
// lie, and what a process gives up goes to the next one as it is. What is left free
// is taken back too, only slower, so that it is touched before it is to count.
const (
	// holdStep is taken and given up at once: few of a host's pieces of 2 MiB, so
	// that a look at what is free comes soon again.
	holdStep = 8 << 20
	// As much as lies between holdLeast and holdMost is left free. Less would have
	// the kernel make room for itself, which costs whoever asks it for memory; of
	// more than a gigabyte hosts were seen to take what is above.
	holdLeast = 768 << 20
	holdMost  = 960 << 20
	// touchMost is left free while the rest of that is touched.
	touchMost = 320 << 20
	// holdPause is between two looks, in which 3 GB/s are 150 MB. A look takes a
	// tenth of a millisecond from those that are measured.
	holdPause = 50 * time.Millisecond
)

// TakesMemoryBack says whether this machine is a virtual one whose host takes back
// memory that is free: whether it has a balloon that tells it of that.
func TakesMemoryBack() bool { return takesMemoryBack("/sys/bus") }

// reporting is the bit of free page reporting in the features of a virtio balloon.
const reporting = 5

func takesMemoryBack(buses string) bool {
	balloons, err := filepath.Glob(buses + "/virtio/drivers/virtio_balloon/virtio*")
	if err != nil {
		return false
	}
	for _, balloon := range balloons {
		// A character for each bit, the lowest first. Where they cannot be read it may.
		features, err := os.ReadFile(filepath.Join(balloon, "features"))
		if err != nil || len(features) > reporting && features[reporting] == '1' {
			return true
		}
	}
	// That of Hyper-V tells of it in the kernel's log alone.
	found, err := filepath.Glob(buses + "/vmbus/drivers/hv_balloon/*-*")
	return err == nil && len(found) > 0
}

// WhyNotHold says why this process cannot hold the free memory of this machine; "":
// it can. Where a control group gives it less than the machine has, it would come to
// that end first, push out the page cache of others in it, and be killed.
func WhyNotHold() (string, error) {
	total, _, err := machineMemory()
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("control groups of this process: %w", err)
	}
	limit, file := memoryLimit("/sys/fs/cgroup", string(own))
	if file == "" || limit >= total {
		return "", nil
	}
	return fmt.Sprintf("%s gives it %d bytes of the %d that the machine has", file, limit, total), nil
}

// memoryLimit is the least that the control groups of a process give it, and the
// file that says so; "": they do not limit it. own is its /proc/PID/cgroup. In a
// container the folders that it names may be missing, and the group is the root.
func memoryLimit(root, own string) (limit int64, file string) {
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, name := root, "memory.max"
		switch {
		case strings.Contains(","+fields[1]+",", ",memory,"):
			base, name = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for group := filepath.Join("/", fields[2]); ; group = filepath.Dir(group) {
			path := filepath.Join(base, group, name)
			if text, err := os.ReadFile(path); err == nil {
				// "max" is no number, and no limit.
				n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				if err == nil && (file == "" || n < limit) {
					limit, file = n, path
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return limit, file
}

// Held is what [HoldMemory] tells.
type Held struct {
	Bytes int64 `json:"bytes"` // that are held
	// TouchedBytes were free, were touched because that was asked for, which took
	// Seconds, and are free again.
	TouchedBytes int64   `json:"touched_bytes,omitempty"`
	Seconds      float64 `json:"seconds,omitempty"`
}

// HoldMemory holds the memory of this machine that would lie free, gives it up as
// others want it, and takes what they give up, until ctx ends; then it gives up
// all. It holds most bytes at most; 0: as much as there is. tell is called as soon
// as there is no more to take, and from then on for whatever comes from asked, once
// there is no more to take again: with true, once what is left free, which a host may
// have taken back in the meantime, has been touched too. Where memory runs out all
// the same, the kernel is told to end this process before any other.
func HoldMemory(ctx context.Context, most int64, asked <-chan bool, tell func(Held)) (err error) {
	h, err := newHolding(most)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(h.memory)) }()
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("being the first to end where memory runs out: %w", err)
	}
	return h.hold(ctx, asked, tell)
}

// hold is the work of HoldMemory.
func (h *holding) hold(ctx context.Context, asked <-chan bool, tell func(Held)) error {
	pause := time.NewTicker(holdPause)
	defer pause.Stop()
	asking, touch := true, false // what is held is told once without that
	for ctx.Err() == nil {
		more, err := h.balance(holdMost)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if asking {
			asking = false
			got := Held{Bytes: int64(h.held)}
			if touch {
				if got, err = h.touchFree(ctx); err != nil {
					return err
				}
			}
			tell(got)
		}
		select {
		case touch = <-asked:
			asking = true // and looks again first: more may have come free since
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// holding is what is held of a mapping: its first held bytes.
type holding struct {
	memory []byte
	held   int
	free   func() (int64, error) // of the machine's memory, what holds nothing at all
}

func newHolding(most int64) (*holding, error) {
	size, _, err := machineMemory()
	if err != nil {
		return nil, err
	}
	if most > 0 {
		size = min(size, most)
	}
	size = max(size/holdStep, 1) * holdStep
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of memory: %w", size, err)
	}
	// In the large pieces that a host takes. A kernel that has none says so, and
	// small ones do as well.
	if err := unix.Madvise(memory, unix.MADV_HUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, errors.Join(fmt.Errorf("asking for huge pages: %w", err), unix.Munmap(memory))
	}
	return &holding{memory: memory, free: freeMemory}, nil
}

func freeMemory() (int64, error) {
	_, free, err := machineMemory()
	return free, err
}

// machineMemory is what this machine has, and what of it holds nothing at all.
func machineMemory() (total, free int64, err error) {
	var now unix.Sysinfo_t
	if err := unix.Sysinfo(&now); err != nil {
		return 0, 0, fmt.Errorf("memory of the machine: %w", err)
	}
	return int64(now.Totalram) * int64(now.Unit), int64(now.Freeram) * int64(now.Unit), nil
}

// balance takes a step of what is free, where that is more than most, or gives up as
// many as are missing there. more says that there may be more to take.
func (h *holding) balance(most int64) (more bool, err error) {
	free, err := h.free()
	switch {
	case err != nil:
		return false, err
	case free > most && h.held+holdStep <= len(h.memory):
		page := os.Getpagesize()
		for i := h.held; i < h.held+holdStep; i += page {
			h.memory[i] = 1
		}
		h.held += holdStep
		return true, nil
	case most == holdMost && free < holdLeast:
		return false, h.giveUp(int((holdLeast+holdMost)/2-free) / holdStep * holdStep)
	}
	return false, nil
}

func (h *holding) giveUp(bytes int) error {
	bytes = min(bytes, h.held)
	if bytes <= 0 {
		return nil
	}
	if err := unix.Madvise(h.memory[h.held-bytes:h.held], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("giving up %d bytes of memory: %w", bytes, err)
	}
	h.held -= bytes
	return nil
}

// touchFree takes most of what is left free, and gives it up again.
func (h *holding) touchFree(ctx context.Context) (Held, error) {
	began, before := time.Now(), h.held
	for ctx.Err() == nil {
		more, err := h.balance(touchMost)
		if err != nil {
			return Held{}, err
		}
		if !more {
			break
		}
	}
	touched := h.held - before
	if err := h.giveUp(touched); err != nil {
		return Held{}, err
	}
	return Held{Bytes: int64(h.held), TouchedBytes: int64(touched), Seconds: time.Since(began).Seconds()}, nil
}
