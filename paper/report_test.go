package paper

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

var update = flag.Bool("update", false, "write the golden files anew; look at what changed")

// small is a run short enough for its report to be read: one figure, and one
// attempt that is not valid.
func small(name string) invented {
	rates := map[string]float64{"limit": 563_000, "kafka": 562_700, "rabbitmq": 44_600}
	return invented{name: name, messages: 1_000_000, repeat: 2, rates: rates, change: func(a *resultfile.Attempt) {
		if a.System == "rabbitmq" && a.Repetition == 2 {
			a.Outcome, a.Reason, a.Lost = resultfile.Invalid, "2 messages lost | see <the log>", 2
		}
	}}
}

// makeReport makes the report of the runs in the folder that holds them.
func makeReport(t testing.TB, dirs ...string) *Report {
	t.Helper()
	r, err := New(dirs, filepath.Dir(dirs[0]), scenariosOf(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func forms(t testing.TB, r *Report) (page, markdown []byte) {
	t.Helper()
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if markdown, err = r.Markdown(); err != nil {
		t.Fatal(err)
	}
	return page, markdown
}

// The golden report is that of one small run, without the drawings, which have
// golden files of their own, and without the deviations, which are a page of
// their own.
func TestGoldenReport(t *testing.T) {
	page, markdown := forms(t, makeReport(t, small("synthetic").write(t, t.TempDir())))
	for _, g := range []struct {
		name string
		got  []byte
	}{{"report.html", withoutParts(t, page, "<section id=\"deviations\">", "</section>")}, {"REPORT.md", withoutParts(t, markdown, "## Deviations from 2011", "")}} {
		got := g.got
		for bytes.Contains(got, []byte("<svg")) {
			got = withoutParts(t, got, "<svg", "</svg>")
		}
		got = withoutStyle(got)
		path := filepath.Join("testdata", g.name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs (-update writes it anew); got:\n%s", path, got)
		}
	}
}

// withoutParts takes out what stands from begin to end, or to the end of all.
func withoutParts(t *testing.T, text []byte, begin, end string) []byte {
	t.Helper()
	before, rest, found := bytes.Cut(text, []byte(begin))
	if !found {
		t.Fatalf("there is no %q in:\n%s", begin, text)
	}
	var after []byte
	if end != "" {
		_, after, _ = bytes.Cut(rest, []byte(end))
	}
	return slices.Concat(before, after)
}

func withoutStyle(text []byte) []byte {
	before, rest, _ := bytes.Cut(text, []byte("<style>"))
	_, after, _ := bytes.Cut(rest, []byte("</style>"))
	return slices.Concat(before, after)
}

// The same folders give the same bytes, in whatever order they are named and
// wherever they are.
func TestReportIsDeterministic(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	a, b := small("a").write(t, one), small("b").write(t, one)
	if err := os.CopyFS(two, os.DirFS(one)); err != nil {
		t.Fatal(err)
	}
	page, markdown := forms(t, makeReport(t, a, b))
	samePage, sameMarkdown := forms(t, makeReport(t, b, a+"/", a))
	if !bytes.Equal(page, samePage) || !bytes.Equal(markdown, sameMarkdown) {
		t.Error("the order of the folders matters")
	}
	samePage, sameMarkdown = forms(t, makeReport(t, filepath.Join(two, "a"), filepath.Join(two, "b")))
	if !bytes.Equal(page, samePage) || !bytes.Equal(markdown, sameMarkdown) {
		t.Error("the place of the folders matters")
	}
}

// The reference runs themselves: twice the same, and nothing in them is damaged.
func TestReportOfTheReferenceRuns(t *testing.T) {
	reference := filepath.Join("..", "results", "reference")
	dirs, err := filepath.Glob(filepath.Join(reference, "*T*Z-*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d runs, %v", len(dirs), err)
	}
	var before [2][]byte
	for i := range 2 {
		r, err := New(dirs, reference, scenariosOf(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Broken) > 0 {
			t.Errorf("broken: %v", r.Broken)
		}
		for _, p := range r.Runs {
			if len(p.Faults) > 0 {
				t.Errorf("%s: %q", p.Run.Name, p.Faults)
			}
		}
		page, markdown := forms(t, r)
		if i > 0 && (!bytes.Equal(page, before[0]) || !bytes.Equal(markdown, before[1])) {
			t.Error("the second report differs from the first")
		}
		before = [2][]byte{page, markdown}
		checkLinks(t, parsePage(t, page), reference)
	}
}

// A folder that is no run, a run without its run.json, a run whose files are
// damaged, and one that was cut off: each is named, and the others count.
func TestBrokenFoldersAreNamed(t *testing.T) {
	dir := t.TempDir()
	whole, damaged, headless := small("whole").write(t, dir), small("damaged").write(t, dir), small("headless").write(t, dir)
	damage(t, filepath.Join(damaged, "points", "fig5-consumer-kafka-1.csv"))
	damage(t, filepath.Join(damaged, "samples", "fig5-consumer-kafka-2.csv"))
	damage(t, filepath.Join(headless, "run.json"))
	cut := invented{name: "cut-off", messages: 1_000_000, repeat: 1, rates: map[string]float64{"kafka": 500_000}, change: func(a *resultfile.Attempt) {
		a.Outcome, a.Reason = resultfile.Interrupted, "the testbed ended while it ran"
	}}.write(t, dir)
	nothing := filepath.Join(dir, "nothing")
	r := makeReport(t, whole, damaged, headless, cut, nothing)
	page, markdown := forms(t, r)
	for _, text := range []string{string(page), strings.ReplaceAll(string(markdown), `\_`, "_")} {
		for _, want := range []string{
			"points/fig5-consumer-kafka-1.csv: ", "samples/fig5-consumer-kafka-2.csv: ", "headless", "run.json: line", "nothing/", "holds no run",
			"an attempt without its points does not count, others do",
			"0 of 1 attempts are valid", "the testbed ended while it ran", "7 of 10 attempts are valid",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the report", want)
			}
		}
		if strings.Contains(text, dir) {
			t.Error("the report says where the folders lie")
		}
	}
	if len(r.Runs) != 3 || len(r.Broken) != 2 {
		t.Fatalf("%d runs and %d broken folders", len(r.Runs), len(r.Broken))
	}
	for _, c := range r.Claims {
		if c.ID == "C9" && (c.Checks[0].Findings[0].Run.Run.Name != "whole" || len(c.Checks[0].Findings) != 2) {
			t.Errorf("C9 is judged by %+v", c.Checks[0].Findings)
		}
	}
	if _, err := New([]string{headless, nothing}, dir, scenariosOf(t)); err == nil || !strings.Contains(err.Error(), "there is no run to report on") || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("nothing that can be read: %v", err)
	}
}

// Write writes both forms, and over those of before.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := makeReport(t, small("run").write(t, dir))
	page, markdown := forms(t, r)
	out := filepath.Join(dir, "new")
	before := make([]os.FileInfo, 2)
	for round := range 2 {
		written, err := r.Write(out)
		if err != nil || len(written) != 2 {
			t.Fatalf("%q, %v", written, err)
		}
		for i, want := range [][]byte{page, markdown} {
			if got, err := os.ReadFile(written[i]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs, %v", written[i], err)
			}
			now, err := os.Stat(written[i])
			if err != nil || round > 0 && os.SameFile(before[i], now) { // a full disk would have cut it
				t.Errorf("%s was written over in its place, %v", written[i], err)
			}
			before[i] = now
		}
	}
}
