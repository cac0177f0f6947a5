package producer

import (
	"errors"
	"testing"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// filled returns a producer of asynchronous messages with a connection, and a
// buffer of so many requests of one message that is being written to it.
func filled(t *testing.T, acks Acks, requests int) (*Producer, *link, buffer) {
	t.Helper()
	cfg, err := Config{Brokers: []string{"nobody:1"}, Async: true, Acks: acks, BatchMessages: 1}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := &Producer{cfg: cfg, changed: make(chan struct{}), wake: make(chan struct{}, 1), batches: map[batchKey]*batch{}}
	l := &link{}
	p.link = l
	for range requests {
		if _, err := p.sendAsync(&room{ctx: t.Context()}, "t", 0, [][]byte{[]byte("payload")}); err != nil {
			t.Fatal(err)
		}
	}
	out := p.fill
	p.fill = buffer{}
	l.inflight = append(l.inflight, out.requests...)
	return p, l, out
}

var ackPayload = wire.AppendAckedRange(nil, wire.AckedRange{Next: 16})

// balance checks that every message is confirmed, lost, or still to be sent.
func balance(t *testing.T, p *Producer, l *link, confirmed, lost, waiting int64) {
	t.Helper()
	inflight := count{}
	for _, r := range l.inflight {
		inflight.add(r.count)
	}
	if p.stats.Delivered != confirmed || p.loss.messages != lost || p.fill.count.messages+inflight.messages != waiting {
		t.Errorf("%d messages confirmed, %d lost, %d waiting or in flight; want %d, %d, %d",
			p.stats.Delivered, p.loss.messages, p.fill.count.messages+inflight.messages, confirmed, lost, waiting)
	}
	if n := len(p.fill.requests); p.cfg.Acks != AcksNone && int64(n) != p.fill.count.messages {
		t.Errorf("%d requests are remembered for %d messages that wait", n, p.fill.count.messages)
	}
}

// TestAnswerOfAConnectionGivenUp: an answer that was received while the writer
// gave the connection up changes nothing: what it is for is counted as lost.
func TestAnswerOfAConnectionGivenUp(t *testing.T) {
	for _, acks := range []Acks{AcksNone, AcksAppended} {
		p, l, out := filled(t, acks, 3)
		if acks == AcksNone {
			l.startBarrier(1, out.count)
		}
		p.link = nil
		l.unconfirmed, l.inflight = count{}, nil // as broke leaves them
		if p.answered(l, wire.CodeNone, ackPayload) {
			t.Errorf("acks %v: more answers are wanted", acks)
		}
		if l.unconfirmed != (count{}) {
			t.Errorf("acks %v: %d messages are in doubt", acks, l.unconfirmed.messages)
		}
		balance(t, p, l, 0, 0, 0)
	}
}

// TestWriteFailsBehindAnswers: some requests of a write were answered before it
// failed; each message is accounted for once.
func TestWriteFailsBehindAnswers(t *testing.T) {
	broken := errors.New("broken")
	frame := wire.AckedProduceSize("t") + message.EntrySize(len("payload"))
	for _, c := range []struct {
		name             string
		answers, written int // written: bytes
		confirmed, lost, waiting/* or flying */ int64
	}{
		{"none answered, cut in the third", 0, 2*frame + 5, 0, 1, 4},
		{"one answered, cut in the third", 1, 2*frame + 5, 1, 1, 3},
		{"all answered that were written", 2, 2 * frame, 2, 0, 3},
		{"answers to what was never written", 3, frame, 3, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, l, out := filled(t, AcksAppended, 5)
			for range c.answers {
				p.answered(l, wire.CodeNone, ackPayload)
			}
			p.writeFailed(l, &out, len(out.b), c.written, true, broken)
			balance(t, p, l, c.confirmed, c.lost, c.waiting)
		})
	}
}

// TestAcknowledgedIsNotInDoubt: with acks there is nothing for a barrier to
// confirm, so an idle producer has nothing to wake up for.
func TestAcknowledgedIsNotInDoubt(t *testing.T) {
	p, l, out := filled(t, AcksAppended, 1)
	p.written(l, out.count)
	p.answered(l, wire.CodeNone, ackPayload)
	if l.unconfirmed.messages != 0 {
		t.Errorf("%d messages wait for a barrier", l.unconfirmed.messages)
	}
}
