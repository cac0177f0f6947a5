package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/log"

var testStart = time.Date(2011, 6, 12, 9, 0, 0, 0, time.UTC)

// testContext ends well before the test's own time limit, so that what hangs
// fails with its place.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newTestFS returns a file system in memory and the clock that it goes by.
func newTestFS() (*vfs.Mem, *clock.Manual) {
	c := clock.NewManual(testStart)
	return vfs.NewMem(c.Now), c
}

// crashClone returns the file system as the i-th way to end leaves it: first that
// of the process (kill -9), then that of the machine with what was synced alone,
// and from then on with random parts of the rest.
func crashClone(fsys *vfs.Mem, i int, rng *rand.Rand) *vfs.Mem {
	switch i {
	case 0:
		return fsys.KillClone()
	case 1:
		return fsys.CrashClone(nil)
	default:
		return fsys.CrashClone(rng)
	}
}

// open opens the log folder of a test and closes it at the test's end.
func open(t testing.TB, fsys vfs.FS, cfg Config) *Manager {
	t.Helper()
	cfg.FS = fsys
	m, err := Open(testContext(t), testDir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) }) // tests that care close it themselves
	return m
}

// openTopic opens the log folder of a test and returns partition 0 of topic t.
func openTopic(t testing.TB, fsys vfs.FS, cfg Config) (*Manager, *Log) {
	t.Helper()
	m := open(t, fsys, cfg)
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

// payload returns n bytes that depend on seed.
func payload(seed, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// set returns a message set of magic 0 entries.
func set(payloads ...[]byte) []byte {
	var b []byte
	for _, p := range payloads {
		b = message.Append(b, p)
	}
	return b
}

func mustAppend(t testing.TB, l *Log, payloads ...[]byte) Appended {
	t.Helper()
	a, err := l.Append(set(payloads...), len(payloads))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustFlush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, m *Manager) {
	t.Helper()
	if err := m.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// read returns what can be read from an offset to the watermark.
func read(t testing.TB, l *Log, offset int64, maxBytes int) []byte {
	t.Helper()
	var all []byte
	for {
		s, err := l.Read(offset, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		n := s.Len()
		b := make([]byte, n)
		if _, err := s.ReadAt(b, 0); err != nil && n > 0 {
			t.Fatalf("read slice at %d: %v", offset, err)
		}
		s.Release()
		if n == 0 {
			return all
		}
		all = append(all, b...)
		offset += int64(n)
	}
}

// payloads returns the payloads of a log's visible messages and fails at damage.
func payloads(t testing.TB, l *Log) [][]byte {
	t.Helper()
	s := l.State()
	it := message.Set(read(t, l, s.First, 1<<20)).Iterate(s.First)
	var list [][]byte
	for it.Next() {
		list = append(list, it.Message().Payload)
	}
	if it.Err() != nil || it.NextOffset() != s.Watermark {
		t.Fatalf("messages end at %d with %v, watermark %d", it.NextOffset(), it.Err(), s.Watermark)
	}
	return list
}

func wantPayloads(t testing.TB, l *Log, want ...[]byte) {
	t.Helper()
	got := payloads(t, l)
	if len(got) != len(want) {
		t.Fatalf("%d messages, %d wanted", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("message %d is %.20x…, %.20x… wanted", i, got[i], want[i])
		}
	}
}

func wantState(t testing.TB, l *Log, first, watermark, logEnd int64, segments int) {
	t.Helper()
	s := l.State()
	if s.First != first || s.Watermark != watermark || s.LogEnd != logEnd || s.Segments != segments {
		t.Fatalf("state %+v, wanted first %d, watermark %d, log end %d, %d segments", s, first, watermark, logEnd, segments)
	}
}

func segmentPath(base int64) string { return filepath.Join(testDir, "t-0", segmentName(base)) }

// fileSize returns the size of a file, -1 when it is not there.
func fileSize(fsys vfs.FS, path string) int64 {
	info, err := fsys.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

// content returns what is in a file.
func content(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mkdirAll makes a folder and those above it that are missing.
func mkdirAll(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	if _, err := fsys.Stat(dir); err == nil {
		return
	}
	mkdirAll(t, fsys, filepath.Dir(dir))
	if err := fsys.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
}

// put makes a file with its folders.
func put(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	mkdirAll(t, fsys, filepath.Dir(path))
	f, err := fsys.OpenWrite(path)
	if err != nil {
		f, err = fsys.Create(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in: %s", p, text)
		}
	}
}

// testSeed returns a seed that is printed when the test fails, and taken from
// KAFKALAB_SEED when that is set.
func testSeed(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KAFKALAB_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	return seed
}

// newRand returns a random source with the seed of testSeed.
func newRand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(testSeed(t), 2)) }

// eventually waits for a state that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func sprint(s State) string {
	return fmt.Sprintf("first=%d watermark=%d end=%d segments=%d", s.First, s.Watermark, s.LogEnd, s.Segments)
}
