package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// DiskRateTime is how long a disk is written and read, each, unless somebody is
// in a hurry. A controller with a large cache of its own is faster in so short
// a time than in a long one.
const DiskRateTime = 1500 * time.Millisecond

// Bounds of the measurement of a disk beside its time: each of writing and
// reading ends with whichever comes first.
const (
	diskRateBytes = 1 << 30
	// cachedBytes is the bound where every byte goes through the page cache and
	// waits there for the sync at the end.
	cachedBytes = 256 << 20
	// diskRateShare is the part of the free space that may be written, as a
	// divisor.
	diskRateShare = 10
	// diskRateWait bounds the whole, the sync at the end of a slow disk too.
	diskRateWait = 60 * time.Second
)

const (
	diskBlock = 1 << 20
	// diskDepth is how many blocks are on their way at a time: a RAID 10 of six
	// disks keeps all of them busy only with several.
	diskDepth = 8
)

// DiskRate is how fast a folder's disk took and gave a file, one block after
// the other.
type DiskRate struct {
	WriteBytes   int64   `json:"write_bytes"`
	WriteSeconds float64 `json:"write_seconds"` // with the sync at the end
	ReadBytes    int64   `json:"read_bytes"`
	ReadSeconds  float64 `json:"read_seconds"`
	// Direct says that it went past the page cache. Where the file system does
	// not let it (tmpfs of older kernels, some of a network), the file is synced
	// and dropped from the cache before it is read.
	Direct bool `json:"direct"`
}

// MeasureDisk writes a file without a name into a folder of this machine for at
// most the time d and reads it back for as long, within the bounds above. It holds 8 MiB, and nothing stays
// behind, however it ends. It ends with the block after the end of ctx.
func MeasureDisk(ctx context.Context, dir string, d time.Duration) (r DiskRate, err error) {
	f, direct, err := openUnnamed(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r.Direct = direct
	limit := int64(diskRateBytes)
	if !direct {
		limit = cachedBytes
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return r, fmt.Errorf("free space of %s: %w", dir, err)
	}
	limit = min(limit, int64(fs.Bavail)*fs.Bsize/diskRateShare) / diskBlock * diskBlock
	if limit < diskBlock*diskDepth {
		return r, fmt.Errorf("%s has too little free space for a file to measure with", dir)
	}
	// Pages of the system: a heap's slice need not begin where direct I/O
	// wants it to.
	memory, err := unix.Mmap(-1, 0, diskBlock*diskDepth, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return r, fmt.Errorf("memory for blocks: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory)) }()
	fill(memory)
	start := time.Now()
	r.WriteBytes, err = eachBlock(ctx, d, memory, limit, f.WriteAt)
	if err == nil {
		err = f.Sync()
	}
	r.WriteSeconds = time.Since(start).Seconds()
	if err != nil {
		return r, fmt.Errorf("writing a file in %s: %w", dir, err)
	}
	if !direct {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return r, fmt.Errorf("dropping a file in %s from the page cache: %w", dir, err)
		}
	}
	start = time.Now()
	r.ReadBytes, err = eachBlock(ctx, d, memory, r.WriteBytes, f.ReadAt)
	r.ReadSeconds = time.Since(start).Seconds()
	if err != nil {
		return r, fmt.Errorf("reading a file in %s: %w", dir, err)
	}
	return r, nil
}

// openUnnamed makes a file and takes its name away at once, so that it goes
// with this process.
func openUnnamed(dir string) (f *os.File, direct bool, err error) {
	named, err := os.CreateTemp(dir, ".disk-rate-*")
	if err != nil {
		return nil, false, err
	}
	f, err = os.OpenFile(named.Name(), os.O_RDWR|unix.O_DIRECT, 0)
	direct = err == nil
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		f, err = os.OpenFile(named.Name(), os.O_RDWR, 0)
	}
	err = errors.Join(err, os.Remove(named.Name()), named.Close())
	if err != nil && f != nil {
		err = errors.Join(err, f.Close())
	}
	return f, direct, err
}

// fill makes content that no file system can compress.
func fill(memory []byte) {
	random := rand.NewChaCha8([32]byte{'k', 'l'})
	_, _ = random.Read(memory) // never fails
}

// eachBlock moves block after block, several at a time, up to limit bytes or
// until the time is over, and returns how much was moved.
func eachBlock(ctx context.Context, d time.Duration, memory []byte, limit int64, move func([]byte, int64) (int, error)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var next, moved atomic.Int64
	errs := make([]error, diskDepth)
	var wg sync.WaitGroup
	for i := range diskDepth {
		block := memory[i*diskBlock : (i+1)*diskBlock]
		wg.Go(func() {
			for ctx.Err() == nil {
				at := next.Add(diskBlock) - diskBlock
				if at >= limit {
					return
				}
				n, err := move(block, at)
				moved.Add(int64(n))
				if err != nil {
					errs[i] = err
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	return moved.Load(), errors.Join(errs...)
}

// AskDiskRate measures the disk below a host's data folder, with a "testbed
// disk-rate" there, for the time d each way.
func AskDiskRate(ctx context.Context, h host.Host, d time.Duration) (r DiskRate, err error) {
	ctx, cancel := context.WithTimeout(ctx, diskRateWait)
	defer cancel()
	program, err := h.Binary(ctx, "testbed")
	if err != nil {
		return r, err
	}
	out, err := h.Run(ctx, program, "disk-rate", "--dir", h.Dir(), "--time", d.String())
	if err != nil {
		return r, fmt.Errorf("measuring the disk of %s: %w", h.Name(), err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("measuring the disk of %s: unexpected output %q: %w", h.Name(), out, err)
	}
	return r, nil
}

// The names of the facts of a disk's rates.
const (
	writeRateFact = "sequential write"
	readRateFact  = "sequential read"
)

// Facts are the rates as a host's description has them.
func (r DiskRate) Facts() []resultfile.Fact {
	return []resultfile.Fact{
		{Name: writeRateFact, Value: r.text(r.WriteBytes, r.WriteSeconds)},
		{Name: readRateFact, Value: r.text(r.ReadBytes, r.ReadSeconds)},
	}
}

// NoDiskRate are the facts where the rates could not be measured.
func NoDiskRate(err error) []resultfile.Fact {
	text := "not measured: " + oneLine(err.Error())
	return []resultfile.Fact{{Name: writeRateFact, Value: text}, {Name: readRateFact, Value: text}}
}

func (r DiskRate) text(bytes int64, seconds float64) string {
	if bytes <= 0 || seconds <= 0 {
		return notKnown
	}
	how := "direct I/O"
	if !r.Direct {
		how = "through the page cache"
	}
	return fmt.Sprintf("%.0f MB/s (%s, %.0f MB)", float64(bytes)/1e6/seconds, how, float64(bytes)/1e6)
}
