package paper

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

func mustMkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// everyPart makes a report with every kind of figure and every part.
func everyPart(t testing.TB, dir string) *Report {
	t.Helper()
	return makeReport(t,
		everyChart{name: "a-plain", repeat: 2}.write(t, dir),
		everyChart{name: "b-raid10", repeat: 1, raid: true}.write(t, dir),
		inventedDrawings(t, filepath.Join(dir, "c-drawings")))
}

// Every scenario has its figures and tables in the page, the drawings stand in
// it, and every link and number leads to its folder.
func TestReportOfEveryChart(t *testing.T) {
	dir := t.TempDir()
	r := everyPart(t, dir)
	page, markdown := forms(t, r)
	doc := parsePage(t, page)
	for _, p := range r.Runs {
		section := doc.byID(t, p.Anchor)
		for i, s := range everyScenario() {
			part := section.withHeading(t, s.Title)
			if got := len(part.all("figure")); got != len(p.Sections[i].Figures) || got == 0 {
				t.Errorf("%s: %d figures", s.Name, got)
			}
		}
		if said := section.text(); !strings.Contains(said, "Every broker was held to the cores 0-1 and 2,150 MB of memory, page cache included (invented).") || !strings.Contains(said, "Both hosts have one clock") || !strings.Contains(said, "900,000 messages/s") {
			t.Errorf("%s does not say under what conditions it took place", p.Run.Name)
		}
	}
	if len(r.Drawn) != 1 || len(r.Drawn[0].Drawings) != 4 || len(doc.byID(t, r.Drawn[0].Anchor).all("figure")) != 4 {
		t.Errorf("drawings: %+v", r.Drawn)
	}
	for _, want := range []string{"fig2-log.png", "## Drawings of a live system: c-drawings", "## RAID 10 against the plain disk", "## Rivals in two views", "Scenarios of which there is no run here: "} {
		if !bytes.Contains(markdown, []byte(want)) {
			t.Errorf("no %q in the Markdown", want)
		}
	}
	for _, f := range doc.all("figure") { // the drawings' own files are those that "testbed plot" makes
		if len(f.all("svg")) != 1 {
			t.Errorf("%s has no drawing", f.attr("id"))
		}
	}
	checkLinks(t, doc, dir)
	samePage, sameMarkdown := forms(t, makeReport(t, filepath.Join(dir, "c-drawings"), filepath.Join(dir, "b-raid10"), filepath.Join(dir, "a-plain")))
	if !bytes.Equal(page, samePage) || !bytes.Equal(markdown, sameMarkdown) {
		t.Error("the second report differs from the first")
	}
}

// A run on the RAID 10 is set beside the plain one that says most.
func TestArrays(t *testing.T) {
	dir := t.TempDir()
	r := makeReport(t,
		everyChart{name: "few", only: "fig4-producer", repeat: 1}.write(t, dir),
		everyChart{name: "plain", only: "fig4-producer", repeat: 2}.write(t, dir),
		everyChart{name: "raid", only: "fig4-producer", repeat: 2, raid: true}.write(t, dir),
		invented{name: "other", messages: 2_000_000, repeat: 3, rates: asMeasured()}.write(t, dir))
	if len(r.Arrays) != 1 || r.Arrays[0].Plain.Run.Name != "plain" || r.Arrays[0].RAID.Run.Name != "raid" {
		t.Fatalf("%+v", r.Arrays)
	}
	i := slices.IndexFunc(r.Arrays[0].Rows, func(y ArrayRow) bool { return y.System == "Synthetic kafka-b50" })
	if i < 0 {
		t.Fatalf("%+v", r.Arrays[0].Rows)
	}
	if y := r.Arrays[0].Rows[i]; y.Ratio != "0.80 (0.79 .. 0.81)" || y.Plain != "406,000 (2)" || y.RAID != "325,000 (2)" {
		t.Errorf("%+v", y)
	}
	if alone := makeReport(t, filepath.Join(dir, "raid")); len(alone.Arrays) != 0 {
		t.Errorf("without a plain run: %+v", alone.Arrays)
	}
}

// A run on another machine is not set beside one on the RAID 10 while there is
// one on its own, however much it says.
func TestArrayOfOneMachine(t *testing.T) {
	run := func(processor string, repeat int) resultfile.Run {
		h := resultfile.Host{Facts: []resultfile.Fact{{Name: "processor", Value: processor}, {Name: "cores", Value: "2"}}}
		return resultfile.Run{Repeat: repeat, Testbed: resultfile.Testbed{ClientHost: h, BrokerHost: h}}
	}
	raid := run("A", 3)
	for _, c := range []struct {
		first, second resultfile.Run
		want          bool
	}{
		{run("A", 1), run("B", 6), true},
		{run("B", 6), run("A", 1), false},
		{run("A", 6), run("A", 3), true},
		{run("B", 3), run("C", 6), false},
	} {
		if got := nearer(raid, c.first, c.second); got != c.want {
			t.Errorf("%s x %d rather than %s x %d: %v", c.first.Testbed.BrokerHost.Fact("processor"), c.first.Repeat, c.second.Testbed.BrokerHost.Fact("processor"), c.second.Repeat, got)
		}
	}
}

// A rival that was measured in both views stands once for each scenario, from
// the run that says most.
func TestViews(t *testing.T) {
	dir := t.TempDir()
	r := makeReport(t, everyChart{name: "few", only: "fig4-producer", repeat: 1}.write(t, dir), everyChart{name: "more", only: "fig4-producer", repeat: 2}.write(t, dir))
	if len(r.Views) != 1 {
		t.Fatalf("%+v", r.Views)
	}
	if v := r.Views[0]; v.Run.Run.Name != "more" || v.Paper != "Synthetic rabbitmq" || v.Best != "Synthetic rabbitmq-best" || v.Ratio != "1.00 (0.99 .. 1.01)" {
		t.Errorf("%+v", v)
	}
}

func TestUnmeasured(t *testing.T) {
	run := &resultfile.Result{Run: resultfile.Run{Scenarios: []resultfile.Scenario{{Name: "b"}}}}
	known := map[string][]string{"c": {"kafka"}, "b": {"kafka"}, "a": {"kafka"}, "all": {}}
	if got := unmeasured([]*resultfile.Result{run}, known); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%q", got)
	}
}

// Damaged drawings are named, and the runs count all the same.
func TestBrokenDrawings(t *testing.T) {
	dir := t.TempDir()
	drawings := inventedDrawings(t, filepath.Join(dir, "drawings"))
	damage(t, filepath.Join(drawings, "topology.json"))
	r := makeReport(t, small("run").write(t, dir), drawings)
	if len(r.Broken) != 1 || r.Broken[0].Link != "drawings/" || !strings.Contains(r.Broken[0].Why, "topology.json") || len(r.Runs) != 1 {
		t.Errorf("%+v", r.Broken)
	}
	if only := makeReport(t, inventedDrawings(t, filepath.Join(dir, "more"))); len(only.Drawn) != 1 || len(only.Runs) != 0 {
		t.Errorf("of drawings alone: %+v", only)
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		bed  resultfile.Testbed
		want string
	}{
		{resultfile.Testbed{}, "Cores and memory of the brokers were not held."},
		{resultfile.Testbed{BrokerLimits: &resultfile.Limits{Note: "no cgroup here"}}, "Cores and memory of the brokers were not held: no cgroup here."},
		{resultfile.Testbed{BrokerLimits: &resultfile.Limits{Cores: "0-3", Note: "taskset"}}, "Every broker was held to the cores 0-3 (taskset)."},
		{resultfile.Testbed{RAID10: true, BrokerLimits: &resultfile.Limits{MemoryBytes: 2e9}, Clock: &resultfile.Clock{OffsetSeconds: -0.0012, ErrorSeconds: 0.0001}},
			"The broker's data lay on a RAID 10 that was made for the run, of six files on one disk. Every broker was held to 2,000 MB of memory, page cache included. The broker host's clock stood -1.200 ms from the client host's, at most 0.100 ms wrong; latencies from one to the other are corrected by that."},
	} {
		if got := environment(resultfile.Run{Testbed: c.bed}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
