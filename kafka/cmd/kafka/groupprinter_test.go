package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/registry"
)

// numbered returns n lines of a partition that begin with its name.
func numbered(name string, n int) *pieces {
	p := &pieces{}
	for i := range n {
		p.text = fmt.Appendf(p.text, "%s %d %s\n", name, i, strings.Repeat("x", i%100))
		p.ends = append(p.ends, lineEnd{len(p.text), int64(i + 1)})
	}
	return p
}

func partitionNumber(n int32) partitionID {
	return partitionID{"t", registry.Partition{Partition: n}}
}

// slowWriter takes a few bytes at a time, so that two who write at once would be
// seen.
type slowWriter struct{ bytes.Buffer }

func (w *slowWriter) Write(p []byte) (int, error) {
	for part := range slices.Chunk(p, 7) {
		w.Buffer.Write(part)
	}
	return len(p), nil
}

// TestGroupPrinterWholeLines: several streams print at once, and no line is torn.
func TestGroupPrinterWholeLines(t *testing.T) {
	var out slowWriter
	p := &groupPrinter{out: &out, stop: func() {}}
	var wg sync.WaitGroup
	want := map[string]bool{}
	for i := range int32(4) {
		lines := numbered(fmt.Sprint("partition", i), 500)
		for line := range strings.Lines(string(lines.text)) {
			want[line] = true
		}
		wg.Go(func() {
			if n, err := p.write(lines, partitionNumber(i)); n != 500 || err != nil {
				t.Errorf("%d lines printed: %v", n, err)
			}
		})
	}
	wg.Wait()
	for line := range strings.Lines(out.String()) {
		if !want[line] {
			t.Fatalf("line %q", line)
		}
		delete(want, line)
	}
	if len(want) > 0 {
		t.Errorf("%d lines are missing", len(want))
	}
}

// TestGroupPrinterEnds: no more lines than wanted are printed, over all streams,
// and none past the last of the log ends.
func TestGroupPrinterEnds(t *testing.T) {
	stopped := false
	stop := func() { stopped = true }
	expect := func(p *groupPrinter, id partitionID, lines, printed int, ends bool) {
		t.Helper()
		n, err := p.write(numbered("p", lines), id)
		if n != printed || err != nil || stopped != ends {
			t.Errorf("%d lines printed, %d wanted; stopped: %v; %v", n, printed, stopped, err)
		}
	}
	p := &groupPrinter{out: io.Discard, max: 12, stop: stop}
	expect(p, partitionNumber(0), 5, 5, false)
	expect(p, partitionNumber(1), 5, 5, false)
	expect(p, partitionNumber(0), 5, 2, true)
	expect(p, partitionNumber(1), 5, 0, true)

	stopped = false
	p = &groupPrinter{out: io.Discard, stop: stop, end: &groupEnd{missing: map[partitionID]int64{partitionNumber(0): 3, partitionNumber(1): 7}}}
	expect(p, partitionNumber(0), 5, 5, false) // the others are not there yet
	expect(p, partitionNumber(2), 5, 5, false) // a partition that came later
	expect(p, partitionNumber(1), 6, 6, false)
	expect(p, partitionNumber(1), 9, 7, true)
	expect(p, partitionNumber(0), 5, 0, true)
}

// TestKeyedLines: keys are taken from the lines, those with one key in a row go out
// together, and an error says how many were sent.
func TestKeyedLines(t *testing.T) {
	var sent []string
	fail := errors.New("refused")
	k := &keyedLines{separator: []byte("::"), send: func(key []byte, payloads [][]byte) (int, error) {
		sent = append(sent, fmt.Sprintf("%s=%s", key, payloads))
		if string(key) == "bad" {
			return 0, fail
		}
		return len(payloads), nil
	}}
	split := func(text string) [][]byte { return bytes.Split([]byte(text), []byte("\n")) }
	n, err := k.sendAll(split("a::1\na::2\nb::3::x\n::4\na::"))
	if want := []string{"a=[1 2]", "b=[3::x]", "=[4]", "a=[]"}; n != 5 || err != nil || !slices.Equal(sent, want) {
		t.Errorf("%d sent, %v, %q", n, err, sent)
	}
	if n, err := k.sendAll(split("a::1\na::2\nnone\na::3")); n != 2 || err == nil || !strings.Contains(err.Error(), `"none" has no key`) {
		t.Errorf("%d sent: %v", n, err)
	}
	if n, err := k.sendAll(split("a::1\nbad::2\na::3")); n != 1 || !errors.Is(err, fail) {
		t.Errorf("%d sent: %v", n, err)
	}
	if n, err := k.sendAll(split(strings.Repeat("k", maxKeyBytes+1) + "::1")); n != 0 || err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("%d sent: %v", n, err)
	}
}

// failingWriter takes so many bytes, and then fails.
type failingWriter struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("the disk is full")

func (w *failingWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestGroupCommitsWhatIsWritten: a consumer whose output fails ends, and has
// committed nothing that was not written out.
func TestGroupCommitsWhatIsWritten(t *testing.T) {
	zk := startZooKeeper(t).Addr
	b := kafkatest.Start(t, registered(zk, 0))
	var in strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&in, "line %d\n", i)
	}
	std := discard()
	std.In = strings.NewReader(in.String())
	if status := realMain(t.Context(), []string{"produce", "--broker-list", b.HostPort(), "--topic", "t", "--acks", "flushed"}, std); status != 0 {
		t.Fatalf("produce: status %d", status)
	}
	consume := func(ctx context.Context, out io.Writer) (int, string) {
		var errs bytes.Buffer
		status := realMain(ctx, []string{"consume", "--zk-connect", zk, "--group", "g", "--topic", "t", "--exit-at-end"}, stdio{Out: out, Err: &errs})
		return status, errs.String()
	}
	full := &failingWriter{room: in.Len() / 2}
	if status, errs := consume(t.Context(), full); status != 1 || !strings.Contains(errs, errFull.Error()) {
		t.Fatalf("status %d: %s", status, errs)
	}
	var rest bytes.Buffer
	if status, errs := consume(t.Context(), &rest); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	// What was written before, up to the last whole line, and what came then.
	seen := map[string]bool{}
	for _, text := range []string{full.String(), rest.String()} {
		for line := range strings.Lines(text) {
			seen[line] = true
		}
	}
	for line := range strings.Lines(in.String()) {
		if !seen[line] {
			t.Fatalf("line %q is lost", line)
		}
	}
}
