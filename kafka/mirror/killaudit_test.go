package mirror_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/client"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// auditedTopic is a topic whose messages are in envelopes, with a monitoring event for each
// batch of them.
const auditedTopic = "audited"

// auditWindow is the length of the windows that are told of.
const auditWindow = time.Second

// auditedMessages are what one producer publishes.
type auditedMessages struct {
	conn   *client.Conn
	id     envelope.ProducerID
	made   uint64
	events int
}

func newAuditedMessages(t testing.TB, c *cluster) *auditedMessages {
	t.Helper()
	return &auditedMessages{conn: dial(t, c.brokers[0].HostPort()), id: envelope.NewProducerID()}
}

// publish publishes messages, and the event of them.
func (a *auditedMessages) publish(t testing.TB, n, size int) {
	t.Helper()
	now := time.Now()
	var set []byte
	first := a.made + 1
	for range n {
		a.made++
		h := envelope.Header{Time: now, Server: "front", Producer: a.id, Sequence: a.made}
		set = message.Append(set, envelope.Append(nil, h, bytes.Repeat([]byte{'.'}, size)))
	}
	e := audit.Event{Producer: a.id, Server: "front", Topic: auditedTopic, Window: now.UTC().Truncate(auditWindow), Length: auditWindow, Part: a.events, Revision: 1}
	e.Made.Add(audit.Range{First: first, Last: a.made})
	a.events++
	event, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for topic, set := range map[string][]byte{auditedTopic: set, audit.DefaultTopic: message.Append(nil, event)} {
		if _, err := a.conn.AckedProduce(testContext(t), topic, 0, set, wire.AcksFlushed, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// copies returns how often messages of the topic are in a cluster beyond once each.
func (a *auditedMessages) copies(t testing.TB, c *cluster) (n uint64) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, b := range c.brokers {
		for p := range c.partitions {
			log := c.log(b, auditedTopic, int32(p), 0)
			it := log.Iterate(0)
			for it.Next() {
				h, _, err := envelope.Open(it.Message().Payload)
				if err != nil {
					t.Fatal(err)
				}
				if seen[h.Sequence] {
					n++
				}
				seen[h.Sequence] = true
			}
		}
	}
	return n
}

// check has the audit compare two clusters, and fails the test unless it finds all that was
// published in both, once in the first and in the second as often as it is there.
func (a *auditedMessages) check(t testing.TB, live, replica *cluster) {
	t.Helper()
	dir := t.TempDir()
	file := func(tier string) string { return filepath.Join(dir, tier) }
	for tier, c := range map[string]*cluster{"live": live, "mirror": replica} {
		w, err := audit.OpenWatcher(testContext(t), audit.WatchConfig{
			CheckerConfig: audit.CheckerConfig{Tier: tier, Topics: []string{auditedTopic}, Window: auditWindow, State: file(tier)},
			Registry:      c.nodes, EventTopic: audit.DefaultTopic, SaveInterval: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := w.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		}()
	}
	var r *audit.Report
	await(t, "the audit to have judged all", func() bool {
		var states []*audit.State
		for _, tier := range []string{"live", "mirror"} {
			s, err := audit.ReadState(file(tier))
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, s)
		}
		var err error
		if r, err = audit.Compare(states, audit.ReportOptions{At: time.Now(), Grace: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		return r.Tiers[0].Open+r.Tiers[1].Open == 0 && r.Tiers[0].Made == a.made && r.Tiers[1].Made == a.made
	})
	doubled := a.copies(t, replica)
	for i, want := range []uint64{0, doubled} {
		if s := r.Tiers[i]; s.Counted != a.made || s.Missing+s.Unreported+s.InDoubt > 0 || s.Doubled != want || !s.Clean {
			t.Errorf("the audit says of tier %s: %+v; %d messages were made, and %d copies are there", s.Tier, s, a.made, want)
		}
	}
	for _, row := range r.Rows {
		if row.Verdict != audit.Complete && (row.Verdict != audit.Doubled || row.Tier != "mirror") {
			t.Errorf("%+v", row)
		}
	}
	t.Logf("the audit: %d messages in both tiers, %d copies in the mirror", a.made, doubled)
}
