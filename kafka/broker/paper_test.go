package broker_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// TestPaperR09PullByOffset: a pull request names the offset from which consumption
// begins and an acceptable number of bytes (NetDB'11 §3.1, "each pull request
// contains the offset of the message from which the consumption begins and an
// acceptable number of bytes to fetch").
func TestPaperR09PullByOffset(t *testing.T) {
	b := kafkatest.Start(t)
	p := dial(t, b)
	p.send(produce("log", 0, entryP0, entryP, entrySecond))
	second := int64(len(entryP0))
	p.send(fetch("log", 0, second, int32(len(entryP))))
	p.want(0, entryP)
	p.send(fetch("log", 0, second, int32(len(entryP)+5))) // cut at bytes, not at messages
	p.want(0, join(entryP, entrySecond[:5]))
	p.send(fetch("log", 0, second+int64(len(entryP)), 1000)) // the next offset is this one's and its length
	p.want(0, entrySecond)
}

// TestPaperR02ManyMessagesInOneRequest: a producer can send a set of messages in a
// single publish request, and a consumer's pull gets many, typically hundreds
// of kilobytes (NetDB'11 §3.1).
func TestPaperR02ManyMessagesInOneRequest(t *testing.T) {
	b := kafkatest.Start(t)
	p := dial(t, b)
	set := bytes.Repeat(entry("a message of the log"), 10_000)
	p.send(produce("log", 0, set))
	p.send(fetch("log", 0, 0, 300_000))
	p.want(0, set[:min(len(set), 300_000)])
}

// TestPaperR07VisibleAfterFlush: a message is visible to consumers only after it is
// flushed, which happens after a number of messages or an amount of time
// (NetDB'11 §3.1).
func TestPaperR07VisibleAfterFlush(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.FlushMessages = 3 })
	p := dial(t, b)
	for i := range 3 {
		p.send(produce("log", 0, entryP))
		p.send(fetch("log", 0, 0, 1000))
		if i < 2 {
			p.want(0, nil)
		} else {
			p.want(0, bytes.Repeat(entryP, 3))
		}
	}
	b = kafkatest.Start(t, func(c *broker.Config) {
		c.Storage.FlushMessages, c.Storage.FlushInterval = 0, time.Millisecond
	})
	p = dial(t, b)
	p.send(produce("log", 0, entryP))
	p.send(wire.AppendWaitFetch(nil, []wire.FetchEntry{{Topic: "log", MaxBytes: 1000}}, 20_000, 1))
	p.want(0, answer(0, entryP))
}

// TestPaperR13Sendfile: the bytes of a pull go from the log file to the socket
// without passing through the process (NetDB'11 §3.1, "sendfile").
func TestPaperR13Sendfile(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	all := fill(t, b, random(t), "log", 1<<20)
	p := dial(t, b)
	for offset := 0; offset < len(all); {
		p.send(fetch("log", 0, int64(offset), 200<<10))
		_, set := p.answer()
		offset += len(set)
	}
	if n := metric(t, b, `kafka_broker_sent_bytes_total{path="sendfile"}`); n != float64(len(all)) {
		t.Errorf("%v bytes were sent by sendfile, want %d", n, len(all))
	}
	if n := metric(t, b, `kafka_broker_sent_bytes_total{path="copy"}`); n != 0 {
		t.Errorf("%v bytes were copied", n)
	}
}

// TestPaperR12WarmAfterRestart: messages are in the page cache alone, which stays
// warm when the broker is started again: what was written is still there, before
// anybody has read it (NetDB'11 §3.1).
func TestPaperR12WarmAfterRestart(t *testing.T) {
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) { c.Storage.SegmentBytes = 1 << 20 })
	all := fill(t, b, random(t), "log", 4<<20)
	b.Restart()
	files, err := filepath.Glob(filepath.Join(b.Config.LogDir, "log-0", "*.kafka"))
	if err != nil || len(files) < 4 {
		t.Fatalf("segments %v, %v", files, err)
	}
	cached, pages := 0, 0
	for _, path := range files {
		c, n := inPageCache(t, path)
		cached, pages = cached+c, pages+n
	}
	if 10*cached < 9*pages { // the kernel may want a few for others
		t.Errorf("%d of %d pages are in the page cache", cached, pages)
	}
	if got := logOf(t, b, "log", 0); !bytes.Equal(got, all) {
		t.Errorf("%d bytes after the restart, want %d, or others", len(got), len(all))
	}
	// And none took another way than from there to the socket.
	if n := metric(t, b, `kafka_broker_sent_bytes_total{path="copy"}`); n != 0 {
		t.Errorf("%v bytes were copied through the process", n)
	}
}

// inPageCache counts the pages of a file, and those of them in the page cache.
func inPageCache(t *testing.T, path string) (cached, pages int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() == 0 {
		return 0, 0
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	resident := make([]byte, (len(mapped)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&resident[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, r := range resident {
		cached += int(r & 1)
	}
	return cached, len(resident)
}

// TestPaperR14StatelessBroker: how much each consumer has consumed is not kept by
// the broker; a consumer can rewind to an old offset and consume again, and any
// number of consumers do not change what is stored (NetDB'11 §3.1).
func TestPaperR14StatelessBroker(t *testing.T) {
	b := kafkatest.Start(t)
	all := fill(t, b, random(t), "log", 1<<20)
	before := listing(t, b.Config.LogDir)
	for range 5 { // five consumers, each of which reads twice and rewinds in between
		p := dial(t, b)
		for range 2 {
			p.send(fetch("log", 0, 0, 1<<30))
			if _, got := p.answer(); !bytes.Equal(got, all) {
				t.Fatalf("%d bytes, want %d, or others", len(got), len(all))
			}
		}
	}
	if after := listing(t, b.Config.LogDir); !bytes.Equal(after, before) {
		t.Errorf("reading changed the log folder:\n%s\nbefore:\n%s", after, before)
	}
}

// listing names every file below a folder with its size.
func listing(t *testing.T, dir string) []byte {
	t.Helper()
	var list []byte
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		list = append(append(list, path...), ' ')
		list = binary.AppendVarint(list, info.Size())
		list = append(list, '\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestPaperC07NoAcknowledgement: a produce request of 0.7 has no answer: the next
// bytes on the connection are those of the next request that has one
// (NetDB'11 §5, "the producer doesn't wait for acknowledgements").
func TestPaperC07NoAcknowledgement(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.Visible = storage.VisibleAppended })
	p := dial(t, b)
	for range 100 {
		p.send(produce("log", 0, entryP))
	}
	p.send(fetch("log", 0, 0, 26))
	p.want(0, entryP)
}
