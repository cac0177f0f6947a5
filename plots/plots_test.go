package plots

import (
	"bytes"
	"errors"
	"flag"
	"image"
	_ "image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

var update = flag.Bool("update", false, "write the golden files anew; look at what changed")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
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

// small is a run whose figure is short enough to be read: two systems and a
// limit, few points, of which one repetition failed.
func small() *maker {
	m := newMaker()
	m.messages, m.repeat = 40_000, 2
	m.scenario = m.scenario[1:]
	m.speeds = map[string]float64{"kafka": 40_000, "rabbitmq": 25_000, "activemq": 1, "limit": 50_000}
	m.outcome = func(a *resultfile.Attempt, points *[]resultfile.Point) {
		switch {
		case a.System == "activemq":
			a.Outcome, a.Reason = resultfile.NotInstalled, "there is no /usr/share/java/activemq-run.jar"
			a.Messages, a.Seconds, *points = 0, 0, nil
		case a.System == "rabbitmq" && a.Repetition == 2:
			a.Outcome, a.Reason = resultfile.Invalid, "2 messages lost | see the log"
			a.Lost = 2
		}
	}
	m.capped = map[string]float64{"activemq": 0.1}
	return m
}

func read(t *testing.T, dir string) *resultfile.Result {
	t.Helper()
	r, err := resultfile.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldenFigure(t *testing.T) {
	r := read(t, small().make(t))
	svg, err := render(newFigure(r, r.Run.Scenarios[0], paperView), "svg", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "small.svg", svg)
}

func TestGoldenTables(t *testing.T) {
	r := read(t, small().make(t))
	var text, md, page bytes.Buffer
	if err := RatesTable(&text, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "rates.txt", text.Bytes())
	if err := RatesMarkdown(&md, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "rates.md", md.Bytes())
	b, err := Page(r)
	if err != nil {
		t.Fatal(err)
	}
	page.Write(b)
	golden(t, "page.md", page.Bytes())
}

func TestGoldenComparison(t *testing.T) {
	a := read(t, small().make(t))
	m := small()
	m.messages, m.repeat = 50_000, 6
	m.speeds["kafka"] = 48_000
	c := Compare(a, read(t, m.make(t)))
	var text bytes.Buffer
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", text.Bytes())
}

// A run that was made beside other work says so with its rates.
func TestBusyMachineStandsUnderTheRates(t *testing.T) {
	m := small()
	outcome := m.outcome
	m.outcome = func(a *resultfile.Attempt, points *[]resultfile.Point) {
		outcome(a, points)
		if a.System == "kafka" {
			a.OtherLoad = 1.25 + 0.5*float64(a.Repetition-1)
		}
	}
	r := read(t, m.make(t))
	notes := strings.Join(strings.Fields(RatesOf(r)[0].notes()), " ")
	figure := strings.Join(caption(r, r.Run.Scenarios[0], paperView), " ")
	for _, text := range []string{notes, figure} {
		if want := "The machine was busy with other work before 2 attempts (load 1.8 at most)"; !strings.Contains(text, want) {
			t.Errorf("%q is not in: %s", want, text)
		}
	}
	if notes := RatesOf(read(t, small().make(t)))[0].notes(); strings.Contains(notes, "busy") {
		t.Errorf("a quiet machine: %s", notes)
	}
}

func TestCapText(t *testing.T) {
	held := []resultfile.Scenario{
		{Systems: []resultfile.System{{ID: "a", Capped: true}, {ID: "b"}}},
		{Systems: []resultfile.System{{ID: "a", Capped: true}, {ID: "c", Capped: true}}},
	}
	for want, run := range map[string]resultfile.Run{
		"no cap":                {},
		"none longer than 45 s": {CapSeconds: 45, Scenarios: held},
		"no cap but for the 2 systems held to a time of their own": {Scenarios: held},
	} {
		if got := capText(run); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A run that two builds have made names both.
func TestShortCommitNamesEach(t *testing.T) {
	for c, want := range map[string]string{
		"":                                "unknown",
		"0123456789abcdef":                "0123456789ab",
		"0123456789ab+changes":            "0123456789ab+changes",
		"0123456789ab, then ba9876543210": "0123456789ab, then ba9876543210",
		"0123456789ab+changes, then ba9876543210ffff":   "0123456789ab+changes, then ba9876543210",
		"0123456789abcd, then ba9876543210ff+changes":   "0123456789ab, then ba9876543210+changes",
		"0123456789ab, then ba9876543210, then unknown": "0123456789ab, then ba9876543210, then unknown",
	} {
		if got := shortCommit(c); got != want {
			t.Errorf("%q: %q, want %q", c, got, want)
		}
	}
}

func TestRatioOfOneRepetitionHasNoRange(t *testing.T) {
	if got := times(ratio(Summarise([]float64{21}), Summarise([]float64{2}))); got != "10.5" {
		t.Errorf("%s", got)
	}
	if got := times(ratio(Summarise([]float64{21, 22}), Summarise([]float64{2}))); got != "10.8 (10.5 .. 11.0)" {
		t.Errorf("%s", got)
	}
}

// From six repetitions of both on, a ratio has its interval in the tables, and
// the notes say so.
func TestRatiosHaveIntervals(t *testing.T) {
	m := small()
	m.repeat, m.outcome, m.capped = 6, nil, nil
	m.speeds["activemq"] = 20_000
	r := read(t, m.make(t))
	rates := RatesOf(r)[0]
	if !strings.Contains(rates.notes(), "ratios with the 95 % interval where both have 6 repetitions") {
		t.Errorf("notes: %s", rates.notes())
	}
	kafka := rates.Systems[0]
	if a := kafka.Against[0].Ratio; !a.hasInterval() || *a.Low < a.Min || *a.High > a.Max || *a.Low > a.Median || *a.High < a.Median {
		t.Errorf("ratio %+v", a)
	}
	var text bytes.Buffer
	c := Compare(r, r)
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(strings.Fields(text.String()), " "); !c.Systems[0].Ratio.hasInterval() || !strings.Contains(said, "Second over first: with the 95 % interval") {
		t.Errorf("%s", &text)
	}
}

func TestHostsLine(t *testing.T) {
	for kind, want := range map[string]string{
		"local": "one machine without a link of their own", "netns": "network namespaces that share one machine", "ssh": "two machines",
	} {
		got := hostsLine(resultfile.Testbed{Kind: kind, Emulated: kind != "ssh", LinkGoodputMbps: 940.6, LinkReverseGoodputMbps: 901.2})
		if !strings.Contains(got, want) || !strings.Contains(got, "941 Mbit/s of TCP goodput from client to broker, 901 back") {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := hostsLine(resultfile.Testbed{Kind: "ssh", Emulated: true}); !strings.Contains(got, "emulated") || !strings.Contains(got, "by ssh and share one machine") {
		t.Errorf("two that ssh reaches on one machine: %s", got)
	}
}

func TestCaptionSaysWhatHoldsASystem(t *testing.T) {
	s := resultfile.Scenario{Work: resultfile.Produce, Systems: []resultfile.System{
		{Label: "Slow", Role: resultfile.RoleSystem, Capped: true}, {Label: "Free", Role: resultfile.RoleSystem},
		{Label: "Added", Role: resultfile.RoleExtra, Capped: true},
	}}
	for _, c := range []struct {
		seconds float64
		view    view
		want    string
	}{
		{45, paperView, " None sends for longer than 45 s."},
		{0, paperView, " Held to a time of their own: Slow."},
		{0, extrasView, " Held to a time of their own: Slow; Added."},
	} {
		if got := heldTo(resultfile.Run{CapSeconds: c.seconds}, s, c.view); got != c.want {
			t.Errorf("cap %v: %q, want %q", c.seconds, got, c.want)
		}
	}
	if got := heldTo(resultfile.Run{}, resultfile.Scenario{}, paperView); got != "" {
		t.Errorf("no cap and nothing held: %q", got)
	}
}

// A repetition that was valid and made once more counts once, by its last
// attempt.
func TestRepetitionCountsOnce(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Systems: []resultfile.System{{ID: "x"}}}
	attempt := func(id string, repetition int, o resultfile.Outcome) resultfile.Attempt {
		return resultfile.Attempt{ID: id, Scenario: "s", System: "x", Repetition: repetition, Outcome: o, Messages: 1, Seconds: 1}
	}
	r := &resultfile.Result{Run: resultfile.Run{Scenarios: []resultfile.Scenario{s}, Attempts: []resultfile.Attempt{
		attempt("s-x-1", 1, resultfile.Valid), attempt("s-x-2", 2, resultfile.Valid), attempt("s-x-1-again2", 1, resultfile.Valid),
		attempt("s-x-1-again3", 1, resultfile.Failed),
	}}}
	ids := func(as []resultfile.Attempt) (all []string) {
		for _, a := range as {
			all = append(all, a.ID)
		}
		return all
	}
	if got := ids(validAttempts(r, s, s.Systems[0])); !slices.Equal(got, []string{"s-x-2", "s-x-1-again2"}) {
		t.Errorf("valid are %v", got)
	}
	if got := ids(attempts(r, s, s.Systems[0])); !slices.Equal(got, []string{"s-x-2", "s-x-1-again2", "s-x-1-again3"}) {
		t.Errorf("tried are %v", got)
	}
	if c := Compare(r, r); c.Systems[0].First.N != 2 {
		t.Errorf("compared are %d", c.Systems[0].First.N)
	}
}

// The same folder gives the same bytes, in every format, at any time.
func TestDrawIsDeterministic(t *testing.T) {
	dir := newMaker().make(t)
	one, two := t.TempDir(), t.TempDir()
	first, err := Draw(read(t, dir), one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Draw(read(t, dir), two); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range first {
		names = append(names, filepath.Base(path))
		a, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(two, filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two calls", path)
		}
	}
	want := []string{
		"fig4-producer.png", "fig4-producer.svg", "fig4-producer.pdf",
		"fig4-producer-linear.png", "fig4-producer-linear.svg", "fig4-producer-linear.pdf",
		"fig4-producer-extras.png", "fig4-producer-extras.svg", "fig4-producer-extras.pdf",
		"fig5-consumer.png", "fig5-consumer.svg", "fig5-consumer.pdf",
		"fig5-consumer-linear.png", "fig5-consumer-linear.svg", "fig5-consumer-linear.pdf",
		"tables.md",
	}
	if !slices.Equal(names, want) {
		t.Errorf("files %v", names)
	}
	f, err := os.Open(filepath.Join(one, "fig4-producer.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if cfg, _, err := image.DecodeConfig(f); err != nil || cfg.Width != 1200 || cfg.Height < 700 {
		t.Errorf("PNG of %d by %d, %v", cfg.Width, cfg.Height, err)
	}
	pdf, err := os.ReadFile(filepath.Join(one, "fig4-producer.pdf"))
	if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF-")) || !bytes.Contains(pdf, []byte("D:20261130120000")) {
		t.Errorf("PDF without the run's date, %v", err)
	}
}

// TestB23FailedSystemIsNamed: a system that failed altogether stands in the legend
// with its reason, in every view, and the axis begins at 0 (fault B23).
func TestB23FailedSystemIsNamed(t *testing.T) {
	m := newMaker()
	m.repeat = 1
	m.outcome = func(a *resultfile.Attempt, points *[]resultfile.Point) {
		if a.System == "rabbitmq" {
			a.Outcome, a.Reason, *points = resultfile.Failed, "the broker died <9>", nil
		}
	}
	r := read(t, m.make(t))
	for _, n := range figuresOf(r, r.Run.Scenarios[0]) {
		svg, err := render(n.chart, "svg", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(svg), "failed: the broker died &lt;9&gt;") {
			t.Errorf("%s does not say that RabbitMQ failed", n.name)
		}
		if p := newPlot(n.chart.(figure)); p.X.Min != 0 {
			t.Errorf("%s: the axis begins at %v", n.name, p.X.Min)
		}
	}
}

func TestRunWithoutAValidAttempt(t *testing.T) {
	m := newMaker()
	m.repeat = 1
	m.outcome = func(a *resultfile.Attempt, points *[]resultfile.Point) {
		a.Outcome, a.Reason = resultfile.Interrupted, "by the user"
	}
	dir := m.make(t)
	written, err := Draw(read(t, dir), dir)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "fig4-producer.svg"))
	if err != nil || !strings.Contains(string(svg), "No system has a valid attempt") {
		t.Errorf("figure: %v", err)
	}
	page, err := os.ReadFile(written[len(written)-1])
	if err != nil || strings.Count(string(page), "| interrupted |") != 13 {
		t.Errorf("the page does not list the 13 attempts, %v:\n%s", err, page)
	}
}

// Nothing was run yet: a folder as it is when a run begins.
func TestRunWithoutAnAttempt(t *testing.T) {
	m := newMaker()
	m.repeat = 0
	dir := m.make(t)
	if _, err := Draw(read(t, dir), dir); err != nil {
		t.Fatal(err)
	}
	r := read(t, dir)
	if got := RatesOf(r)[0].Systems[0].Absent; got != "not run" {
		t.Errorf("absent: %q", got)
	}
}

func TestLogAxisOnlyWhereSystemsAreFarApart(t *testing.T) {
	for _, c := range []struct {
		slowest float64
		log     bool
	}{{501, true}, {600, false}} {
		f := figure{lines: []line{{rate: 10_030}, {rate: c.slowest}, {rate: 1e9, limit: true}}}
		if f.wantsLog() != c.log {
			t.Errorf("10,030 and %v: log axis %v", c.slowest, f.wantsLog())
		}
	}
}

func TestExtrasStandInTheirOwnFigure(t *testing.T) {
	r := read(t, newMaker().make(t))
	s := r.Run.Scenarios[0]
	for _, l := range newFigure(r, s, paperView).lines {
		if strings.Contains(l.label, "plain socket") {
			t.Errorf("%s is in the paper's figure", l.label)
		}
	}
	faint := 0
	for _, l := range newFigure(r, s, extrasView).lines {
		if l.style.faint {
			faint++
		}
	}
	if faint != 5 {
		t.Errorf("%d systems stand behind the extras", faint)
	}
}

// Lines must be told apart without colour.
func TestLooksDiffer(t *testing.T) {
	for _, s := range newMaker().scenario {
		styles := stylesOf(s)
		for _, a := range s.Systems {
			for _, b := range s.Systems {
				if a.ID == b.ID || a.Role == resultfile.RoleLimit || b.Role == resultfile.RoleLimit {
					continue
				}
				x, y := styles[a.ID], styles[b.ID]
				if slices.Equal(x.dashes, y.dashes) || x.shape == y.shape || x.color == y.color {
					t.Errorf("%s and %s look alike", a.Label, b.Label)
				}
			}
		}
	}
}

// No entry of the legend lies over another one or outside of the figure,
// however close together the lines end.
func TestLegendEntriesDoNotOverlap(t *testing.T) {
	r := read(t, newMaker().make(t))
	for _, n := range figuresOf(r, r.Run.Scenarios[0]) {
		l := n.chart.arrange()
		p := newPlot(n.chart.(figure))
		es := entries(n.chart.(figure))
		data := drawArea(l, p)
		bottom := l.legend.Min.Y
		tops := settle(es, p, data, l.legend.Max.Y, bottom)
		for i, e := range es {
			if tops[i] > l.legend.Max.Y || tops[i]-e.height() < bottom {
				t.Errorf("%s: %s leaves the column", n.name, e.rows[0].text)
			}
			if i > 0 && tops[i] > tops[i-1]-es[i-1].height() {
				t.Errorf("%s: %s lies over %s", n.name, e.rows[0].text, es[i-1].rows[0].text)
			}
		}
	}
}

func TestPlainIsWhatAllFormatsHave(t *testing.T) {
	got := plain("µs – 2×… “q” 日\n")
	if got != `µs - 2x... "q" ? ` {
		t.Errorf("%q", got)
	}
}

// A file that is there is replaced as a whole: one that is written over in its
// place would be cut where the disk is full.
func TestFilesAreReplaced(t *testing.T) {
	live, out := writeInvented(t, inventedTopology(), inventedLog(5)), t.TempDir()
	run := world{repeat: 1, only: []string{"overhead"}}.make(t)
	draw := func() map[string]os.FileInfo {
		files := map[string]os.FileInfo{}
		written, err := Draw(read(t, run), out)
		drawings, liveErr := DrawLive(live, out)
		topology, log, readErr := ReadDrawings(live)
		if err := errors.Join(err, liveErr, readErr); err != nil {
			t.Fatal(err)
		}
		if err := WriteDrawings(out, topology, log); err != nil {
			t.Fatal(err)
		}
		for _, path := range append(append(written, drawings...), filepath.Join(out, TopologyName), filepath.Join(out, LogName)) {
			if files[path], err = os.Stat(path); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	before := draw()
	for path, now := range draw() {
		if before[path] == nil || os.SameFile(before[path], now) {
			t.Errorf("%s was written over in its place", path)
		}
	}
	if left, err := filepath.Glob(filepath.Join(out, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
