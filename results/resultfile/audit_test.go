package resultfile

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func auditWindows() []AuditWindow {
	return []AuditWindow{
		{Tier: TagLive, Start: -1.25, Seconds: 5, Made: 100, Counted: 101, Doubled: 1},
		{Tier: TagLoad, Start: 3.75, Seconds: 5, Made: 200, Counted: 150, Missing: 50, Open: 3},
		{Tier: TagReplica, Start: 8.75, Seconds: 5, Counted: 7, Unreported: 7},
	}
}

func TestAuditThereAndBack(t *testing.T) {
	var b bytes.Buffer
	if err := WriteAudit(&b, auditWindows()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	got, err := ReadAudit(strings.NewReader(text))
	if err != nil || !reflect.DeepEqual(got, auditWindows()) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"live,", "dead,", `line 2: broken series: tier "dead"`},
		{"-1.25,5,", "-1.25,0,", "line 2: broken series: a window from -1.25 of 0 seconds"},
		{"3.75", "NaN", "line 3: broken series: a window from NaN"},
		{"200", "-200", "line 3: made is \"-200\""},
		{"missing", "lost", `line 1: column 6 is "lost"`},
		{text, "", "it is empty"},
	} {
		if _, err := ReadAudit(strings.NewReader(strings.Replace(text, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// What the audit said stands in the run's folder, is never written over, and when
// damaged costs the attempt a note and nothing else.
func TestAuditOfAnAttempt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := Scenario{Name: "pipeline", Work: Pipeline, PayloadBytes: 200, Chart: OverTiers, Systems: []System{{ID: "x", Label: "X", Driver: "pipeline", Role: RoleSystem}}}
	w, err := Create(dir, Run{Started: time.Now(), Scenarios: []Scenario{s}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a, err := w.Begin(Attempt{Scenario: "pipeline", System: "x", Repetition: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.PutAudit(a.ID, auditWindows()); err != nil {
		t.Fatal(err)
	}
	if err := w.PutAudit(a.ID, auditWindows()); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("written over: %v", err)
	}
	if err := w.PutAudit("other", []AuditWindow{{Tier: "none"}}); err == nil {
		t.Error("what could not be read back was written")
	}
	a.Outcome, a.Messages, a.Seconds = Valid, 10, 1
	if err := w.PutAttempt(a, []Point{{}, {Seconds: 1, Messages: 10, Bytes: 2000, Arrived: 10}}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil || !reflect.DeepEqual(r.Audit(a.ID), auditWindows()) || r.Audit("other") != nil {
		t.Errorf("%+v, %v", r.Audit(a.ID), err)
	}
	if err := ReplaceFile(auditPath(dir, a.ID), []byte("nonsense\n")); err != nil {
		t.Fatal(err)
	}
	r, err = Salvage(dir)
	if err != nil || len(r.Faults()) != 1 || r.Run.Attempts[0].Outcome != Valid || !strings.Contains(strings.Join(r.Run.Attempts[0].Notes, " "), "audit") {
		t.Errorf("%v, %v, %+v", err, r.Faults(), r.Run.Attempts[0])
	}
}

// The delays of a pipeline stand in the same format under the names of its tiers.
func TestLatencyOfTiers(t *testing.T) {
	l := &Latency{Started: time.Unix(1_764_500_000, 0).UTC()}
	for i, tier := range Tiers() {
		h := NewLatencyHistogram()
		if err := h.RecordValues(int64(i+1)*int64(time.Second), 10); err != nil {
			t.Fatal(err)
		}
		in, err := NewLatencyInterval(tier, float64(i), 1, h)
		if err != nil {
			t.Fatal(err)
		}
		back, err := in.Decode()
		if err != nil || back.TotalCount() != 10 {
			t.Errorf("%v, %v", back, err)
		}
		l.Intervals = append(l.Intervals, in)
	}
	text := written(t, l)
	got, err := ReadLatency(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got.Planned != nil || got.Sent != nil || len(got.Tiers) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, tier := range Tiers() {
		want := time.Duration(i+1) * time.Second
		if at := time.Duration(got.Tiers[tier].ValueAtPercentile(50)); at < want-want/500 || at > want+want/500 {
			t.Errorf("%s: %v, want %v", tier, at, want)
		}
	}
	// Without intervals each histogram is one.
	whole, err := ReadLatency(bytes.NewReader(written(t, &Latency{Tiers: got.Tiers})))
	if err != nil || len(whole.Intervals) != 3 || whole.Intervals[2].Tag != TagLoad {
		t.Errorf("%+v, %v", whole, err)
	}
	for _, text := range []string{strings.Replace(string(text), "Tag=live", "Tag=dead", 1), latencyLegend + "\n"} {
		if _, err := ReadLatency(strings.NewReader(text)); err == nil {
			t.Errorf("read: %.200s", text)
		}
	}
}
