package producer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/storage"
)

// brokerProcess, when set, makes the test program a broker with that log folder.
const brokerProcess = "KAFKALAB_TEST_BROKER_DIR"

// runBroker is a broker until its standard input ends.
func runBroker(dir string) error {
	cfg := broker.DefaultConfig()
	cfg.Listen, cfg.LogDir = "127.0.0.1:0", dir
	cfg.Storage.Visible = storage.VisibleAppended
	s, err := broker.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	fmt.Println(s.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(err, s.Close(ctx))
}

// startProcess starts a broker in a process of its own, which can be stopped by
// a signal.
func startProcess(t *testing.T) (addr string, process *os.Process) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), brokerProcess+"="+t.TempDir())
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test that has failed may have left it stopped.
		if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), stdin.Close(), cmd.Wait()); err != nil {
			t.Errorf("end of the broker: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), cmd.Process
}

// TestB16QueueFull: the broker is stopped by a signal, and more is sent than the
// queue holds. Each policy does what it says, nothing is missing that no counter
// shows, and when the broker goes on, so do those who wait (fault B16).
func TestB16QueueFull(t *testing.T) {
	for _, policy := range []producer.QueuePolicy{producer.QueueWait, producer.QueueWaitAtMost, producer.QueueDrop, producer.QueueError} {
		for _, cfg := range []producer.Config{
			{},
			{Async: true, BatchMessages: 3},
			{Async: true, BatchMessages: 3, Acks: producer.AcksAppended, MaxInFlight: 4},
			{Async: true, BatchMessages: 1 << 20, Codec: message.CodecSnappy},
		} {
			t.Run(fmt.Sprintf("%v async %v acks %v codec %v", policy, cfg.Async, cfg.Acks, cfg.Codec), func(t *testing.T) {
				cfg.QueueFull, cfg.MaxBufferBytes = policy, 100_000
				if policy == producer.QueueWaitAtMost {
					cfg.QueueTimeout = 20 * time.Millisecond
				}
				testQueueFull(t, cfg)
			})
		}
	}
}

func testQueueFull(t *testing.T, cfg producer.Config) {
	addr, process := startProcess(t)
	cfg.Brokers = []string{addr}
	p := newProducer(t, cfg)
	// What cannot be compressed fills the sockets as well.
	payload := noise(10_000)
	var calls, failed, dropped int64
	send := func(ctx context.Context) error {
		calls++
		err := p.Send(ctx, "t", 0, payload)
		if err != nil {
			failed++
		}
		return err
	}
	mustSignal(t, process, syscall.SIGSTOP)
	for full := 0; full < 3; {
		var err error
		if cfg.QueueFull == producer.QueueWait { // would wait for ever
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err = send(ctx); errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, producer.ErrQueueFull) {
				full, err = full+1, nil
			}
			cancel()
		} else if err = send(testContext(t)); errors.Is(err, producer.ErrQueueFull) && cfg.QueueFull != producer.QueueDrop {
			full, err = full+1, nil
		}
		if err != nil {
			t.Fatalf("call %d: %v", calls, err)
		}
		if n := p.Stats().Dropped; n > dropped {
			full, dropped = full+1, n
		}
	}
	if want := cfg.QueueFull == producer.QueueDrop; (dropped > 0) != want || (failed > 0) == want {
		t.Errorf("%d calls failed, %d messages were dropped", failed, dropped)
	}

	waiting := make(chan error, 1)
	if cfg.QueueFull == producer.QueueWait {
		calls++
		go func() { waiting <- p.Send(testContext(t), "t", 0, payload) }()
	} else {
		waiting <- nil
	}
	mustSignal(t, process, syscall.SIGCONT)
	if err := <-waiting; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := send(testContext(t)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	mustClose(t, p)
	st := p.Stats()
	if st.Sent != calls || st.Failed != failed || st.Dropped != dropped || st.Sent != st.Delivered+st.Dropped+st.Failed {
		t.Errorf("%d calls, %d failed, %d dropped: stats %+v", calls, failed, dropped, st)
	}
	if got := countLog(t, addr); got != st.Delivered {
		t.Errorf("%d messages in the log, stats %+v", got, st)
	}
}

func mustSignal(t *testing.T, process *os.Process, signal os.Signal) {
	t.Helper()
	if err := process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
