package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/etl"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// etlKills is how often TestPaperR30KilledLoads kills a load; KAFKALAB_KILLS overrides it.
const etlKills = 15

// environmentNumber returns the value of an environment variable, or def.
func environmentNumber(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

// etlLoad is "kafka etl run" of this test's own program.
func etlLoad(zk, out string) (*exec.Cmd, *bytes.Buffer, error) {
	self, err := os.Executable()
	var notes bytes.Buffer
	cmd := &exec.Cmd{
		Path: self, Args: []string{"kafka", "etl", "run", "--zk-connect", zk, "--topic", "clicks", "--out", out, "--split-size", "20KiB"},
		Env: os.Environ(), Stderr: &notes,
	}
	return cmd, &notes, err
}

// TestPaperR30KilledLoads: "kafka etl run" is killed with signal 9 at random points, while
// producers go on. Whatever was being done is done again by the next one: in the end each
// message is in the output once, and at no time is one there twice (NetDB'11 §4).
func TestPaperR30KilledLoads(t *testing.T) {
	kills := environmentNumber(t, "KAFKALAB_KILLS", etlKills)
	seed := uint64(environmentNumber(t, "KAFKALAB_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("KAFKALAB_SEED=%d KAFKALAB_KILLS=%d", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 0))
	zk := startZooKeeper(t).Addr
	brokers := []*kafkatest.Broker{kafkatest.Start(t, registered(zk, 0)), kafkatest.Start(t, registered(zk, 1))}
	out := t.TempDir()
	sent := 0
	publish := func(n int) {
		t.Helper()
		for i, b := range brokers {
			p, err := producer.New(t.Context(), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed, Codec: message.Codec(i)})
			if err != nil {
				t.Fatal(err)
			}
			var payloads [][]byte
			for range n {
				sent++
				h := envelope.Header{Time: time.Now().Add(-time.Duration(sent%3) * 24 * time.Hour), Server: "front", Producer: envelope.ProducerID{1}, Sequence: uint64(sent)}
				payloads = append(payloads, envelope.Append(nil, h, bytes.Repeat([]byte{byte(sent)}, 100)))
			}
			if err := p.Send(t.Context(), "clicks", 0, payloads...); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func() time.Duration {
		t.Helper()
		cmd, notes, err := etlLoad(zk, out)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, notes)
		}
		return time.Since(begun)
	}
	check := func(all bool) {
		t.Helper()
		if err := loadedOnce(out, sent, all); err != nil {
			t.Fatal(err)
		}
	}
	publish(500)
	whole := run()
	check(true)
	killed, finished := 0, 0
	for killed < kills {
		if finished > 5*kills {
			t.Fatalf("%d loads ended before they were killed, and %d were killed", finished, killed)
		}
		publish(200)
		cmd, _, err := etlLoad(zk, out)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() }) // it may have ended
		if cmd.Wait() == nil {
			finished++
			whole = min(whole, time.Since(begun)) // the next one is killed earlier
		} else {
			killed++
		}
		timer.Stop()
		check(false)
		if (killed+finished)%5 == 4 {
			run()
			check(true)
		}
	}
	run()
	check(true)
	t.Logf("%d loads killed, %d ended before, %d messages; a load took %v", killed, finished, sent, whole)
}

// loadedOnce checks that an output folder holds no message twice, and each of those that
// were sent, if it is to hold all.
func loadedOnce(out string, sent int, all bool) error {
	files, err := etl.Files(out)
	if err != nil {
		return err
	}
	seen := map[uint64]bool{}
	for _, f := range files {
		err := etl.ReadFile(f.Path, func(offset int64, payload []byte) error {
			h, _, err := envelope.Open(payload)
			if err != nil {
				return fmt.Errorf("%s, offset %d: %w", f.Path, offset, err)
			}
			if seen[h.Sequence] {
				return fmt.Errorf("message %d is there twice, also in %s at offset %d", h.Sequence, f.Path, offset)
			}
			if h.Sequence > uint64(sent) {
				return fmt.Errorf("message %d was never sent", h.Sequence)
			}
			if day := h.Time.Format(time.DateOnly); day != f.Date.Format(time.DateOnly) {
				return fmt.Errorf("message %d, made on %s, is in %s", h.Sequence, day, f.Path)
			}
			seen[h.Sequence] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	if all && len(seen) != sent {
		return fmt.Errorf("%d messages were sent, and %d are loaded", sent, len(seen))
	}
	return nil
}
