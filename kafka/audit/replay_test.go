package audit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
)

// step is a chunk of a partition that a checker is given.
type step struct {
	key         partitionKey
	messages    []counted
	first, next int64
	isEvent     bool
}

// steps makes a history of two partitions and the events of it: messages that are lost,
// doubled, hostile, and of a producer that dies.
func steps(t testing.TB) (all []step) {
	t.Helper()
	offsets := map[partitionKey]int64{}
	chunk := func(key partitionKey, messages ...counted) {
		s := step{key: key, first: offsets[key], isEvent: key.topic == "audit"}
		for i := range messages {
			messages[i].offset = offsets[key]
			offsets[key] += 100
		}
		s.messages, s.next = messages, offsets[key]
		all = append(all, s)
	}
	message := func(producer byte, sequence uint64, made time.Duration) counted {
		return counted{header: header("front1", producer, sequence, made)}
	}
	zero, one, events := partitionKey{"clicks", 0, 0}, partitionKey{"clicks", 1, 0}, partitionKey{"audit", 0, 0}
	chunk(zero, message(1, 1, 0), message(1, 2, 0), message(2, 1, time.Second))
	chunk(one, message(1, 4, 0), message(1, 4, 0), counted{err: envelope.ErrNotEnvelope})
	chunk(events, counted{event: event(t, "front1", 1, 0, 1, "1-4")})
	chunk(one, message(1, 5, 11*time.Second))
	chunk(events, counted{event: event(t, "front1", 1, 0, 1, "1-4")}, counted{err: errors.New("no event")})
	chunk(zero, message(1, 6, 12*time.Second), message(2, 2, 12*time.Second), message(1, 7, 12*time.Second))
	chunk(events, counted{event: event(t, "front1", 1, length, 1, "5-7")})
	return all
}

// feed gives a checker what it has not counted, as a consumer would that begins at its
// positions, and saves after each chunk. It returns the error of the save that fails.
func feed(c *checker, all []step, save bool) error {
	for _, s := range all {
		begin, ok := c.start(s.key)
		if !ok {
			begin = 0
		}
		if s.next <= begin {
			continue
		}
		messages := s.messages
		for len(messages) > 0 && messages[0].offset < begin {
			messages = messages[1:]
		}
		c.count(s.key, messages, messages[0].offset, s.next, s.isEvent)
		if !save {
			continue
		}
		if err := c.save(); err != nil {
			return err
		}
	}
	return nil
}

func replayChecker(t testing.TB, files vfs.FS) (*checker, error) {
	t.Helper()
	return openChecker(CheckerConfig{
		Tier: "live", Topics: []string{"clicks"}, State: "/d/state", Files: files, Clock: clock.NewManual(at(15 * time.Second)),
	})
}

// outcome is what a checker has counted in the end: positions, counts and verdicts.
func outcome(t testing.TB, c *checker) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fillState(c.cfg.Clock.Now())
	c.state.ID, c.state.CaughtUp = "", at(time.Hour)
	report, err := Compare([]*State{c.state}, ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return text(t, c.state) + "\n" + text(t, report)
}

// The process, or the machine, ends before, in the middle of, or after any step of
// writing the state: the next checker goes on from positions and counts that belong
// together, and in the end has counted the same.
func TestCrashAtEveryStep(t *testing.T) {
	all := steps(t)
	files := folder(t)
	c, err := replayChecker(t, files)
	if err != nil {
		t.Fatal(err)
	}
	ops := 0
	files.SetHook(func(op vfs.Op) error {
		if op.Kind.Changes() {
			ops++
		}
		return nil
	})
	if err := feed(c, all, true); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, c)
	if !strings.Contains(want, `"missing":1`) || !strings.Contains(want, `"doubled":1`) || !strings.Contains(want, `"unreported":2`) || !strings.Contains(want, `"next":600`) {
		t.Fatalf("the history does not hold what it should: %s", want)
	}
	if ops < 5*len(all) {
		t.Fatalf("%d steps of writing", ops)
	}
	seed := rand.Uint64()
	crash := errors.New("the machine stops")
	for n := 1; n <= ops; n++ {
		for _, torn := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			t.Run(fmt.Sprintf("step %d of %d torn %v seed %d", n, ops, torn, seed), func(t *testing.T) {
				files := folder(t)
				c, err := replayChecker(t, files)
				if err != nil {
					t.Fatal(err)
				}
				left := n
				files.SetHook(func(op vfs.Op) error {
					if !op.Kind.Changes() {
						return nil
					}
					if left--; left > 0 {
						return nil
					}
					if torn && left == 0 && op.Kind == vfs.OpWrite {
						return &vfs.TornWrite{Bytes: rng.IntN(op.Size), Err: crash}
					}
					return crash // and all that comes after it, too
				})
				if err := feed(c, all, true); !errors.Is(err, crash) {
					t.Fatalf("the save ended with %v", err)
				}
				for name, left := range map[string]*vfs.Mem{"killed": files.KillClone(), "power lost": files.CrashClone(nil), "power lost by chance": files.CrashClone(rng)} {
					again, err := replayChecker(t, left)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					if err := feed(again, all, true); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					if got := outcome(t, again); got != want {
						t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
					}
				}
				// The process lives on: what it could not write it writes later.
				files.SetHook(nil)
				if err := errors.Join(feed(c, all, true), c.save()); err != nil {
					t.Error(err)
				}
				if got := outcome(t, c); got != want {
					t.Errorf("lived on:\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A chunk that comes again, as after a rebalance, changes nothing; one that leaves a gap
// is told of, and so is a log that begins anew.
func TestChunksThatComeAgain(t *testing.T) {
	all := steps(t)
	c, err := replayChecker(t, folder(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := feed(c, all, false); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, c)
	// The partition is given up and claimed again while a chunk of it is in hand, which is
	// counted after that; then the messages come again, in other chunks.
	last := all[5]
	c, err = replayChecker(t, folder(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := feed(c, all[:5], false); err != nil {
		t.Fatal(err)
	}
	if begin, ok := c.start(last.key); !ok || begin != last.first {
		t.Fatalf("it goes on at %d, %v", begin, ok)
	}
	c.count(last.key, last.messages, last.first, last.next, false)
	for i, m := range last.messages {
		c.count(last.key, last.messages[i:i+1], m.offset, m.offset+100, false)
	}
	if err := feed(c, all[6:], false); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, c); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	p := c.positions[last.key]
	next := p.Next
	c.count(last.key, []counted{{offset: next + 50, header: header("front1", 1, 8, 12*time.Second)}}, next+50, next+150, false)
	if p.Skipped != 50 || p.Next != next+150 {
		t.Errorf("after a gap: %+v", p)
	}
	c.count(last.key, []counted{{offset: 0, header: header("front1", 1, 9, 12*time.Second)}}, 0, 100, false)
	if p.BeganAnew != 1 || p.Next != 100 {
		t.Errorf("after a log that began anew: %+v", p)
	}
	if messages := c.tally.topics["clicks"].Messages; messages != 10+2 {
		t.Errorf("%d messages", messages)
	}
}

// A partition of which nothing was counted yet is given up and claimed again while its
// first chunk is in hand: that counts once too, and the log did not begin anew.
func TestFirstChunkThatComesAgain(t *testing.T) {
	all := steps(t)
	c, err := replayChecker(t, folder(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := feed(c, all, false); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, c)
	if c, err = replayChecker(t, folder(t)); err != nil {
		t.Fatal(err)
	}
	first := all[0]
	for range 2 {
		if at, ok := c.start(first.key); ok {
			t.Fatalf("it goes on at %d", at)
		}
	}
	c.count(first.key, first.messages, first.first, first.next, false)
	if err := feed(c, all, false); err != nil {
		t.Fatal(err)
	}
	c.count(first.key, first.messages, first.first, first.next, false)
	if p := c.positions[first.key]; p.BeganAnew != 1 {
		t.Errorf("a log that begins anew later: %+v", p)
	}
	if c, err = replayChecker(t, folder(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.start(first.key)
	}
	for range 2 { // in hand, and from the feed
		c.count(first.key, first.messages, first.first, first.next, false)
	}
	if err := feed(c, all[1:], false); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, c); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What was deleted of a log before it was counted is told of, also when nothing has come
// since; not when it was counted.
func TestRestOfALogIsDeleted(t *testing.T) {
	c, err := replayChecker(t, folder(t))
	if err != nil {
		t.Fatal(err)
	}
	key, other, fresh := partitionKey{"clicks", 0, 0}, partitionKey{"clicks", 0, 1}, partitionKey{"clicks", 0, 2}
	for _, k := range []partitionKey{key, other} {
		c.count(k, []counted{{header: header("front1", 1, uint64(k.partition)+1, 0)}}, 0, 100, false)
	}
	ends := map[partitionKey]logEnds{key: {500, 500}, other: {100, 100}, fresh: {300, 300}}
	for range 2 {
		for k, n := range c.behind(ends) {
			if n != 0 {
				t.Errorf("%v is %d bytes behind, and is empty", k, n)
			}
		}
		if got := outcome(t, c); !strings.Contains(got, `"gone":400`) || !strings.Contains(got, "partition clicks 0-0: 400 bytes were deleted before they were counted") ||
			strings.Count(got, "were deleted") != 1 || !strings.Contains(got, `"clean":false`) {
			t.Errorf("%s", got)
		}
	}
	c.count(key, []counted{{offset: 500, header: header("front1", 1, 3, 0)}}, 500, 600, false)
	if p := c.positions[key]; p.Gone != 0 || p.Skipped != 400 || p.Next != 600 {
		t.Errorf("%+v", p)
	}
	ends[key] = logEnds{500, 900}
	if n := c.behind(ends)[key]; n != 300 {
		t.Errorf("it is %d bytes behind", n)
	}
	// Only what is there can be counted still.
	ends[key], ends[other], ends[fresh] = logEnds{800, 900}, logEnds{400, 450}, logEnds{300, 450}
	for k, want := range map[partitionKey]int64{key: 100, other: 50, fresh: 150} {
		if n := c.behind(ends)[k]; n != want {
			t.Errorf("%v is %d bytes behind, want %d", k, n, want)
		}
	}
	ends = map[partitionKey]logEnds{key: {500, 900}}
	if err := shorter(ends, c.counted()); err != nil {
		t.Error(err)
	}
	ends[key] = logEnds{0, 50}
	if err := shorter(ends, c.counted()); err == nil {
		t.Error("a log that ends before what was counted of it passes for the same")
	}
}

// A state is used by one process, of one tier, window and set of topics; one that is
// damaged is refused.
func TestStatesAreGuarded(t *testing.T) {
	files := folder(t)
	c, err := replayChecker(t, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	if _, err := replayChecker(t, files); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second checker: %v", err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*CheckerConfig){
		"of tier live":   func(c *CheckerConfig) { c.Tier = "mirror" },
		"windows of 10s": func(c *CheckerConfig) { c.Window = time.Second },
		"topic clicks":   func(c *CheckerConfig) { c.Topics = []string{"searches"} },
	} {
		cfg := CheckerConfig{Tier: "live", Topics: []string{"clicks"}, State: "/d/state", Files: files}
		change(&cfg)
		if _, err := openChecker(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	f, err := files.OpenWrite("/d/state")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 60); err != nil {
		t.Fatal(err)
	}
	if _, err := replayChecker(t, files); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged state: %v", err)
	}
	for what, content := range map[string]string{
		"no counts of a topic": `{"tier":"live","window_ms":10000,"topics":{"clicks":null}}`,
		"no topics":            `{"tier":"live","window_ms":10000}`,
		"a layer of nothing":   `{"tier":"live","window_ms":10000,"topics":{"clicks":{}},"producers":[{"slots":[{"came":[null]}]}]}`,
		"an event of nothing":  `{"tier":"live","window_ms":10000,"topics":{"clicks":{}},"producers":[{"events":[{"length_ms":1000}]}]}`,
		"no window":            `{"tier":"live","topics":{"clicks":{}}}`,
	} {
		if err := replaceFile(files, "/d/state", stateKind, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if s, err := readState(files, "/d/state"); err == nil {
			if _, err := Compare([]*State{s}, ReportOptions{}); err == nil {
				t.Errorf("%s: it is compared", what)
			}
		}
		if _, err := replayChecker(t, files); err == nil {
			t.Errorf("%s: it is gone on with", what)
		}
	}
}
