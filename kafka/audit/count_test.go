package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/clock"
)

// loaded makes a file of messages, or events.
func loaded(name, topic string, payloads ...[]byte) Loaded {
	return Loaded{Name: name, Topic: topic, Until: noon.Add(12 * time.Hour), Read: func(f func([]byte) error) error {
		for _, p := range payloads {
			if err := f(slices.Clone(p)); err != nil {
				return err
			}
		}
		return nil
	}}
}

func payload(producer byte, sequence uint64, made time.Duration) []byte {
	return envelope.Append(nil, header("front1", producer, sequence, made), []byte("body"))
}

// The files of a load count once each, however often they are given, also when a count
// ended in the middle of one; those of other topics do not count.
func TestLoadedFilesCountOnce(t *testing.T) {
	files := folder(t)
	cfg := CheckerConfig{Tier: "load", Topics: []string{"clicks"}, State: "/d/state", Files: files, Clock: clock.NewManual(at(time.Hour))}
	e, err := event(t, "front1", 1, 0, 1, "1-5").Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the file is not whole")
	list := []Loaded{
		loaded("audit/1", "audit", e, []byte("no event")),
		loaded("clicks/1", "clicks", payload(1, 1, 0), payload(1, 2, 0)),
		loaded("searches/1", "searches", payload(1, 1, 0)),
	}
	torn := loaded("clicks/2", "clicks", payload(1, 4, 0))
	whole := torn.Read
	torn.Read = func(f func([]byte) error) error { return errors.Join(whole(f), broken) }
	if err := CountLoaded(t.Context(), cfg, append(slices.Clone(list), torn), "audit", at(time.Hour)); !errors.Is(err, broken) || !strings.Contains(err.Error(), "clicks/2") {
		t.Errorf("a torn file: %v", err)
	}
	list = append(list, loaded("clicks/2", "clicks", payload(1, 4, 0), payload(1, 5, 0), []byte("hello")))
	for range 3 {
		if err := CountLoaded(t.Context(), cfg, list, "audit", at(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := readState(files, "/d/state")
	if err != nil {
		t.Fatal(err)
	}
	r := compare(t, s)
	wantRows(t, r, "load front1 0s: missing, 5 made, 4 counted, 1 missing")
	if s.Topics["clicks"].Messages != 5 || r.Tiers[0].NotEnvelope != 1 || s.Events.Malformed != 1 || len(s.Files) != 3 || s.Topics["searches"] != nil {
		t.Errorf("%+v, files %v", r.Tiers[0], s.Files)
	}
	// Files of which nothing can be counted any more are forgotten.
	cfg.Clock = clock.NewManual(at(48 * time.Hour))
	if err := CountLoaded(t.Context(), cfg, list, "audit", at(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s, err = readState(files, "/d/state"); err != nil || len(s.Files) != 0 || s.Topics["clicks"].Messages != 5 {
		t.Fatalf("%v, %v", s.Files, err)
	}
	if got := compare(t, s).Tiers[0]; got.Missing != 1 || got.Counted != 4 {
		t.Errorf("%+v", got)
	}
}
