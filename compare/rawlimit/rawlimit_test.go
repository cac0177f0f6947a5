package rawlimit

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come, also on a machine that is
// busy with others.
const patience = time.Minute

var paths = []Path{PathTCP, PathPing, PathFile, PathDisk}

// eachPath runs the test with every path.
func eachPath(t *testing.T, test func(t *testing.T, path Path)) {
	for _, path := range paths {
		t.Run(string(path), func(t *testing.T) { test(t, path) })
	}
}

// serve starts a server that ends with the test, and returns its address and
// folder.
func serve(t *testing.T, path Path) (addr, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	cfg := ServerConfig{Listen: "127.0.0.1:0", Dir: dir, Path: path}
	if path.Stores() {
		cfg.FlushInterval = time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, cfg, func(a net.Addr) { ready <- a }) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Serve = %v", err)
			}
		case <-time.After(patience):
			t.Error("the server did not end")
		}
	})
	select {
	case a := <-ready:
		return a.String(), dir
	case err := <-ended:
		ended <- nil
		t.Fatalf("Serve = %v", err)
	}
	return "", ""
}

func dial(t *testing.T, addr string, path Path) driver.Client {
	t.Helper()
	c, err := New().Connect(t.Context(), driver.Target{Addr: addr}, driver.Options{"path": string(path)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c
}

// generator makes the messages of a run from first on.
func generator(t *testing.T, runID, first uint64, payloadBytes int) *workload.Generator {
	t.Helper()
	g, err := workload.NewGenerator(runID, payloadBytes)
	if err != nil {
		t.Fatal(err)
	}
	g.Seek(first)
	return g
}

// send sends messages first to first+n-1 of the run, flushed.
func send(t *testing.T, c driver.Client, queue string, runID, first uint64, n, payloadBytes int) driver.Producer {
	t.Helper()
	p, err := c.Producer(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	g := generator(t, runID, first, payloadBytes)
	for range n {
		if err := p.Send(t.Context(), g.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func waitArrived(t *testing.T, c driver.Client, queue string, want int64) {
	t.Helper()
	var got int64
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var err error
		if got, err = c.Arrived(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
	}
	t.Fatalf("%d messages arrived, want %d", got, want)
}

// receive receives n messages of the run and checks them.
func receive(t *testing.T, c driver.Consumer, runID uint64, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	checker := workload.NewChecker(runID)
	for checker.Received() < n {
		if err := c.Receive(ctx, checker.Check); err != nil {
			t.Fatalf("after %d of %d messages: %v", checker.Received(), n, err)
		}
	}
	if err := checker.Result(n).Err(); err != nil {
		t.Error(err)
	}
}

func TestEverythingSentArrivesAndComesBack(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		addr, _ := serve(t, path)
		for _, payloadBytes := range []int{10, 24, 200, 100_001} {
			n := 3_000_000/payloadBytes + 7 // several buffers, and a part of one
			queue := "q" + strings.Repeat("x", payloadBytes%40)
			c := dial(t, addr, path)
			send(t, c, queue, 3, 0, n, payloadBytes)
			waitArrived(t, c, queue, int64(n))
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := dial(t, addr, path) // as in another process
			waitArrived(t, second, queue, int64(n))
			consumer, err := second.Consumer(t.Context(), queue)
			if err != nil {
				t.Fatal(err)
			}
			receive(t, consumer, 3, int64(n))
		}
	})
}

// A consumer that was there first gets what comes later, from a second
// producer as well, and an interrupted Receive loses nothing.
func TestConsumerFollows(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		addr, _ := serve(t, path)
		c := dial(t, addr, path)
		consumer, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := consumer.Receive(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Receive of nothing = %v, want the end of its context", err)
		}
		producing := dial(t, addr, path)
		send(t, producing, "q", 3, 0, 10, 200)
		if err := producing.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitArrived(t, c, "q", 10)
		// The server may not have seen the end of the first producer yet.
		again := dial(t, addr, path)
		p, err := again.Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		g, err := workload.NewGenerator(3, 200)
		if err != nil {
			t.Fatal(err)
		}
		g.Seek(10)
		payload := g.Next()
		for deadline := time.Now().Add(patience); ; {
			err := p.Send(t.Context(), payload)
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "one at a time") || time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		receive(t, consumer, 3, 11)
	})
}

func TestHandleEndsReceive(t *testing.T) {
	addr, _ := serve(t, PathFile)
	c := dial(t, addr, PathFile)
	send(t, c, "q", 3, 0, 5, 200)
	consumer, err := c.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := consumer.Receive(t.Context(), func([]byte) error { return enough }); !errors.Is(err, enough) {
		t.Fatalf("Receive = %v, want the error of handle", err)
	}
	// Going on begins with the next message.
	checker := workload.NewChecker(3)
	for checker.Received() < 4 {
		if err := consumer.Receive(t.Context(), checker.Check); err != nil {
			t.Fatal(err)
		}
	}
	if got := checker.Result(5); got != (workload.Result{Received: 4, Lost: 1}) {
		t.Errorf("the rest: %+v", got)
	}
}

// What is stored is entries of exactly Kafka's size, so that rates compare.
func TestFileHoldsEntriesOfKafkasSize(t *testing.T) {
	for _, path := range []Path{PathFile, PathDisk} {
		addr, dir := serve(t, path)
		c := dial(t, addr, path)
		send(t, c, "q", 3, 0, 100, 200)
		waitArrived(t, c, "q", 100)
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v", files, err)
		}
		info, err := files[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		size := c.(driver.WireBytes).StoredSize(200)
		if size != 209 || info.Size() != 100*int64(size) {
			t.Errorf("path %s: %d bytes stored for 100 messages of %d", path, info.Size(), size)
		}
	}
}

func TestProducerRefusesWhatCannotBeMadeAgain(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		addr, _ := serve(t, path)
		p := send(t, dial(t, addr, path), "q", 3, 0, 3, 200)
		g := generator(t, 3, 7, 200)
		if err := p.Send(t.Context(), g.Next()); (err == nil) != (path == PathFile) {
			t.Errorf("a gap: Send = %v", err)
		}
		for _, payload := range [][]byte{nil, []byte("short"), make([]byte, 201)} {
			if err := p.Send(t.Context(), payload); err == nil {
				t.Errorf("a payload of %d bytes was taken after those of 200", len(payload))
			}
		}
	})
}

func TestOneProducerAtATime(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		addr, _ := serve(t, path)
		c := dial(t, addr, path)
		send(t, c, "q", 3, 0, 3, 200)
		p, err := c.Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		g, err := workload.NewGenerator(3, 200)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), g.Next()); err == nil || !strings.Contains(err.Error(), `queue "q" has a producer already`) {
			t.Errorf("a second producer: Send = %v", err)
		}
	})
}

// The server goes away in the middle: everything ends with an error and names
// what was not sent.
func TestServerGoesAway(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan net.Addr, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, ServerConfig{Listen: "127.0.0.1:0", Dir: t.TempDir(), Path: path}, func(a net.Addr) { ready <- a })
		}()
		c := dial(t, (<-ready).String(), path)
		p := send(t, c, "q", 3, 0, 10, 200)
		consumer, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		receive(t, consumer, 3, 10)
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("Serve = %v", err)
		}
		if err := consumer.Receive(t.Context(), nil); err == nil {
			t.Error("Receive from a server that is gone has no error")
		}
		if _, err := c.Arrived(t.Context(), "q"); err == nil {
			t.Error("Arrived from a server that is gone has no error")
		}
		g, err := workload.NewGenerator(3, 200)
		if err != nil {
			t.Fatal(err)
		}
		g.Seek(10)
		deadline := time.Now().Add(patience)
		sent := 0
		for err == nil && time.Now().Before(deadline) {
			err = p.Send(t.Context(), g.Next())
			sent++
		}
		if err == nil {
			t.Fatal("Send to a server that is gone has no error")
		}
		if err := p.Flush(t.Context()); err == nil {
			t.Error("Flush to a server that is gone has no error")
		}
		if err := c.Close(t.Context()); sent > 1 && (err == nil || !strings.Contains(err.Error(), "messages to queue")) {
			t.Errorf("Close = %v, want the number of messages not sent", err)
		}
	})
}

// Close may come at any time, from another goroutine.
func TestCloseWhileSending(t *testing.T) {
	eachPath(t, func(t *testing.T, path Path) {
		addr, _ := serve(t, path)
		c := dial(t, addr, path)
		p, err := c.Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		g, err := workload.NewGenerator(3, 200)
		if err != nil {
			t.Fatal(err)
		}
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for i := 0; ; i++ {
				if err := p.Send(t.Context(), g.Next()); err != nil {
					ended <- err
					return
				}
				if i == 0 {
					close(started)
				}
			}
		}()
		<-started
		_ = c.Close(t.Context()) // how many were not sent is by chance
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("Send did not end")
		}
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("second Close = %v", err)
		}
		if _, err := c.Producer(t.Context(), "q"); err == nil {
			t.Error("a closed client gives a producer")
		}
		if _, err := c.Consumer(t.Context(), "q"); err == nil {
			t.Error("a closed client gives a consumer")
		}
	})
}

func TestServerRefusesGarbage(t *testing.T) {
	addr, _ := serve(t, PathFile)
	for name, tt := range map[string]struct{ send, want string }{
		"http":              {"GET / HTTP/1.1\r\n\r\n", "not of this protocol"},
		"no end of line":    {strings.Repeat("x", 5000), "line of more than 4096 bytes"},
		"unknown request":   {`{"op":"delete","queue":"q"}` + "\n", "delete"},
		"no queue":          {`{"op":"arrived"}` + "\n", "queue name of 0 bytes"},
		"payload too small": {`{"op":"produce","queue":"q","payload_bytes":3}` + "\n", "payload of 3 bytes"},
		"data too early":    {`{"op":"produce","queue":"q","payload_bytes":200}` + "\nabc", "3 bytes came before"},
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, tt.send); err != nil {
			t.Fatal(err)
		}
		// A reset may come behind the answer, for what was not read.
		said, err := io.ReadAll(c)
		if !strings.Contains(string(said), tt.want) {
			t.Errorf("%s: the server said %q (%v), want %q", name, said, err, tt.want)
		}
	}
}

func TestClientRefusesGarbage(t *testing.T) {
	if _, size, _, err := parseEntry([]byte("\xff\xff\xff\xff\x00\x00\x00\x00\x00")); err == nil || size != 0 {
		t.Errorf("an entry of 4 GiB: size %d, %v", size, err)
	}
	_, err := New().Connect(t.Context(), driver.Target{Addr: "127.0.0.1:1"}, nil)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Connect to nobody = %v", err)
	}
}

func TestServeRefuses(t *testing.T) {
	for name, cfg := range map[string]ServerConfig{
		"path":           {Listen: "127.0.0.1:0", Path: "carrier pigeon"},
		"flush interval": {Listen: "127.0.0.1:0", Path: PathTCP, FlushInterval: time.Second},
		"listening on":   {Listen: "256.0.0.1:0", Path: PathTCP},
	} {
		if err := Serve(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Serve = %v", name, err)
		}
	}
}

// A disk that fails ends the queue, and whoever asks is told why.
func TestFailedWriteEndsTheQueue(t *testing.T) {
	for _, path := range []Path{PathFile, PathDisk} {
		addr, dir := serve(t, path)
		// Every write to it fails with "no space left on device".
		if err := os.Symlink("/dev/full", filepath.Join(dir, "71.raw")); err != nil {
			t.Fatal(err)
		}
		c := dial(t, addr, path)
		if _, err := c.Arrived(t.Context(), "q"); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("path %s: a queue whose file is a device: %v", path, err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{name: "q", file: full}
	defer q.close()
	if err := q.begin(request{PayloadBytes: 200}); err != nil {
		t.Fatal(err)
	}
	_, err = q.append(make([]byte, 209))
	if err == nil {
		t.Fatal("a full disk takes a write")
	}
	q.end(&storeError{err})
	if _, err := q.arrived(); err == nil || !strings.Contains(err.Error(), `queue "q"`) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("arrived = %v, want the reason", err)
	}
	if err := q.begin(request{PayloadBytes: 200}); err == nil {
		t.Error("the queue takes another producer")
	}
}

func TestOptionsAndSettings(t *testing.T) {
	for _, o := range []driver.Options{nil, {"path": "file"}, {"path": "disk", "flush-interval": "0"}} {
		rows, err := New().Settings(t.Context(), nil, o)
		if err != nil || len(rows) != len(driver.SettingRows) {
			t.Fatalf("Settings(%v) = %v, %v", o, rows, err)
		}
		for i, r := range rows {
			if r.Row != driver.SettingRows[i] || r.Value == "" {
				t.Errorf("row %d is %+v, want %q", i, r, driver.SettingRows[i])
			}
		}
	}
	for _, o := range []driver.Options{{"path": "x"}, {"batch": "1"}, {"flush-interval": "1s"}, {"path": "file", "flush-interval": "-1s"}} {
		if _, err := New().Settings(t.Context(), nil, o); err == nil {
			t.Errorf("options %v were taken", o)
		}
	}
}

func TestSendAllocatesNothing(t *testing.T) {
	addr, _ := serve(t, PathTCP)
	p := send(t, dial(t, addr, PathTCP), "q", 3, 0, 5000, 200) // all buffers are made
	g, err := workload.NewGenerator(3, 200)
	if err != nil {
		t.Fatal(err)
	}
	g.Seek(5000)
	if n := testing.AllocsPerRun(20_000, func() {
		if err := p.Send(t.Context(), g.Next()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}
