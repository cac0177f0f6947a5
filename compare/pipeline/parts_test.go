package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
	"kafkalab/results/resultfile"
)

// Every line can be told from all others, and from one that was damaged.
func TestLines(t *testing.T) {
	const run, size = 0xfeed, 200
	for _, n := range []int64{0, 1, 25, 999_999_999_999} {
		line := appendLine(nil, run, n, size)
		if len(line) != size || bytes.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("line %d: %d bytes: %q", n, len(line), line)
		}
		if got, ok := parseLine(line, run, size); !ok || got != n {
			t.Errorf("line %d is read as %d, %v", n, got, ok)
		}
		for i := range line {
			bad := bytes.Clone(line)
			bad[i] ^= 1
			if got, ok := parseLine(bad, run, size); ok {
				t.Errorf("line %d with byte %d damaged is read as %d", n, i, got)
			}
		}
		if _, ok := parseLine(line, run+1, size); ok {
			t.Error("a line of another run is taken")
		}
		if _, ok := parseLine(line[:size-1], run, size); ok {
			t.Error("a line that is cut off is taken")
		}
	}
	if line := appendLine(nil, run, 3, leastLine); len(line) != leastLine {
		t.Errorf("the shortest line has %d bytes", len(line))
	}
}

func TestLedger(t *testing.T) {
	l := newLedger(1, 50, 100)
	line := func(n int64) []byte { return appendLine(nil, 1, n, 50) }
	for _, n := range []int64{0, 99, 64, 0, 99} {
		l.take(liveTier, line(n))
	}
	if l.take(replicaTier, line(5)) != true || l.take(replicaTier, line(5)) != false {
		t.Error("the first coming is not told from the second")
	}
	l.take(loadTier, []byte("nonsense"))
	l.take(loadTier, line(1000)) // never made
	l.spoil(loadTier)
	for tier, want := range [][3]int64{{3, 2, 0}, {1, 1, 0}, {0, 0, 3}} {
		if distinct, doubled, damaged := l.counts(tier); [3]int64{distinct, doubled, damaged} != want {
			t.Errorf("tier %d: %d, %d, %d, want %v", tier, distinct, doubled, damaged, want)
		}
	}
}

// produceRequest is a framed Produce request of some messages.
func produceRequest(name string, messages int) []byte {
	var set []byte
	for range messages {
		set = message.Append(set, []byte("payload"))
	}
	return wire.AppendProduce(nil, name, -1, set)
}

// The link passes on everything as it is, and leaves out exactly the next set of
// the topic once it is told to.
func TestLossyLink(t *testing.T) {
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	var failed atomic.Value
	l, err := startLossy(broker.Addr().String(), func(err error) { failed.Store(err) })
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Dial("tcp", l.addr())
	if err != nil {
		t.Fatal(err)
	}
	behind, err := broker.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	deadline := time.Now().Add(30 * time.Second)
	_ = behind.SetDeadline(deadline)
	_ = front.SetDeadline(deadline)
	passes := func(request []byte) {
		t.Helper()
		if _, err := front.Write(request); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(request))
		if _, err := io.ReadFull(behind, got); err != nil || !bytes.Equal(got, request) {
			t.Fatalf("%x has become %x, %v", request, got, err)
		}
	}
	passes(produceRequest(topic, 3))
	l.armed.Store(true)
	passes(produceRequest("other", 2))
	passes(wire.AppendOffsets(nil, topic, 0, wire.TimeLatest, 1))
	if _, err := front.Write(produceRequest(topic, 5)); err != nil {
		t.Fatal(err)
	}
	passes(produceRequest(topic, 1)) // the one before has not come
	if n := l.dropped.Load(); n != 5 {
		t.Errorf("%d messages were left out, want 5", n)
	}
	// And back.
	if _, err := behind.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 6)
	if _, err := io.ReadFull(front, answer); err != nil || string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
	// The end of the one side is the end of the other.
	if err := front.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := behind.Read(answer); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	front.Close()
	if err := l.close(); err != nil {
		t.Error(err)
	}
	if err := failed.Load(); err != nil {
		t.Error(err)
	}
}

// A length that no request has is no reason to allocate it.
func TestLossyLinkRefusesGiants(t *testing.T) {
	l := &lossy{}
	size := binary.BigEndian.AppendUint32(nil, maxFrame+1)
	if err := l.requests(bytes.NewReader(size), io.Discard); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

func shellChild(t *testing.T, script, ready string, died func(error)) (*child, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return startChild(ctx, childConfig{name: "child", args: []string{"sh", "-c", script}, dir: t.TempDir(), input: true, ready: ready, onDeath: died})
}

func TestChild(t *testing.T) {
	died := make(chan error, 1)
	c, err := shellChild(t, `printf 'all re' >&2; sleep 0.1; echo ady >&2; read line; echo "got $line" >&2; exec cat`, "all ready", func(err error) { died <- err })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c.in, "a line\n"); err != nil {
		t.Fatal(err)
	}
	c.closeInput()
	if err := c.await(20 * time.Second); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(c.log.Name()); err != nil || !strings.Contains(string(log), "all ready\ngot a line\n") {
		t.Errorf("%q, %v", log, err)
	}
	if err := errors.Join(c.stop(), c.kill()); err != nil {
		t.Errorf("of one that has ended: %v", err)
	}
	// One that ends by itself says so, with what it said last.
	if _, err := shellChild(t, `echo the disk is gone >&2; exit 3`, "ready", func(err error) { died <- err }); err == nil || !strings.Contains(err.Error(), "the disk is gone") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	if err := <-died; err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("%v", err)
	}
	// One that is stopped has not died; one that fails in stopping is an error.
	if c, err = shellChild(t, `trap 'echo bad end >&2; exit 1' TERM; echo ready >&2; while :; do sleep 0.05; done`, "ready", func(err error) { died <- err }); err != nil {
		t.Fatal(err)
	}
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "bad end") {
		t.Errorf("%v", err)
	}
	if c, err = shellChild(t, `exec sleep 100`, "", func(err error) { died <- err }); err != nil {
		t.Fatal(err)
	}
	if err := c.kill(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-died:
		t.Errorf("an end that was wanted is told as a death: %v", err)
	default:
	}
	if _, err := startChild(t.Context(), childConfig{name: "none", args: []string{"/nonexistent/program"}, dir: t.TempDir()}); err == nil {
		t.Error("a program that is not there was started")
	}
}

// writeLoaded writes a file as the load does.
func writeLoaded(t *testing.T, path string, payloads ...[]byte) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i, p := range payloads {
		head := binary.BigEndian.AppendUint64(nil, uint64(i))
		head = binary.BigEndian.AppendUint32(head, uint32(len(p)))
		if _, err := z.Write(append(head, p...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestReadLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.gz")
	writeLoaded(t, path, []byte("one"), nil, []byte("three"))
	var got []string
	if err := readLoaded(path, func(p []byte) { got = append(got, string(p)) }); err != nil || strings.Join(got, ",") != "one,,three" {
		t.Errorf("%q, %v", got, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := readLoaded(path, func([]byte) {}); err == nil {
		t.Error("a file that is cut off was read")
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(binary.BigEndian.AppendUint32(make([]byte, 8), maxLoaded+1)) // into memory
	_ = z.Close()
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := readLoaded(path, func([]byte) {}); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

// What "kafka audit report" prints becomes windows, all servers together; what is
// open is not missing yet.
func TestVerdict(t *testing.T) {
	const text = `{"at":"2026-11-30T12:00:30Z","clean":false,"rows":[
		{"topic":"clicks","window":"2026-11-30T12:00:05Z","length_ms":5000,"server":"frontend-1","tier":"load","made":10,"counted":8,"missing":2,"doubled":0,"in_doubt":0,"unreported":0,"verdict":"missing"},
		{"topic":"clicks","window":"2026-11-30T12:00:05Z","length_ms":5000,"server":"frontend-2","tier":"load","made":10,"counted":11,"missing":0,"doubled":1,"unreported":0,"verdict":"doubled"},
		{"topic":"clicks","window":"2026-11-30T12:00:00Z","length_ms":5000,"server":"frontend-2","tier":"load","made":4,"counted":4,"verdict":"complete"},
		{"topic":"clicks","window":"2026-11-30T12:00:10Z","length_ms":5000,"server":"frontend-2","tier":"live","made":7,"counted":5,"missing":2,"verdict":"open"},
		{"topic":"other","window":"2026-11-30T12:00:10Z","length_ms":5000,"server":"x","tier":"live","made":7,"counted":5,"missing":2,"verdict":"missing"}],
		"tiers":[{"tier":"live","counted":5,"open":1,"notes":[]}]}`
	var v verdict
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	got := v.windows()
	at := float64(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Unix())
	want := []resultfile.AuditWindow{
		{Tier: "live", Start: at + 10, Seconds: 5, Made: 7, Counted: 5, Open: 7},
		{Tier: "load", Start: at, Seconds: 5, Made: 4, Counted: 4},
		{Tier: "load", Start: at + 5, Seconds: 5, Made: 20, Counted: 19, Missing: 2, Doubled: 1},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	r := &run{ledger: newLedger(1, 50, 100)}
	if missing := r.unseen(v); !strings.Contains(missing, "is open in the tier live") {
		t.Errorf("%q", missing)
	}
	v.Rows = v.Rows[:1]
	for n := range int64(9) {
		r.ledger.take(loadTier, appendLine(nil, 1, n, 50))
	}
	if missing := r.unseen(v); !strings.Contains(missing, "tier load it has counted 8 of 9") {
		t.Errorf("%q", missing)
	}
	// Copies do not stand for messages, nor messages for copies.
	v.Rows[0].Doubled = 1
	if missing := r.unseen(v); !strings.Contains(missing, "tier load it has counted 8 of 9 messages") {
		t.Errorf("%q", missing)
	}
	v.Rows[0].Counted, v.Rows[0].Doubled = 10, 0
	r.ledger.take(loadTier, appendLine(nil, 1, 0, 50))
	if missing := r.unseen(v); !strings.Contains(missing, "tier load it has counted 0 of 1 copies of messages") {
		t.Errorf("%q", missing)
	}
	v.Rows[0].Doubled = 1
	if missing := r.unseen(v); missing != "" {
		t.Errorf("%q", missing)
	}
}
