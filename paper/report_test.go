package paper

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	for range 2 {
		written, err := r.Write(out)
		if err != nil || len(written) != 2 {
			t.Fatalf("%q, %v", written, err)
		}
		for i, want := range [][]byte{page, markdown} {
			if got, err := os.ReadFile(written[i]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs, %v", written[i], err)
			}
		}
	}
}

// Every number of a table in the page is that of the result files, computed
// here from run.json alone; every claim's verdict and number is in both forms;
// every link leads to something that is there.
func TestReportAgreesWithTheResultFiles(t *testing.T) {
	dir := t.TempDir()
	a := invented{name: "a run", messages: 2_000_000, repeat: 3, rates: asMeasured()}.write(t, dir)
	b := invented{name: "b", messages: 1_000_000, repeat: 1, rates: asMeasured(), real: true}.write(t, dir)
	report := makeReport(t, a, b)
	page, markdown := forms(t, report)
	doc := parsePage(t, page)
	for i, p := range []string{a, b} {
		run := read(t, p).Run
		section := doc.byID(t, report.Runs[i].Anchor)
		for _, s := range run.Scenarios {
			part := section.withHeading(t, s.Title)
			checkRates(t, run, s, part.tables(t, "Rates"))
			checkCosts(t, run, s, part.tables(t, "Costs"))
			checkAttempts(t, run, s, part.tables(t, "Every attempt"))
			checkSettings(t, s, part.tables(t, "Settings"))
			figures := part.all("figure")
			if want := map[string]int{"fig4-producer": 3, "fig5-consumer": 2}[s.Name]; len(figures) != want {
				t.Errorf("%s: %d figures", s.Name, len(figures))
			}
			for _, f := range figures {
				checkFigure(t, run, s, f)
			}
		}
	}
	for _, c := range report.Claims {
		section := doc.byID(t, c.ID)
		if got := section.all("span")[0].text(); got != string(c.Verdict) {
			t.Errorf("%s: the page says %q, want %q", c.ID, got, c.Verdict)
		}
		if !bytes.Contains(markdown, []byte(fmt.Sprintf("### %s\n\n**%s.**", c.ID, c.Verdict))) {
			t.Errorf("%s: its verdict is not in the Markdown", c.ID)
		}
		var measured []string
		for _, n := range section.all("a") {
			if n.attr("class") == "measured" {
				measured = append(measured, n.text())
			}
		}
		var want []string
		for _, k := range c.Checks {
			if f := k.First(); f != nil {
				want = append(want, k.Measured(*f))
			}
		}
		if !slices.Equal(measured, want) {
			t.Errorf("%s: the page says %q, want %q", c.ID, measured, want)
		}
	}
	checkLinks(t, doc, dir)
}

// medianOf is computed here by hand, so that the page is held against something
// else than the code that made it.
func medianOf(run resultfile.Run, s resultfile.Scenario, system string, of func(resultfile.Attempt) float64) float64 {
	var values []float64
	for _, a := range run.Attempts {
		if a.Scenario == s.Name && a.System == system && a.Outcome == resultfile.Valid {
			values = append(values, of(a))
		}
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func messageRate(a resultfile.Attempt) float64 { return float64(a.Messages) / a.Seconds }

// near says whether the cell of a table is a number to three digits.
func near(t *testing.T, what, cell string, want float64) {
	t.Helper()
	got, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSuffix(cell, " %"), ",", ""), 64)
	if err != nil || got < want*0.994-0.006 || got > want*1.006+0.006 {
		t.Errorf("%s: the page says %q, the result files %v", what, cell, want)
	}
}

func checkRates(t *testing.T, run resultfile.Run, s resultfile.Scenario, rows [][]string) {
	t.Helper()
	if len(rows) != 1+len(s.Systems) {
		t.Fatalf("%s: %d rows of rates for %d systems", s.Name, len(rows), len(s.Systems))
	}
	limit := medianOf(run, s, "limit", func(a resultfile.Attempt) float64 { return float64(a.StoredBytes) / a.Seconds })
	for i, y := range s.Systems {
		row := rows[i+1]
		if !strings.HasPrefix(row[0], y.Label) {
			t.Errorf("%s: row %d is %q", s.Name, i, row[0])
		}
		near(t, y.ID, row[1], medianOf(run, s, y.ID, messageRate))
		switch {
		case y.Driver == "kafka":
			share := medianOf(run, s, y.ID, func(a resultfile.Attempt) float64 { return float64(a.StoredBytes) / a.Seconds }) / limit
			near(t, y.ID+" of the limit", row[3], 100*share)
		case row[3] != "–":
			t.Errorf("%s: %q of the limit", y.ID, row[3])
		}
		if want := fmt.Sprintf("%d of %d", run.Repeat, run.Repeat); row[4] != want {
			t.Errorf("%s: valid %q, want %q", y.ID, row[4], want)
		}
	}
}

func checkCosts(t *testing.T, run resultfile.Run, s resultfile.Scenario, rows [][]string) {
	t.Helper()
	for i, y := range s.Systems {
		row := rows[i+1]
		near(t, y.ID+" broker CPU", row[2], medianOf(run, s, y.ID, func(a resultfile.Attempt) float64 { return a.BrokerCPUSeconds * 1e6 / float64(a.Messages) }))
		near(t, y.ID+" memory", row[6], medianOf(run, s, y.ID, func(a resultfile.Attempt) float64 { return float64(a.BrokerResidentBytes) / 1e6 }))
		near(t, y.ID+" disk writes", row[7], medianOf(run, s, y.ID, func(a resultfile.Attempt) float64 { return float64(a.BrokerDiskWriteBytes) / 1e6 }))
	}
}

func checkAttempts(t *testing.T, run resultfile.Run, s resultfile.Scenario, rows [][]string) {
	t.Helper()
	listed := map[string][]string{}
	for _, row := range rows[1:] {
		listed[row[0]] = row
	}
	n := 0
	for _, a := range run.Attempts {
		if a.Scenario != s.Name {
			continue
		}
		n++
		row := listed[a.ID]
		if row == nil || row[2] != string(a.Outcome) || strings.ReplaceAll(row[3], ",", "") != strconv.FormatInt(a.Messages, 10) {
			t.Errorf("attempt %s: the page says %q", a.ID, row)
			continue
		}
		near(t, a.ID, row[5], messageRate(a))
	}
	if n != len(listed) {
		t.Errorf("%s: %d attempts are listed of %d", s.Name, len(listed), n)
	}
}

func checkSettings(t *testing.T, s resultfile.Scenario, rows [][]string) {
	t.Helper()
	for i, y := range s.Systems {
		for _, set := range y.Settings {
			if !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == set.Row && row[i+1] == set.Value }) {
				t.Errorf("%s: the page does not say %s = %s", y.ID, set.Row, set.Value)
			}
		}
	}
}

// checkFigure looks whether a drawing tells every system's rate, and where it
// was measured.
func checkFigure(t *testing.T, run resultfile.Run, s resultfile.Scenario, figure *node) {
	t.Helper()
	drawn := strings.Join(figure.texts("text"), "\n")
	for _, y := range s.Systems {
		if y.Role == resultfile.RoleExtra && !strings.Contains(figure.attr("id"), "extras") {
			continue
		}
		want := strconv.FormatFloat(medianOf(run, s, y.ID, messageRate), 'e', 2, 64)
		found := false
		for word := range strings.FieldsSeq(strings.ReplaceAll(drawn, ",", "")) {
			if v, err := strconv.ParseFloat(word, 64); err == nil && strconv.FormatFloat(v, 'e', 2, 64) == want {
				found = true
			}
		}
		if !found {
			t.Errorf("%s does not show the rate of %s, %s", figure.attr("id"), y.ID, want)
		}
	}
	caption := figure.all("figcaption")[0].text()
	if strings.Contains(caption, "emulated") != run.Testbed.Emulated {
		t.Errorf("emulated is %v, and the caption of %s is %q", run.Testbed.Emulated, figure.attr("id"), caption)
	}
}

// checkLinks looks whether every link leads to a place in the page or to
// something in the result folders, and whether nothing else is needed to show
// the page.
func checkLinks(t *testing.T, doc *node, dir string) {
	t.Helper()
	ids := map[string]bool{}
	for _, n := range doc.all("") {
		if id := n.attr("id"); id != "" {
			if ids[id] {
				t.Errorf("id %q stands twice", id)
			}
			ids[id] = true
		}
	}
	links := map[string]int{}
	for _, n := range doc.all("") {
		for _, key := range []string{"src", "data", "xlink:href", "poster", "action"} {
			if n.attr(key) != "" {
				t.Errorf("<%s %s=%q>: the page needs another file", n.name, key, n.attr(key))
			}
		}
		switch n.name {
		case "script", "link", "iframe", "object", "embed", "img":
			t.Errorf("the page has a <%s>", n.name)
		case "a":
			links[n.attr("href")]++
		}
	}
	for href := range links {
		if anchor, ok := strings.CutPrefix(href, "#"); ok {
			if !ids[anchor] {
				t.Errorf("%s leads nowhere", href)
			}
			continue
		}
		if strings.Contains(href, "://") || strings.HasPrefix(href, "/") {
			t.Errorf("%s is no relative path", href)
		}
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(strings.ReplaceAll(href, "%20", " ")))); err != nil {
			t.Errorf("link %s: %v", href, err)
		}
	}
	for _, cell := range doc.all("td") {
		text := cell.text()
		if cell.attr("class") != "number" || text == "" || len(cell.all("a")) > 0 {
			continue
		}
		if row := cell.parent.text(); !strings.Contains(row, "-1") && !strings.Contains(row, "-2") && !strings.Contains(row, "-3") { // of an attempt, whose ID is the link
			t.Errorf("the number %q has no link", text)
		}
	}
}
