package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"kafkalab/kafka/audit"
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

// ownCommand is "kafka" by this test's own program.
func ownCommand(args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	self, err := os.Executable()
	var notes bytes.Buffer
	return &exec.Cmd{Path: self, Args: append([]string{"kafka"}, args...), Env: os.Environ(), Stderr: &notes}, &notes, err
}

// etlLoad is "kafka etl run" of messages and of the monitoring events of them.
func etlLoad(zk, out string) (*exec.Cmd, *bytes.Buffer, error) {
	return ownCommand("etl", "run", "--zk-connect", zk, "--topic", "clicks", "--topic", audit.DefaultTopic, "--out", out, "--split-size", "20KiB")
}

// loadAudit has the audit count what is loaded, and judge it.
type loadAudit struct {
	t          testing.TB
	out, state string
}

// count counts what has been loaded since it was called last.
func (a loadAudit) count() {
	a.t.Helper()
	cmd, notes, err := ownCommand("audit", "count", "--tier", "load", "--dir", a.out, "--topic", "clicks", "--state", a.state, "--keep", "120h", "--lag", "0s")
	if err == nil {
		err = cmd.Run()
	}
	if err != nil {
		a.t.Fatalf("audit count: %v: %s", err, notes)
	}
}

// check wants the audit to say that so many messages are loaded, each once, and none is
// missing.
func (a loadAudit) check(sent int) {
	a.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(500 * time.Millisecond) {
		a.count()
		cmd, notes, err := ownCommand("audit", "report", "--state", a.state, "--json", "--grace", "1ms")
		if err != nil {
			a.t.Fatal(err)
		}
		out, failed := cmd.Output()
		var r audit.Report
		if err := json.Unmarshal(out, &r); err != nil {
			a.t.Fatalf("audit report: %v: %v: %s", failed, err, notes)
		}
		s := r.Tiers[0]
		if s.Open > 0 && time.Now().Before(deadline) {
			continue
		}
		if failed != nil || !r.Clean || s.Complete != s.Windows || s.Made != uint64(sent) || s.Counted != uint64(sent) || s.Missing+s.Doubled+s.Unreported > 0 {
			a.t.Errorf("%d messages were sent, and the audit says (%v) %+v", sent, failed, s)
		}
		return
	}
}

// TestPaperR30KilledLoads: "kafka etl run" is killed with signal 9 at random points, while
// producers go on. Whatever was being done is done again by the next one: in the end each
// message is in the output once, and at no time is one there twice, which the audit says
// too (NetDB'11 §4).
func TestPaperR30KilledLoads(t *testing.T) {
	kills := environmentNumber(t, "KAFKALAB_KILLS", etlKills)
	seed := uint64(environmentNumber(t, "KAFKALAB_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("KAFKALAB_SEED=%d KAFKALAB_KILLS=%d", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 0))
	zk := startZooKeeper(t).Addr
	brokers := []*kafkatest.Broker{kafkatest.Start(t, registered(zk, 0)), kafkatest.Start(t, registered(zk, 1))}
	out := t.TempDir()
	audited := loadAudit{t, out, filepath.Join(t.TempDir(), "state")}
	sent, events := 0, 0
	publish := func(n int) {
		t.Helper()
		for i, b := range brokers {
			p, err := producer.New(t.Context(), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed, Codec: message.Codec(i)})
			if err != nil {
				t.Fatal(err)
			}
			var payloads, told [][]byte
			made := map[time.Time]*audit.Event{} // by window
			for range n {
				sent++
				h := envelope.Header{Time: time.Now().Add(-time.Duration(sent%3) * 24 * time.Hour), Server: "front", Producer: envelope.ProducerID{1}, Sequence: uint64(sent)}
				payloads = append(payloads, envelope.Append(nil, h, bytes.Repeat([]byte{byte(sent)}, 100)))
				window := h.Time.UTC().Truncate(audit.DefaultWindow)
				if made[window] == nil {
					made[window] = &audit.Event{Producer: h.Producer, Server: h.Server, Topic: "clicks", Window: window, Length: audit.DefaultWindow, Part: events, Revision: 1}
				}
				made[window].Made.Add(audit.Range{First: h.Sequence, Last: h.Sequence})
			}
			events++
			for _, e := range made {
				event, err := e.Append(nil)
				if err != nil {
					t.Fatal(err)
				}
				told = append(told, event)
			}
			if err := errors.Join(p.Send(t.Context(), "clicks", 0, payloads...), p.Send(t.Context(), audit.DefaultTopic, 0, told...)); err != nil {
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
		if all {
			audited.count()
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
	audited.check(sent)
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
		if f.Topic != "clicks" {
			continue
		}
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
