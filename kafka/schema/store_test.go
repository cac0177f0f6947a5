package schema_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/schema"
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
	if err := stores[0].SetLevel(bounded(t), "", schema.None); err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
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
	v := register(t, patient, "s", viewV1)
	eventually(t, "both know it", func() bool {
		_, err := s.ByID(bounded(t), v.ID)
		return err == nil
	})
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

// TestStoreIsFull: what a store holds is bounded: the texts of schemas, and also the
// subjects and versions that one small schema can have, and levels of subjects.
func TestStoreIsFull(t *testing.T) {
	b := kafkatest.Start(t)
	first := openStore(t, b)
	register(t, first, "s", viewV1)
	const room = 2000
	most := first.Stats().Bytes + room
	s := openStore(t, b, func(c *schema.StoreConfig) { c.MaxBytes = most })
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, &schema.Error{Code: schema.CodeNotPermitted}) {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := `{"type":"record","name":"View","doc":"` + strings.Repeat("x", room) + `","fields":[]}`
	_, err := s.Register(bounded(t), schema.Registration{Subject: "other", Schema: mustParse(t, long)})
	refused("more text than there is room for", err)
	n := 0
	for err = nil; err == nil && n < room; n++ {
		_, err = s.Register(bounded(t), schema.Registration{Subject: fmt.Sprintf("other%d", n), Schema: mustParse(t, viewV1)})
	}
	refused("more subjects", err)
	refused("a level of one more", s.SetLevel(bounded(t), strings.Repeat("x", 200), schema.Full))
	register(t, s, "s", viewV1) // it is there
	if got := s.Stats(); n < 3 || got.Schemas != 1 || got.Bytes > most {
		t.Errorf("%d subjects, %+v", n, got)
	}
	// Deleting makes room.
	for _, forGood := range []bool{false, true} {
		if _, err := s.Delete(bounded(t), "other0", 0, forGood); err != nil {
			t.Fatal(err)
		}
	}
	register(t, s, "again", viewV1)
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
