package schema_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/schema"
	"kafkalab/kafka/wire"
)

// TestTopicIsNotWhatItWas: a topic that begins later, that was deleted, or that has
// other messages than before is not followed. What is known is answered, nothing is
// changed: ids would be given again.
func TestTopicIsNotWhatItWas(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(t *testing.T, b *kafkatest.Broker)
	}{
		{"deleted", func(t *testing.T, b *kafkatest.Broker) { deleteTopic(t, b) }},
		{"deleted and made anew", func(t *testing.T, b *kafkatest.Broker) {
			deleteTopic(t, b)
			other := openStore(t, b)
			for i := range 5 {
				register(t, other, "s", fmt.Sprintf(`{"type":"record","name":"Other","doc":"%d","fields":[]}`, i))
			}
		}},
		{"made anew, as long as before", func(t *testing.T, b *kafkatest.Broker) {
			deleteTopic(t, b)
			other := openStore(t, b)
			register(t, other, "s", strings.ReplaceAll(viewV1, "View", "Veiw"))
			register(t, other, "s", strings.ReplaceAll(viewV2, "View", "Veiw"))
		}},
		{"emptied", func(t *testing.T, b *kafkatest.Broker) {
			b.Stop()
			if err := os.RemoveAll(filepath.Join(b.Config.LogDir, message.SchemasTopic+"-0")); err != nil {
				t.Fatal(err)
			}
			b.Restart()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := kafkatest.Start(t)
			s := openStore(t, b)
			v := register(t, s, "s", viewV1)
			register(t, s, "s", viewV2)
			row.harm(t, b)
			eventually(t, "it notices", func() bool {
				_, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV3)})
				if err == nil {
					t.Fatal("something was changed")
				}
				return s.Broken() != nil
			})
			if err := s.Broken(); !errors.Is(err, schema.ErrBroken) {
				t.Errorf("it says %v", err)
			}
			if text, err := s.ByID(bounded(t), v.ID); err != nil || text != viewV1 {
				t.Errorf("a known id: %s, %v", text, err)
			}
			if _, err := s.ByID(bounded(t), 99); !errors.Is(err, &schema.Error{Code: schema.CodeStore}) {
				t.Errorf("an unknown id: %v", err)
			}
			r := serve(t, s)
			r.wantCode("POST", "/subjects/s/versions", bodyOf(viewV3), 500, 50001)
			r.want("GET", "/schemas/ids/1", "", 200, `{"schema":`+quoted(viewV1)+`}`)
		})
	}
}

func deleteTopic(t testing.TB, b *kafkatest.Broker) {
	t.Helper()
	c, err := client.Dial(bounded(t), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.DeleteTopic(bounded(t), message.SchemasTopic); err != nil {
		t.Fatal(err)
	}
}

// TestTopicThatBeganEarlier: a registry does not begin with a log that has lost its
// beginning.
func TestTopicThatBeganEarlier(t *testing.T) {
	b := kafkatest.Start(t, withConfig(func(c *brokerConfig) {
		age := time.Millisecond
		c.Storage.SegmentBytes, c.Storage.CleanupInterval = 1, 5*time.Millisecond
		c.Storage.Topics = map[string]topicConfig{message.SchemasTopic: {RetentionAge: &age}} // asked for
	}))
	publish(t, b, message.SchemasTopic, []byte("a"))
	publish(t, b, message.SchemasTopic, []byte("b"))
	eventually(t, "it is refused", func() bool {
		s, err := schema.Open(bounded(t), schema.StoreConfig{Locate: schema.AtBroker(b.HostPort())})
		if err == nil {
			s.Close() // it was earlier than retention
			return false
		}
		if !errors.Is(err, schema.ErrBroken) {
			t.Fatal(err)
		}
		return true
	})
}

// TestForeignMessages: what is no record of a registry is passed over, at the start and
// later, and counted.
func TestForeignMessages(t *testing.T) {
	b := kafkatest.Start(t)
	garbage := [][]byte{nil, []byte("hello"), []byte("{}"), []byte(`{"kafkalab_schema":0}`), []byte(`[1]`), bytes.Repeat([]byte{0xff}, 10_000)}
	publish(t, b, message.SchemasTopic, garbage...)
	s := openStore(t, b)
	register(t, s, "s", viewV1)
	// A record with a number that is taken, or far away: it does not count.
	publish(t, b, message.SchemasTopic,
		[]byte(`{"kafkalab_schema":1,"sequence":1,"writer":"x","kind":"version","subject":"s","version":1,"id":1,"schema":"\"string\""}`),
		[]byte(`{"kafkalab_schema":1,"sequence":9,"writer":"x","kind":"version","subject":"s","version":2,"id":2,"schema":"\"string\""}`))
	register(t, s, "s", viewV2)
	set, err := message.Compress(nil, message.Append(message.Append(nil, []byte("inside")), []byte("too")), message.CodecGzip)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(bounded(t), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.AckedProduce(bounded(t), message.SchemasTopic, 0, set, wire.AcksFlushed, patience); err != nil {
		t.Fatal(err)
	}
	b.Restart() // it finds its place again, also in the middle of those
	eventually(t, "a change after that", func() bool {
		_, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV3)})
		return err == nil
	})
	if got := s.Stats(); got.Sequence != 3 || got.Schemas != 3 || got.Foreign < int64(len(garbage)+2) {
		t.Errorf("%+v", got)
	}
	if got := openStore(t, b).Stats(); got.Sequence != 3 || got.Foreign != int64(len(garbage)+2) {
		t.Errorf("one that reads all of it: %+v", got)
	}
}

// TestImpossibleRecords: a record that counts and cannot be is an end, and no guess.
func TestImpossibleRecords(t *testing.T) {
	for name, text := range map[string]string{
		"a newer format":     `{"kafkalab_schema":2,"sequence":2,"writer":"x","kind":"version"}`,
		"an unknown kind":    `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"other"}`,
		"an id given twice":  `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"version","subject":"s","version":2,"id":1,"schema":"\"string\""}`,
		"a schema with two":  `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"version","subject":"s","version":2,"id":2,"schema":` + quoted(viewV1) + `}`,
		"a version again":    `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"version","subject":"s","version":1,"id":2,"schema":"\"string\""}`,
		"no schema":          `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"version","subject":"s","version":2,"id":2,"schema":"{"}`,
		"no id":              `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"version","subject":"s","version":2,"schema":"\"string\""}`,
		"nothing to delete":  `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"delete","subject":"none"}`,
		"nothing to destroy": `{"kafkalab_schema":1,"sequence":2,"writer":"x","kind":"purge","subject":"none"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := kafkatest.Start(t)
			s := openStore(t, b)
			register(t, s, "s", viewV1)
			publish(t, b, message.SchemasTopic, []byte(text))
			eventually(t, "it ends", func() bool { return s.Broken() != nil })
			if text, err := s.ByID(bounded(t), 1); err != nil || text != viewV1 {
				t.Errorf("a known id: %s, %v", text, err)
			}
			if other, err := schema.Open(bounded(t), schema.StoreConfig{Locate: schema.AtBroker(b.HostPort())}); !errors.Is(err, schema.ErrBroken) {
				t.Errorf("another one begins with it: %v", err)
				if err == nil {
					other.Close()
				}
			}
		})
	}
}

// claims keeps which log is the cluster's, as "kafka schema-registry" has ZooKeeper do it: a
// stand-in.
type claims struct {
	mu    sync.Mutex
	noted string
	fail  error
	asked int
}

func (c *claims) claim(_ context.Context, log string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.fail != nil {
		return c.fail
	}
	if c.noted == "" {
		c.noted = log
	}
	if c.noted != log {
		return fmt.Errorf("%w: another one was begun", schema.ErrBroken)
	}
	return nil
}

func (c *claims) option(cfg *schema.StoreConfig) { cfg.Claim = c.claim }

func (c *claims) failWith(err error) (asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
	return c.asked
}

// TestAnotherTopic: a registry that is started anew follows no topic but the one that was
// begun, though another one, empty or not, is at the broker that it finds.
func TestAnotherTopic(t *testing.T) {
	var c claims
	first, other := kafkatest.Start(t), kafkatest.Start(t)
	openStore(t, first, c.option) // nothing counts yet, so nothing is noted
	openStore(t, other, c.option)
	publish(t, first, message.SchemasTopic, []byte("no record"))
	s := openStore(t, first, c.option)
	v := register(t, s, "s", viewV1)
	refused := func(what string) {
		t.Helper()
		if s, err := schema.Open(bounded(t), schema.StoreConfig{Locate: schema.AtBroker(other.HostPort()), Claim: c.claim}); !errors.Is(err, schema.ErrBroken) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				s.Close()
			}
		}
	}
	refused("an empty one")
	register(t, openStore(t, other), "s", viewV1) // the same schema, and not the same log
	refused("one of its own")
	again := openStore(t, first, c.option)
	if text, err := again.ByID(bounded(t), v.ID); err != nil || text != viewV1 {
		t.Errorf("the one that was begun: %s, %v", text, err)
	}
}

// TestNothingCountsBeforeTheClaim: while it cannot be noted which log it is, no id is given;
// then it is.
func TestNothingCountsBeforeTheClaim(t *testing.T) {
	var c claims
	b := kafkatest.Start(t)
	s := openStore(t, b, c.option, func(cfg *schema.StoreConfig) { cfg.ChangeTimeout = time.Second })
	before := c.failWith(errors.New("not now"))
	if _, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV1)}); err == nil {
		t.Error("an id was given")
	}
	if n := s.Stats().Schemas; n != 0 {
		t.Errorf("%d schemas count", n)
	}
	if asked := c.failWith(nil); asked == before {
		t.Error("it was not asked for")
	}
	eventually(t, "the change counts", func() bool {
		v, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV1)})
		return err == nil && v.ID == 1
	})
	if c.noted == "" {
		t.Error("nothing is noted")
	}
}
