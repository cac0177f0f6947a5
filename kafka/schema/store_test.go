package schema_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/schema"
	"kafkalab/kafka/wire"
)

// TestRaceOfTwoRegistries: three registries on one topic, to which many clients register
// the same and different schemas at once, for the same subjects and others. No id is
// given twice, no schema has two, versions have no gap, and all of them, and one that
// reads the topic afterwards, know the same.
func TestRaceOfTwoRegistries(t *testing.T) {
	b := kafkatest.Start(t)
	stores := []*schema.Store{openStore(t, b), openStore(t, b), openStore(t, b)}
	const subjects, schemas = 3, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	type given struct {
		at schema.SubjectVersion
		by int
	}
	var mu sync.Mutex
	var all []given
	var clients sync.WaitGroup
	for i, s := range stores {
		if err := s.SetLevel(bounded(t), fmt.Sprintf("s%d", i), schema.None); err != nil {
			t.Fatal(err)
		}
		for worker := range 3 {
			random := rand.New(rand.NewPCG(seed, uint64(i*10+worker)))
			clients.Go(func() {
				for range 12 {
					subject, text := fmt.Sprintf("s%d", random.IntN(subjects)), fmt.Sprintf(`{"type":"fixed","name":"F","size":%d}`, 1+random.IntN(schemas))
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					v, err := s.Register(ctx, schema.Registration{Subject: subject, Schema: mustParse(t, text)})
					cancel()
					if err != nil || v.Schema != text || v.Subject != subject {
						t.Errorf("registry %d, %s, %s: %+v, %v", i, subject, text, v, err)
						return
					}
					mu.Lock()
					all = append(all, given{v, i})
					mu.Unlock()
				}
			})
		}
	}
	clients.Wait()
	textOf, idOf, atVersion := map[uint32]string{}, map[string]uint32{}, map[string]uint32{}
	for _, g := range all {
		if text, known := textOf[g.at.ID]; known && text != g.at.Schema {
			t.Fatalf("id %d stands for %s and for %s", g.at.ID, text, g.at.Schema)
		}
		if id, known := idOf[g.at.Schema]; known && id != g.at.ID {
			t.Fatalf("%s has the ids %d and %d", g.at.Schema, id, g.at.ID)
		}
		place := fmt.Sprintf("%s version %d", g.at.Subject, g.at.Version)
		if id, known := atVersion[place]; known && id != g.at.ID {
			t.Fatalf("%s has the ids %d and %d", place, id, g.at.ID)
		}
		textOf[g.at.ID], idOf[g.at.Schema], atVersion[place] = g.at.Schema, g.at.ID, g.at.ID
	}
	if len(textOf) != schemas || len(textOf) < len(idOf) {
		t.Errorf("%d schemas have %d ids", schemas, len(textOf))
	}
	late := openStore(t, b)
	for _, s := range append(stores, late) {
		for place, id := range atVersion {
			var subject string
			var version int
			if _, err := fmt.Sscanf(place, "%s version %d", &subject, &version); err != nil {
				t.Fatal(err)
			}
			if v, err := s.Version(bounded(t), subject, version, false); err != nil || v.ID != id {
				t.Errorf("%s: %+v, %v, want id %d", place, v, err, id)
			}
		}
		eventually(t, "all registries have read the same", func() bool {
			got, want := s.Stats(), late.Stats()
			return got.Sequence == want.Sequence && got.Schemas == schemas && got.Subjects == subjects
		})
	}
	// Without a gap: as many versions as the last one says.
	for i := range subjects {
		versions, err := late.Versions(bounded(t), fmt.Sprintf("s%d", i), true)
		if err != nil || versions[len(versions)-1].Version != len(versions) {
			t.Errorf("subject s%d has the versions %+v, %v", i, versions, err)
		}
	}
}

// TestSecondRegistryKnowsAtOnce: what one registry has answered for, another one knows
// when it is asked: it reads the topic up to its end before it says that something is
// missing.
func TestSecondRegistryKnowsAtOnce(t *testing.T) {
	b := kafkatest.Start(t)
	first, second := openStore(t, b), openStore(t, b)
	for i := range 50 {
		v := register(t, first, "s", fmt.Sprintf(`{"type":"record","name":"R","fields":[{"name":"f%d","type":"int","default":0}]}`, i))
		if text, err := second.ByID(bounded(t), v.ID); err != nil || text != v.Schema {
			t.Fatalf("schema %d at the second registry: %s, %v", v.ID, text, err)
		}
	}
}

// TestRestartReadsAll: a registry that is started again knows what was there, whatever
// was done, and goes on behind it.
func TestRestartReadsAll(t *testing.T) {
	b := kafkatest.Start(t)
	s := openStore(t, b)
	ctx := bounded(t)
	register(t, s, "a", viewV1)
	register(t, s, "a", viewV2)
	register(t, s, "b", viewV1)
	for _, forGood := range []bool{false, true} {
		if _, err := s.Delete(ctx, "a", 2, forGood); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetMode(ctx, "b", schema.ReadOnly, false); err != nil {
		t.Fatal(err)
	}
	if err := s.SetLevel(ctx, "", schema.Full); err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	s.Close()
	b.Restart()
	again := openStore(t, b)
	if after := again.Stats(); after != before {
		t.Errorf("it knows %+v, and %+v before", after, before)
	}
	if mode, err := again.Mode(ctx, "b", false); mode != schema.ReadOnly || err != nil {
		t.Errorf("mode %s, %v", mode, err)
	}
	if level, err := again.Level(ctx, "", false); level != schema.Full || err != nil {
		t.Errorf("level %s, %v", level, err)
	}
	if v := register(t, again, "c", `"string"`); v.ID != 3 {
		t.Errorf("a new schema has id %d: 2 was given once", v.ID)
	}
	if v := register(t, again, "c2", viewV2); v.ID != 4 {
		t.Errorf("a schema that was deleted for good comes back with id %d", v.ID)
	}
}

// TestBrokerAway: while the broker is down what is known is answered, what is not known
// is not said to be missing, and a change fails in its time. When it is back all goes
// on, also a change that was waiting.
func TestBrokerAway(t *testing.T) {
	b := kafkatest.Start(t)
	s := openStore(t, b, func(c *schema.StoreConfig) { c.ChangeTimeout = 500 * time.Millisecond })
	patient := openStore(t, b, func(c *schema.StoreConfig) { c.ChangeTimeout = patience })
	v := register(t, s, "s", viewV1)
	if _, err := patient.ByID(bounded(t), v.ID); err != nil {
		t.Fatal(err)
	}
	b.Stop()
	if text, err := s.ByID(bounded(t), v.ID); err != nil || text != viewV1 {
		t.Errorf("a known id: %s, %v", text, err)
	}
	if _, err := s.ByID(bounded(t), v.ID+1); !errors.Is(err, &schema.Error{Code: schema.CodeStore}) && !errors.Is(err, &schema.Error{Code: schema.CodeTimeout}) {
		t.Errorf("an unknown id: %v", err)
	}
	if _, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV2)}); !errors.Is(err, &schema.Error{Code: schema.CodeTimeout}) {
		t.Errorf("a change: %v", err)
	}
	if got := s.Broken(); got != nil {
		t.Errorf("it has given up: %v", got)
	}
	waiting := make(chan error, 1)
	go func() {
		got, err := patient.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV3)})
		if err == nil && got.Schema != viewV3 {
			err = fmt.Errorf("it is %+v", got)
		}
		waiting <- err
	}()
	b.Restart()
	if err := <-waiting; err != nil {
		t.Errorf("a change that was waiting: %v", err)
	}
	eventually(t, "a change after the broker is back", func() bool {
		_, err := s.Register(bounded(t), schema.Registration{Subject: "other", Schema: mustParse(t, viewV2)})
		return err == nil
	})
}

// TestAnswerIsLost: the connection breaks after the broker has taken a change and before
// its answer comes, again and again. Each change is made once.
func TestAnswerIsLost(t *testing.T) {
	b := kafkatest.Start(t)
	p := newCutter(t, b.HostPort())
	s := openStore(t, b, func(c *schema.StoreConfig) {
		c.Locate = func(ctx context.Context) (string, error) { return p.addr, schema.CreateTopic(ctx, b.HostPort()) }
		c.ChangeTimeout = patience
	})
	for i := range 6 {
		p.cuts.Store(1 + int64(i%2))
		v := register(t, s, "s", fmt.Sprintf(`{"type":"record","name":"R","fields":[{"name":"f%d","type":"int","default":0}]}`, i))
		if v.Version != i+1 || v.ID != uint32(i+1) {
			t.Errorf("change %d is %+v", i, v)
		}
	}
	if p.made.Load() == 0 {
		t.Fatal("no answer was held back")
	}
	p.cuts.Store(1)
	if numbers, err := s.Delete(bounded(t), "s", 3, false); err != nil || len(numbers) != 1 {
		t.Errorf("a deletion whose answer is lost: %v, %v", numbers, err)
	}
	if got := openStore(t, b).Stats(); got.Sequence != 7 {
		t.Errorf("%d changes count, of 7", got.Sequence)
	}
}

// cutter passes connections on to a broker. The answer to an AckedProduce, while cuts is
// more than 0, is kept back and the connection closed instead.
type cutter struct {
	addr       string
	cuts, made atomic.Int64
}

func newCutter(t testing.TB, broker string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{addr: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.DialTimeout("tcp", broker, patience)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			var produced atomic.Bool
			all.Go(func() {
				defer out.Close()
				_, _ = io.Copy(out, watchRequests(in, &produced))
			})
			all.Go(func() {
				defer in.Close()
				defer out.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := out.Read(buf)
					if n > 0 && produced.Load() && p.cuts.Load() > 0 {
						p.cuts.Add(-1)
						p.made.Add(1)
						return
					}
					if n > 0 {
						if _, err := in.Write(buf[:n]); err != nil {
							return
						}
					}
					if err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// watchRequests notices an AckedProduce among the requests: each is written with one
// write, so it begins what is read.
func watchRequests(in io.Reader, produced *atomic.Bool) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		if n >= 6 && bytes.Equal(p[4:6], []byte{0, byte(wire.TypeAckedProduce)}) {
			produced.Store(true)
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

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

// TestStoreIsFull: the texts of all schemas together are bounded; what is there already
// can be registered elsewhere.
func TestStoreIsFull(t *testing.T) {
	b := kafkatest.Start(t)
	s := openStore(t, b, func(c *schema.StoreConfig) { c.MaxBytes = int64(len(viewV1)) + 10 })
	register(t, s, "s", viewV1)
	if _, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV2)}); !errors.Is(err, &schema.Error{Code: schema.CodeNotPermitted}) {
		t.Errorf("more than there is room for: %v", err)
	}
	register(t, s, "other", viewV1)
}

// TestNobodyThere: opening ends in its time when there is no broker, when it is told to,
// and when what finds the broker fails; and a closed store keeps nobody waiting.
func TestNobodyThere(t *testing.T) {
	nowhere := schema.StoreConfig{Locate: schema.AtBroker("127.0.0.1:1"), ConnectTimeout: 300 * time.Millisecond}
	if _, err := schema.Open(bounded(t), nowhere); err == nil {
		t.Error("a store without a broker")
	}
	lost := errors.New("it is lost")
	if _, err := schema.Open(bounded(t), schema.StoreConfig{ConnectTimeout: time.Millisecond, Locate: func(context.Context) (string, error) { return "", lost }}); !errors.Is(err, lost) {
		t.Errorf("a broker that cannot be found: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := schema.Open(ctx, nowhere); err == nil {
		t.Error("one that was told to stop")
	}
	if _, err := schema.Open(bounded(t), schema.StoreConfig{}); err == nil {
		t.Error("a store that does not know where")
	}
	s := openStore(t, kafkatest.Start(t))
	register(t, s, "s", viewV1)
	s.Close()
	s.Close()
	if _, err := s.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, viewV2)}); err == nil {
		t.Error("a change after Close")
	}
	if text, err := s.ByID(bounded(t), 1); err != nil || text != viewV1 {
		t.Errorf("a known id after Close: %s, %v", text, err)
	}
}
