package paper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

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

// attemptID is how the ID of an attempt ends: with its repetition.
var attemptID = regexp.MustCompile(`-\d+(-again\d+)?$`)

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
		if !strings.HasPrefix(cell.attr("class"), "number") || text == "" || len(cell.all("a")) > 0 {
			continue
		}
		if first := cell.parent.all("td")[0].text(); !attemptID.MatchString(first) { // else its ID is the link
			t.Errorf("the number %q has no link", text)
		}
	}
}
