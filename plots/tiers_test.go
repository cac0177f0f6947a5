package plots

import (
	"math"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// The figure of a pipeline has a panel for each tier's delay, and one below for
// what the audit found; its numbers are those of the files.
func TestTiers(t *testing.T) {
	r := read(t, world{repeat: 2, only: []string{"pipeline"}}.make(t))
	s := r.Run.Scenarios[0]
	b := newTiers(r, s)
	if len(b.panels) != 4 || len(b.keys) != 2 || b.x.max < 35 {
		t.Fatalf("%d panels, %d keys, up to %v s", len(b.panels), len(b.keys), b.x.max)
	}
	for i, want := range []struct {
		title  string
		points int
		y      float64 // in seconds
	}{{"Delay to the live cluster", 40, 1}, {"Delay to the replica cluster", 40, 4}, {"Delay to the load's output", 4, 7}} {
		p := b.panels[i]
		if !strings.HasPrefix(p.title, want.title) || len(p.curves) != 4 || len(p.curves[0].points) != want.points {
			t.Errorf("panel %d: %q, %d curves", i, p.title, len(p.curves))
			continue
		}
		if got := p.curves[0].points[0].y; math.Abs(got-want.y) > 0.01*want.y {
			t.Errorf("%s: %v s, want %v", p.title, got, want.y)
		}
		if p.curves[0].kind != strongTrail || p.curves[1].kind != thinTrail || p.curves[2].kind != strongTrail {
			t.Errorf("%s: the first repetition of each system is to be the thick one", p.title)
		}
	}
	found := b.panels[3]
	if len(found.curves) != 4 || !strings.Contains(found.title, "(%)") || strings.Count(found.title, "%") != 1 {
		t.Fatalf("%q, %d curves", found.title, len(found.curves))
	}
	for i, want := range []float64{100, 100, 88, 88} {
		least := 100.0
		for _, p := range found.curves[i].points {
			least = min(least, p.y)
		}
		if math.Abs(least-want) > 1e-9 || len(found.curves[i].points) != 8 {
			t.Errorf("curve %d: least %v of %d windows, want %v", i, least, len(found.curves[i].points), want)
		}
	}
	if caption := strings.Join(b.caption, " "); !strings.Contains(caption, "by the clock of the client host") || !strings.Contains(caption, "monitoring events") {
		t.Errorf("caption %s", caption)
	}
	table := tableOf(t, r, s.Name, "Tiers of the pipeline")
	if len(table.Rows) != 6 {
		t.Fatalf("%q", table.Rows)
	}
	if row := table.Rows[5]; row[1] != resultfile.TagLoad || row[6] != "180" || row[7] != "180" || !strings.HasPrefix(row[2], "7") {
		t.Errorf("%q", row)
	}
}

// A window in which nothing was made says nothing, nor does one that is open, and
// a tier that has least counts.
func TestCompleteOverTime(t *testing.T) {
	got := completeOverTime([]resultfile.AuditWindow{
		{Tier: resultfile.TagLoad, Start: 5, Seconds: 5, Made: 100, Missing: 10},
		{Tier: resultfile.TagLive, Start: 5, Seconds: 5, Made: 100},
		{Tier: resultfile.TagLive, Start: 0, Seconds: 5, Made: 50},
		{Tier: resultfile.TagLive, Start: 10, Seconds: 5, Unreported: 3},
		{Tier: resultfile.TagLoad, Start: 15, Seconds: 5, Made: 100, Open: 100},
	})
	if len(got) != 2 || got[0] != (point{x: 2.5, y: 100}) || got[1] != (point{x: 7.5, y: 90}) {
		t.Errorf("%+v", got)
	}
	if points := delaysOverTime(nil, resultfile.TagLive); points != nil {
		t.Errorf("%+v", points)
	}
}

// Nothing measured is said, and drawn.
func TestTiersOfNothing(t *testing.T) {
	w := world{repeat: 1, only: []string{"pipeline"}, outcome: func(a *resultfile.Attempt) {
		a.Outcome, a.Reason = resultfile.Failed, "the mirror did not come up"
	}}
	r := read(t, w.make(t))
	b := newTiers(r, r.Run.Scenarios[0])
	for _, p := range b.panels {
		if p.empty == "" {
			t.Errorf("%s says nothing", p.title)
		}
	}
	for _, k := range b.keys {
		if !k.absent || !strings.Contains(strings.Join(k.notes, " "), "did not come up") {
			t.Errorf("%+v", k)
		}
	}
	if _, err := Draw(r, t.TempDir()); err != nil {
		t.Error(err)
	}
}
