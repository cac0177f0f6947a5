package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

const (
	tracedMessages = 20_000 // of 200 bytes: more than 4 segments of 1 MiB
	tracedTopic    = "traced"
	tracedLimit    = 2 * time.Minute
)

// moving are the system calls by which a process can get at a file's bytes, or
// send bytes to a socket.
const moving = "read,readv,pread64,preadv,preadv2,mmap,sendfile,splice,copy_file_range,io_uring_setup,write,writev,sendto,sendmsg,sendmmsg"

// TestFetchSystemCalls looks from outside at how a broker serves consumers
// (NetDB'11 §3.1, "efficient transfer"): by sendfile, and no byte of a segment
// file passes through the process. With --sendfile=false the same bytes do.
func TestFetchSystemCalls(t *testing.T) {
	torture.NeedStrace(t)
	bin := torture.Build(t)
	inKernel, byKernel := traceFetches(t, bin, "--sendfile=true")
	sent := byKernel.bytes + byKernel.streamed
	if n := inKernel.file["sendfile"]; n < sent || n > sent+maxDiscarded || len(inKernel.sendfileFrom) < 4 {
		t.Errorf("sendfile sent %d bytes of %d segments, and %+v was fetched", n, len(inKernel.sendfileFrom), byKernel)
	}
	for call, n := range inKernel.file {
		if call != "sendfile" && !isWrite(call) {
			t.Errorf("%s got at %d bytes of segment files", call, n)
		}
	}
	if inKernel.uring {
		t.Error("the broker uses io_uring, whose transfers no trace shows")
	}
	// What the process itself sends is headers.
	if inKernel.socket > sent/100 {
		t.Errorf("the process sent %d bytes itself, beside %d fetched", inKernel.socket, sent)
	}

	copied, byCopy := traceFetches(t, bin, "--sendfile=false")
	if byCopy != byKernel {
		t.Errorf("without sendfile %+v was served, with it %+v", byCopy, byKernel)
	}
	sent = byCopy.bytes + byCopy.streamed
	if n := copied.file["pread64"]; copied.file["sendfile"] != 0 || n < sent || n > sent+maxDiscarded || copied.socket < sent {
		t.Errorf("without sendfile: of segment files %v, to sockets %d, fetched %d", copied.file, copied.socket, sent)
	}
}

// fetched is what a consumer got.
type fetched struct {
	bytes int64 // of message sets, as they came over the wire
	sum   [sha256.Size]byte
	// streamed is what a consumer's stream took of the log. What it had asked for
	// ahead at the end of a segment was sent too, and is not counted.
	streamed int64
}

// maxDiscarded bounds what the broker sent to a stream that asked ahead in vain:
// one range at the end of each of the few segments.
const maxDiscarded = 8 * consumer.DefaultFetchBytes

// traceFetches runs a broker of its own under strace, fills a partition and
// fetches it all. The trace is of the broker's whole life.
func traceFetches(t *testing.T, bin, sendfile string) (moved, fetched) {
	t.Helper()
	traces, log := t.TempDir(), newBrokerLog()
	// -ff: a file for each thread, so that no call is divided over two lines.
	// -D: strace is not between this process and the broker, whose handle cmd is.
	cmd := exec.Command("strace", "-D", "-ff", "-y", "-s", "0", "-e", "trace="+moving, "-o", filepath.Join(traces, "thread"),
		bin, "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--segment-size", "1MiB", "--flush-messages", "1000", sendfile)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// strace holds the error output too, so that this waits for its end.
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		log.end()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), tracedLimit)
	defer cancel()
	stopped := false
	defer func() {
		if !stopped {
			_ = cmd.Process.Kill()
			<-ended
		}
	}()

	address, err := log.address(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial(ctx, address, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fill(ctx, t, conn)
	got := fetchAll(ctx, t, conn)
	got.streamed = streamAll(ctx, t, address, conn)

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		stopped = true
		if err != nil {
			t.Fatalf("the broker ended with %v\n%s", err, log)
		}
	case <-ctx.Done():
		t.Fatalf("the broker does not end\n%s", log)
	}
	return readTraces(t, traces), got
}

// fill appends the messages and waits until they are flushed.
func fill(ctx context.Context, t *testing.T, conn *client.Conn) {
	t.Helper()
	payload := make([]byte, 200)
	var set []byte
	for i := range tracedMessages {
		copy(payload, fmt.Sprintf("%010d", i))
		if set = message.Append(set, payload); i%1000 != 999 {
			continue
		}
		if _, err := conn.AckedProduce(ctx, tracedTopic, 0, set, wire.AcksFlushed, time.Minute); err != nil {
			t.Fatal(err)
		}
		set = set[:0]
	}
}

// fetchAll fetches as a consumer does, from message to message, and so gets
// the beginning of the last message of an answer twice.
func fetchAll(ctx context.Context, t *testing.T, conn *client.Conn) (got fetched) {
	t.Helper()
	whole, messages, offset := sha256.New(), 0, int64(0)
	for messages < tracedMessages {
		set, err := conn.Fetch(ctx, wire.FetchEntry{Topic: tracedTopic, Offset: offset, MaxBytes: 200 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(set) == 0 {
			t.Fatalf("the log ends at offset %d, after %d messages", offset, messages)
		}
		got.bytes += int64(len(set))
		it := set.Iterate(offset)
		for it.Next() {
			messages++
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		whole.Write(set[:it.ValidBytes()])
		offset = it.NextOffset()
	}
	whole.Sum(got.sum[:0])
	return got
}

// streamAll consumes as an application does, and at the end of the log waits at
// the broker for a message that is appended then. It returns how many bytes of
// the log came.
func streamAll(ctx context.Context, t *testing.T, address string, conn *client.Conn) int64 {
	t.Helper()
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: address, Topic: tracedTopic, FetchBytes: consumer.DefaultFetchBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	last := []byte("appended at the end")
	for i := range tracedMessages + 1 {
		if i == tracedMessages {
			if _, err := conn.AckedProduce(ctx, tracedTopic, 0, message.Append(nil, last), wire.AcksFlushed, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		m, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%010d", i)
		if i == tracedMessages {
			want = string(last)
		}
		if !strings.HasPrefix(string(m.Payload), want) {
			t.Fatalf("message %d is %.40q", i, m.Payload)
		}
	}
	return s.Stats().Bytes
}

// moved is what a trace shows of bytes.
type moved struct {
	file         map[string]int64 // to or from segment files, by system call
	sendfileFrom map[string]bool  // the segment files that sendfile read
	socket       int64            // to sockets, but for sendfile
	uring        bool
}

var (
	// callLine is a call with its result: name, arguments, value.
	callLine = regexp.MustCompile(`^(\w+)\((.*)\)\s+= (\d+|0x[0-9a-f]+)`)
	// fileArgument is a descriptor of a segment file, as strace -y shows it.
	fileArgument   = regexp.MustCompile(`\b\d+<([^<>]*/\d{20}\.kafka)>`)
	socketArgument = regexp.MustCompile(`^\d+<socket:`)
)

func isWrite(call string) bool { return call == "write" || call == "writev" }

func readTraces(t *testing.T, dir string) moved {
	t.Helper()
	m := moved{file: map[string]int64{}, sendfileFrom: map[string]bool{}}
	threads, err := filepath.Glob(filepath.Join(dir, "thread.*"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "+++ exited with 0 +++") {
			t.Errorf("the trace of a thread has no end: %.200s", text)
		}
		for line := range strings.Lines(string(text)) {
			m.add(line)
		}
	}
	return m
}

func (m *moved) add(line string) {
	call := callLine.FindStringSubmatch(line)
	if call == nil {
		return // a signal, an error, the end
	}
	name, arguments := call[1], call[2]
	n, _ := strconv.ParseInt(call[3], 0, 64) // an address of mmap may be beyond
	switch file := fileArgument.FindStringSubmatch(arguments); {
	case file != nil:
		m.file[name] += n
		if name == "sendfile" && n > 0 {
			m.sendfileFrom[file[1]] = true
		}
	case name == "io_uring_setup":
		m.uring = true
	case socketArgument.MatchString(arguments):
		if isWrite(name) || strings.HasPrefix(name, "send") {
			m.socket += n
		}
	}
}

// brokerLog is what the broker logs, in which its address stands.
type brokerLog struct {
	mu     sync.Mutex
	text   bytes.Buffer
	more   chan struct{}
	closed chan struct{}
}

func newBrokerLog() *brokerLog {
	return &brokerLog{more: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (l *brokerLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *brokerLog) end() { close(l.closed) }

func (l *brokerLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var startedLine = regexp.MustCompile(`(?m)broker started.*\b\w+=(127\.0\.0\.1:\d+)`)

// address waits until the broker tells where it listens.
func (l *brokerLog) address(ctx context.Context) (string, error) {
	for {
		if found := startedLine.FindStringSubmatch(l.String()); found != nil {
			return found[1], nil
		}
		select {
		case <-l.more:
		case <-l.closed:
			return "", fmt.Errorf("the broker did not start:\n%s", l)
		case <-ctx.Done():
			return "", fmt.Errorf("the broker does not start:\n%s", l)
		}
	}
}
