package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/producer"
)

// R29: every message carries the time and the name of the server of its making, through a
// broker and as the application made it.
func TestPaperR29MessagesCarryTimeAndServer(t *testing.T) {
	c := startCluster(t)
	p := c.audited("front1", c.producer(producer.AcksFlushed))
	before := time.Now().Truncate(time.Millisecond)
	for i := range 20 {
		if err := p.Send(testContext(t), "clicks", nil, fmt.Appendf(nil, "click %d", 2*i), fmt.Appendf(nil, "click %d", 2*i+1)); err != nil {
			t.Fatal(err)
		}
	}
	after := time.Now()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, m := range c.consume("clicks", 40) {
		h, body, err := envelope.Open(m)
		if err != nil {
			t.Fatal(err)
		}
		if h.Server != "front1" || h.Producer != p.ID() || h.Time.Before(before) || h.Time.After(after) {
			t.Errorf("%q was made %v at %s by %v; it was between %v and %v", body, h.Time, h.Server, h.Producer, before, after)
		}
		if want := fmt.Sprintf("click %d", h.Sequence-1); string(body) != want {
			t.Errorf("message %d is %q, want %q", h.Sequence, body, want)
		}
		seen = append(seen, string(body))
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 40 {
		t.Errorf("%d different messages", len(seen))
	}
}

// consume returns the payloads of the first n messages of a topic.
func (c *cluster) consume(topic string, n int) (payloads [][]byte) {
	c.Helper()
	c.consumeUntil(topic, func(payload []byte) bool {
		payloads = append(payloads, slices.Clone(payload))
		return len(payloads) == n
	})
	return payloads
}

// consumeUntil gives the payloads of a topic to a function until it returns true.
func (c *cluster) consumeUntil(topic string, done func(payload []byte) bool) {
	c.Helper()
	g, err := consumer.OpenGroup(testContext(c), consumer.GroupConfig{Registry: c.registry, Group: "look-" + topic, Topics: map[string]int{topic: 1}})
	if err != nil {
		c.Fatal(err)
	}
	defer func() {
		if err := g.Close(testContext(c)); err != nil {
			c.Error(err)
		}
	}()
	for {
		m, err := g.Streams(topic)[0].Next(testContext(c))
		if err != nil {
			c.Fatal(err)
		}
		if done(m.Payload) {
			return
		}
	}
}

// R29: a producer publishes, to a topic of its own, how many messages of each topic it has
// made within each fixed window of time.
func TestPaperR29MonitoringEvents(t *testing.T) {
	c := startCluster(t)
	p := c.audited("front1", c.producer(producer.AcksFlushed))
	made := map[string]map[int64]uint64{"clicks": {}, "searches": {}}
	for i := range 30 {
		for topic := range made {
			n := 1 + i%3
			if err := p.Send(testContext(t), topic, nil, bodies(n)...); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond) // so that there are several windows; none of what follows depends on it
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for topic, windows := range made {
		for _, m := range c.consume(topic, 60) {
			h, _, err := envelope.Open(m)
			if err != nil {
				t.Fatal(err)
			}
			windows[windowStart(h.Time.UnixMilli(), shortWindow.Milliseconds())]++
		}
	}
	// A window that closed late has several revisions of its event: the last one counts.
	told, revisions := map[string]map[int64]uint64{"clicks": {}, "searches": {}}, map[string]map[int64]int{"clicks": {}, "searches": {}}
	events := 0
	c.consumeUntil(DefaultTopic, func(payload []byte) bool {
		e, err := ParseEvent(payload)
		if err != nil {
			t.Fatal(err)
		}
		if e.Server != "front1" || e.Producer != p.ID() || e.Length != shortWindow {
			t.Errorf("%s", payload)
		}
		if at := e.Window.UnixMilli(); e.Revision > revisions[e.Topic][at] {
			revisions[e.Topic][at], told[e.Topic][at] = e.Revision, e.Made.Count()
		}
		events++
		return events == int(p.Stats().Events)
	})
	if text(t, told) != text(t, made) {
		t.Errorf("events tell %v, made was %v", told, made)
	}
}

// tampering loses some messages between the audited producer and the cluster, and doubles
// others, as a faulty pipeline does.
type tampering struct {
	to           Sender
	mu           sync.Mutex
	lose, double map[uint64]bool // by sequence number
}

func (s *tampering) Send(ctx context.Context, topic string, key []byte, payloads ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sent [][]byte
	for _, p := range payloads {
		h, _, err := envelope.Open(p)
		if err != nil {
			return err
		}
		if !s.lose[h.Sequence] {
			sent = append(sent, p)
		}
		if s.double[h.Sequence] {
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return nil
	}
	return s.to.Send(ctx, topic, key, sent...)
}

// R29: consumers count what they get by topic and window, and check it against the
// producers' events: nothing is missing when nothing is lost, one that is lost is found
// although another one came twice, and a checker that is stopped and started again has
// counted the same.
func TestPaperR29ConsumersCheckTheirCounts(t *testing.T) {
	c := startCluster(t)
	w := c.watch("live")
	messages := &tampering{to: c.producer(producer.AcksFlushed)}
	p := c.audited("front1", messages)
	send := func(n int) {
		t.Helper()
		for range n {
			if err := p.Send(testContext(t), "clicks", nil, bodies(5)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(40)
	// The window that the last ones are in has an event when it is over.
	r := c.await("all 200 complete", settled(200), "live")
	if s := r.Tiers[0]; !r.Clean || s.Counted != 200 || s.Complete != int64(len(r.Rows)) || s.Doubled > 0 {
		t.Fatalf("%s", text(t, r))
	}
	metrics := scrape(t, w)
	for _, want := range []string{
		`kafka_audit_messages_total{tier="live",topic="clicks"} 200`, `kafka_audit_made_messages{tier="live",topic="clicks"} 200`,
		`kafka_audit_missing_messages{tier="live",topic="clicks"} 0`, `kafka_audit_partitions_stalled{tier="live"} 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	messages.mu.Lock()
	messages.lose, messages.double = map[uint64]bool{223: true}, map[uint64]bool{231: true, 232: true}
	messages.mu.Unlock()
	send(10)
	c.close(w) // in the middle
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	w = c.watch("live")
	r = c.await("one missing", settled(250), "live")
	if s := r.Tiers[0]; r.Clean || s.Counted != 249 || s.Missing != 1 || s.Doubled != 2 || s.Unreported != 0 {
		t.Errorf("%s", text(t, r))
	}
	c.close(w)
	// Once more, with nothing new: positions and counts stay what they are.
	before := c.report("live").Tiers[0]
	w = c.watch("live")
	c.await("caught up again", func(r *Report) bool { return r.Tiers[0].CaughtUp.After(before.CaughtUp) }, "live")
	c.close(w)
	if after := c.report("live").Tiers[0]; !after.Same(before) {
		t.Errorf("counted %+v, and after a start without anything new %+v", before, after)
	}
}

func scrape(t testing.TB, w *Watcher) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(w.Collector())
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	b, err := io.ReadAll(answer.Result().Body)
	if err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", answer.Code, err, b)
	}
	return string(b)
}

// R29: a producer that died before it published its last event is never shown as complete:
// what has come of it is unreported, in each tier, although all of it may be there.
func TestPaperR29DeadProducerIsNeverComplete(t *testing.T) {
	c := startCluster(t)
	w, again := c.watch("live"), c.watch("second")
	alive := c.audited("front1", c.producer(producer.AcksFlushed))
	// The dead one's events reach nobody, as those of a process that was killed.
	dead, err := NewProducer(ProducerConfig{Messages: c.producer(producer.AcksFlushed), Acked: true, Events: silent{}, Server: "front2", Window: shortWindow})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for _, p := range []*Producer{alive, dead} {
			if err := p.Send(testContext(t), "clicks", nil, bodies(3)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range []*Producer{alive, dead} {
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	r := c.await("all judged", func(r *Report) bool {
		return settled(30)(r) && r.Tiers[0].Counted == 60 && r.Tiers[1].Counted == 60
	}, "live", "second")
	for i := range r.Rows {
		row := &r.Rows[i]
		want := map[string]Verdict{"front1": Complete, "front2": Unreported}[row.Server]
		if row.Verdict != want || row.Missing > 0 {
			t.Errorf("%s, window %v: %s, %d missing, want %s", row.Server, row.Window, row.Verdict, row.Missing, want)
		}
	}
	if r.Clean || r.Tiers[0].Unreported != 30 || r.Tiers[1].Unreported != 30 {
		t.Errorf("%s", text(t, r))
	}
	c.close(w)
	c.close(again)
}

// What retention deletes while nobody watches, messages and the events of them alike, does
// not leave a tier that looks complete.
func TestDeletedWhileNobodyWatched(t *testing.T) {
	c := startCluster(t)
	w := c.watch("live")
	publish := func(server string) {
		t.Helper()
		p := c.audited(server, c.producer(producer.AcksFlushed))
		for range 8 {
			if err := p.Send(testContext(t), "clicks", nil, bodies(1)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	publish("front1")
	if r := c.await("all judged", settled(8), "live"); !r.Clean {
		t.Fatalf("%s", text(t, r))
	}
	c.close(w)
	publish("front2")
	for _, b := range c.brokers {
		b.Config.Storage.RetentionAge, b.Config.Storage.CleanupInterval = time.Millisecond, 10*time.Millisecond
		b.Restart()
	}
	for deadline := time.Now().Add(30 * time.Second); !c.emptied(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the logs are not emptied")
		}
	}
	began := time.Now()
	w = c.watch("live")
	r := c.await("caught up", func(r *Report) bool { return r.Tiers[0].CaughtUp.After(began) }, "live")
	if r.Clean || !strings.Contains(fmt.Sprint(r.Tiers[0].Notes), "were deleted before they were counted") {
		t.Errorf("%s", text(t, r))
	}
	c.close(w)
}

// emptied says whether nothing is left in any log of the cluster.
func (c *cluster) emptied() bool {
	c.Helper()
	for _, b := range c.brokers {
		conn, err := client.Dial(testContext(c), b.HostPort(), client.Config{})
		if err != nil {
			c.Fatal(err)
		}
		states, err := conn.Topics(testContext(c))
		if err := errors.Join(err, conn.Close()); err != nil {
			c.Fatal(err)
		}
		for _, s := range states {
			if s.First < s.Watermark {
				return false
			}
		}
	}
	return true
}

// silent takes events and loses them.
type silent struct{}

func (silent) Send(context.Context, string, []byte, ...[]byte) error { return nil }

// A message that is in no envelope, or only looks like it, is an error of its own and
// counted; the others are counted as ever.
func TestHostileMessages(t *testing.T) {
	c := startCluster(t)
	w := c.watch("live")
	raw := c.producer(producer.AcksFlushed)
	for _, payload := range [][]byte{[]byte("hello"), {}, []byte("KLA\x01"), []byte("KLA\x07"), make([]byte, 500_000)} {
		if err := raw.Send(testContext(t), "clicks", nil, payload); err != nil {
			t.Fatal(err)
		}
		if err := raw.Send(testContext(t), DefaultTopic, nil, payload); err != nil {
			t.Fatal(err)
		}
	}
	p := c.audited("front1", raw)
	if err := p.Send(testContext(t), "clicks", nil, bodies(7)...); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	r := c.await("all seven complete", settled(7), "live")
	if s := r.Tiers[0]; s.Counted != 7 || s.NotEnvelope != 3 || s.Malformed != 2 || s.Missing > 0 || len(s.Notes) != 2 {
		t.Errorf("%s", text(t, r))
	}
	c.close(w)
}
