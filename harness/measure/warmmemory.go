package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Warmed is memory of the machine that was touched and given back.
type Warmed struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"` // that it took
}

// warmStep is touched between two looks at the context.
const warmStep = 64 << 20

// WarmMemory touches bytes of memory that nobody uses and gives them back, at
// most three quarters of what is free, so that nothing has to make room for it.
//
// A virtual machine's host may have taken free memory back (free page reporting),
// and lets it be had again only slowly: page by page, at a few hundred MB/s. Who
// first writes to a page pays for that, be it a broker whose messages go into the
// page cache or a limit, and as much or as little of it as chance will have. After
// this the next one to write gets pages that the machine really has. On a machine
// of its own it changes nothing. What stays free for seconds is taken back again.
func WarmMemory(ctx context.Context, bytes int64) (Warmed, error) {
	free, err := freeMemory()
	if err != nil {
		return Warmed{}, err
	}
	bytes = min(bytes, free/4*3) &^ (warmStep - 1)
	if bytes <= 0 {
		return Warmed{}, nil
	}
	began := time.Now()
	memory, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return Warmed{}, fmt.Errorf("mapping %d bytes of memory: %w", bytes, err)
	}
	// In the large pieces that a host takes back. A kernel that has no huge pages
	// says so, and is warmed page by page.
	if err := unix.Madvise(memory, unix.MADV_HUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return Warmed{}, errors.Join(fmt.Errorf("asking for huge pages: %w", err), unix.Munmap(memory))
	}
	page := os.Getpagesize()
	for at := 0; at < len(memory) && ctx.Err() == nil; at += warmStep {
		for i := at; i < at+warmStep; i += page {
			memory[i] = 1
		}
	}
	if err := errors.Join(context.Cause(ctx), unix.Munmap(memory)); err != nil {
		return Warmed{}, fmt.Errorf("touching %d bytes of memory: %w", bytes, err)
	}
	return Warmed{Bytes: bytes, Seconds: time.Since(began).Seconds()}, nil
}

// freeMemory is the memory that holds nothing at all, not even files.
func freeMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "MemFree:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil || kib < 0 || kib > 1<<50 {
			return 0, fmt.Errorf("/proc/meminfo: %q: a number of kB is wanted", strings.TrimSpace(line))
		}
		return kib << 10, nil
	}
	return 0, errors.New("/proc/meminfo has no line MemFree")
}
