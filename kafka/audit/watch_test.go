package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// awayError is that of a registry of schemas that is down.
type awayError struct{ error }

func (awayError) Temporary() bool { return true }

// A header that cannot be read for a time only is waited for, until the watcher ends: the
// message is not counted as malformed. Any other error is that of the message.
func TestTemporaryErrorsAreWaitedOut(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	w, key := &Watcher{life: life}, partitionKey{"clicks", 0, 0}
	w.cfg.Logger = slog.New(slog.DiscardHandler)
	away := fmt.Errorf("id 7: %w", awayError{errors.New("the registry is away")})
	calls := 0
	read := func(context.Context, []byte) (m counted) {
		if calls++; calls == 1 {
			m.err = away
		}
		return m
	}
	if m, ok := w.read(read, key, 0, nil); !ok || m.err != nil || calls != 2 {
		t.Errorf("after %d calls: %v, %v", calls, m.err, ok)
	}
	unknown := func(context.Context, []byte) counted { return counted{err: envelope.ErrNotEnvelope} }
	if m, ok := w.read(unknown, key, 0, nil); !ok || !errors.Is(m.err, envelope.ErrNotEnvelope) {
		t.Errorf("%v, %v", m.err, ok)
	}
	stillAway := func(context.Context, []byte) counted {
		end() // the watcher is closed meanwhile
		return counted{err: away}
	}
	if m, ok := w.read(stillAway, key, 0, nil); ok {
		t.Errorf("a message was read with %v after the end", m.err)
	}
}

// That the ends of the logs are not known is told when it has lasted, and then from time to
// time; not when it passes.
func TestTroubleIsTold(t *testing.T) {
	away := errors.New("broker 1 is away")
	var trouble trouble
	for _, look := range []struct {
		now  time.Duration
		err  error
		told bool
	}{
		{0, away, false}, {9 * time.Second, away, false}, {10 * time.Second, nil, false},
		{11 * time.Second, away, false}, {20 * time.Second, away, false}, {21 * time.Second, away, true},
		{22 * time.Second, away, false}, {80 * time.Second, away, false}, {81 * time.Second, away, true},
		{82 * time.Second, nil, false}, {83 * time.Second, away, false}, {100 * time.Second, away, false}, {141 * time.Second, away, true},
	} {
		if got := trouble.toBeTold(look.err, look.now); got != look.told {
			t.Errorf("after %v, %v: told %v", look.now, look.err, got)
		}
	}
}

// A compressed message that holds none, as other producers write it, is counted as nothing:
// the tier is caught up behind it, and nothing was deleted before what comes next.
func TestCompressedMessagesThatHoldNone(t *testing.T) {
	c := startCluster(t)
	w := c.watch("live")
	p := c.audited("front1", c.producer(producer.AcksFlushed))
	appendNothing := func() {
		t.Helper()
		for _, b := range c.brokers {
			conn, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for partition := range int32(2) {
				set := message.Append1(nil, []byte{0}, message.CodecSnappy)
				_, produceErr := conn.AckedProduce(testContext(t), "clicks", partition, set, wire.AcksFlushed, 10*time.Second)
				err = errors.Join(err, produceErr)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	send := func(n int) {
		t.Helper()
		for range n {
			if err := p.Send(testContext(t), "clicks", nil, bodies(5)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	appendNothing() // at the beginning of the logs, and then at their ends
	send(20)
	c.await("the first 100 complete", settled(100), "live")
	appendNothing()
	began := time.Now()
	c.await("caught up behind nothing", func(r *Report) bool { return r.Tiers[0].CaughtUp.After(began) }, "live")
	appendNothing()
	send(20)
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if r := c.await("all 200 complete", settled(200), "live"); !r.Clean || r.Tiers[0].Counted != 200 || len(r.Tiers[0].Notes) > 0 {
		t.Errorf("%s", text(t, r))
	}
	c.close(w)
}
