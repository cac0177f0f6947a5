package plots

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// tableOf finds a table of a scenario by its title.
func tableOf(t *testing.T, r *resultfile.Result, scenario, title string) *Table {
	t.Helper()
	for _, s := range r.Run.Scenarios {
		for _, m := range moreTables(r, s) {
			if s.Name == scenario && m.Title == title {
				return m.Table
			}
		}
	}
	t.Fatalf("%s has no table %q", scenario, title)
	return nil
}

func rowOf(t *testing.T, table *Table, first string) []string {
	t.Helper()
	i := slices.IndexFunc(table.Rows, func(row []string) bool { return row[0] == first })
	if i < 0 {
		t.Fatalf("no row %q in %q", first, table.Rows)
	}
	return table.Rows[i]
}

// Every system stands in every table of its scenario, all of them have a row as
// long as the head, and section and page show the same.
func TestTablesOfEveryScenario(t *testing.T) {
	r := read(t, world{repeat: 1}.make(t))
	page, err := Page(r)
	if err != nil {
		t.Fatal(err)
	}
	for i, rates := range RatesOf(r) {
		s := r.Run.Scenarios[i]
		for _, m := range rates.more {
			for _, row := range m.Table.Rows {
				if len(row) != len(m.Table.Head) {
					t.Errorf("%s, %s: %d cells below %d heads", s.Name, m.Title, len(row), len(m.Table.Head))
				}
			}
			var b bytes.Buffer
			if err := m.Table.Markdown(&b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(page, b.Bytes()) {
				t.Errorf("%s: %s is not in the page", s.Name, m.Title)
			}
		}
		for _, m := range rates.more {
			for _, y := range s.Systems {
				if m.Title == "What became of the messages" {
					rowOf(t, m.Table, named(y))
				}
			}
		}
	}
	six := read(t, world{repeat: 6, only: []string{"loss-budget"}}.make(t))
	if cell := rowOf(t, tableOf(t, six, "loss-budget", "What the figure shows"), "Kafka, no acknowledgement"); !strings.Contains(cell[2], " .. ") || strings.Contains(cell[2], "range") {
		t.Errorf("six repetitions have an interval: %q", cell)
	}
	if latency := tableOf(t, r, "latency", "Latency"); len(latency.Rows) != 6 || latency.Rows[0][1] != "1,000" || !strings.HasSuffix(latency.Rows[0][3], "s") {
		t.Errorf("latencies %q", latency.Rows)
	}
}

// A word on which is faster stands only where the interval allows it.
func TestFasterOnlyWhereTheIntervalAllows(t *testing.T) {
	six := func(base, step float64) (out []float64) {
		for i := range 6 {
			out = append(out, base+step*float64(i))
		}
		return out
	}
	for _, c := range []struct {
		q              Quantity
		values, others []float64
		want           string
	}{
		{MessageRate, six(200, 1), six(100, 1), ", faster"},
		{MessageRate, six(100, 1), six(200, 1), ", slower"},
		{LatencyP99, six(200, 1), six(100, 1), ", slower"},
		{BrokerCPU, six(200, 1), six(100, 1), ", more"},
		{StoreBytes, six(100, 1), six(200, 1), ", less"},
		{MessageRate, six(100, 1), six(101, 1), ", no difference beyond noise"},
		{MessageRate, six(200, 1)[:5], six(100, 1), ", too few repetitions to say"},
		{LostPromised, make([]float64, 6), make([]float64, 6), "0 and 0: no difference beyond noise"},
		{LostPromised, six(5, 1), make([]float64, 6), "7.5 and 0: differs"},
		{LostPromised, []float64{5}, []float64{0}, "5 and 0: too few repetitions to say"},
		{MessageRate, nil, six(1, 1), unknown},
	} {
		if got := against(c.q, c.values, c.others); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s %v against %v: %q, want %q", c.q, c.values, c.others, got, c.want)
		}
	}
}

func TestFewRepetitionsSaySo(t *testing.T) {
	for repeat, want := range map[int]string{1: "1 repetition", 3: "(range of 3)"} {
		r := read(t, world{repeat: repeat, only: []string{"rebalance"}}.make(t))
		shown := tableOf(t, r, "rebalance", "What the figure shows")
		if cell := shown.Rows[0][2]; !strings.Contains(cell, want) {
			t.Errorf("%d repetitions: %q", repeat, cell)
		}
		if along := tableOf(t, r, "rebalance", "Along each line"); !strings.Contains(along.Rows[0][2], "too few repetitions to say") {
			t.Errorf("%q", along.Rows)
		}
		words := strings.Join(newSweep(r, r.Run.Scenarios[0]).words(), " ")
		if !strings.Contains(words, "fewer than 6 repetitions are too few for an interval") {
			t.Errorf("caption %s", words)
		}
	}
}

// Each place of a sweep is held against the limit that was measured for it.
func TestShareOfTheLimitIsOfTheSamePlace(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Title: "Synthetic", Work: resultfile.Produce, Chart: resultfile.Sweep, Axis: &resultfile.Axis{Label: "bytes"}, PayloadBytes: 200}
	attempt := func(id string, log float64) resultfile.Attempt {
		return resultfile.Attempt{ID: "s-" + id + "-1", Scenario: "s", System: id, Repetition: 1, Outcome: resultfile.Valid, Messages: 1000, PayloadBytes: 200_000, Seconds: 1, StoredBytes: int64(log)}
	}
	var as []resultfile.Attempt
	for _, p := range []struct {
		id, series, role string
		x                float64
		payload          int
		log              float64
	}{
		{"k-1", "Kafka", resultfile.RoleSystem, 1, 0, 50e6}, {"k-2", "Kafka", resultfile.RoleSystem, 2, 1000, 90e6},
		{"l-1", "Limit", resultfile.RoleLimit, 1, 0, 100e6}, {"l-2", "Limit", resultfile.RoleLimit, 2, 1000, 120e6},
	} {
		s.Systems = append(s.Systems, resultfile.System{ID: p.id, Label: p.id, Driver: "kafka", Series: p.series, X: p.x, Role: p.role, PayloadBytes: p.payload})
		as = append(as, attempt(p.id, p.log))
	}
	r := oneAttempt(s, as...)
	rates := RatesOf(r)[0]
	if a, b := percent(rates.Systems[0].OfLimit), percent(rates.Systems[1].OfLimit); a != "50.0 %" || b != "75.0 %" {
		t.Errorf("shares %s and %s, want 50.0 and 75.0 %%", a, b)
	}
	if notes := rates.notes(); !strings.Contains(notes, "measured for the same place") {
		t.Error(notes)
	}
	c := newSweep(r, s)
	if line := c.panels[0].curves[1]; line.kind != limitTrail || len(line.points) != 2 {
		t.Errorf("the limit is no line: %+v", line)
	}
}

// What was lost of any system stands under the figure, in every kind of work.
func TestCountsStandUnderEveryFigure(t *testing.T) {
	w := world{repeat: 1, outcome: func(a *resultfile.Attempt) {
		if strings.HasPrefix(a.System, "kafka") {
			a.Outcome, a.Reason = resultfile.Invalid, "contents disagree"
			a.Lost, a.Doubled, a.Damaged, a.Reordered, a.ClientMessages = 3, 4, 5, 6, a.Messages+70
		}
	}}
	r := read(t, w.make(t))
	for _, s := range r.Run.Scenarios {
		words := strings.Join(figuresOf(r, s)[0].chart.words(), " ")
		want := "lost 3, doubled 4, damaged 5, reordered 6"
		if s.Work == resultfile.Produce || s.Work == resultfile.Stream {
			want = "gap 70, " + want
		}
		if !strings.Contains(words, want) {
			t.Errorf("%s does not say %q: %s", s.Name, want, words)
		}
	}
}

// Two runs are compared in every quantity of their figures.
func TestCompareByQuantity(t *testing.T) {
	only := []string{"rebalance", "latency"}
	a := read(t, world{repeat: 6, only: only}.make(t))
	b := read(t, world{repeat: 6, only: only, outcome: func(a *resultfile.Attempt) {
		if a.Measures["settle_median_seconds"] > 0 {
			a.Measures["settle_median_seconds"] *= 3
		}
	}}.make(t))
	few := read(t, world{repeat: 2, only: only}.make(t))
	find := func(c Comparison, system string, q Quantity) ComparedQuantity {
		for _, y := range c.Systems {
			for _, one := range y.Quantities {
				if y.System == system && one.Quantity == q {
					return one
				}
			}
		}
		t.Fatalf("%s has no %s", system, q)
		return ComparedQuantity{}
	}
	c := Compare(a, b)
	if q := find(c, "kafka-4", SettleTime); q.Verdict != "differs" || !q.Ratio.hasInterval() || *q.Ratio.Low < 2 || q.Unit != "s" {
		t.Errorf("settle time %+v", q)
	}
	if q := find(c, "kafka-4", RebalanceTries); q.Verdict != noDifference {
		t.Errorf("tries %+v", q)
	}
	if q := find(c, "rabbitmq-1000", LatencyP99); q.Verdict != noDifference || q.First.N != 6 {
		t.Errorf("latency %+v", q)
	}
	if q := find(Compare(a, few), "kafka-4", SettleTime); q.Verdict != tooFew {
		t.Errorf("two repetitions: %+v", q)
	}
	var text bytes.Buffer
	if err := c.Text(&text); err != nil || !strings.Contains(text.String(), "settle time") || !strings.Contains(text.String(), "latency p99.9") {
		t.Errorf("%v\n%s", err, &text)
	}
}

func TestComparisonNamesOtherAmounts(t *testing.T) {
	a, b := worldScenarios()[3], worldScenarios()[3]
	b.Systems = slices.Clone(b.Systems)
	b.Systems[0].Rate, b.Systems[0].Before = 2000, []string{"restart"}
	got := strings.Join(caveats(resultfile.Run{Scenarios: []resultfile.Scenario{a}, Testbed: resultfile.Testbed{BrokerLimits: &resultfile.Limits{Cores: "0"}}}, resultfile.Run{Scenarios: []resultfile.Scenario{b}}), "\n")
	for _, want := range []string{"amounts of kafka at a rate: 1,000 messages/s planned in the first, 2,000 messages/s planned, restart in the second", "held to cores and memory in one of the runs only"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// What a foreign run says of itself stays text in the caveats too, and that its data
// lay elsewhere, or its client was another machine, is one.
func TestCaveatsAreTextAndName(t *testing.T) {
	a := read(t, world{repeat: 1, only: []string{"loss-budget"}}.make(t))
	b := read(t, world{repeat: 1, only: []string{"loss-budget"}}.make(t))
	b.Run.Testbed.RAID10, b.Run.Testbed.Emulated = true, false
	b.Run.Testbed.ClientHost.Facts = []resultfile.Fact{{Name: "processor", Value: "another one"}}
	b.Run.Scenarios = slices.Clone(b.Run.Scenarios)
	b.Run.Scenarios[0].Systems = slices.Clone(b.Run.Scenarios[0].Systems)
	b.Run.Scenarios[0].Systems[0].Options = map[string]string{"x": "\x1b[2J\n[y](javascript:1)"}
	var text, markdown bytes.Buffer
	if err := errors.Join(Compare(a, b).Text(&text), Compare(a, b).Markdown(&markdown)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- RAID 10 for the broker's data: no in the first, yes in the second\n", "client host's processor: ", "x = ?[2J [y](javascript:1)"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%q", want, &text)
		}
	}
	if !strings.Contains(markdown.String(), `\[y\](javascript:1)`) || strings.Contains(text.String()+markdown.String(), "\x1b") {
		t.Errorf("%q", &markdown)
	}
}

// TestB22RateBelowThePlanIsNamed: a stream that was not sent as planned says so
// in its figure and its table (fault B22).
func TestB22RateBelowThePlanIsNamed(t *testing.T) {
	w := world{repeat: 1, only: []string{"latency"}, outcome: func(a *resultfile.Attempt) {
		if a.System == "rabbitmq-20000" {
			a.Measures["rate_achieved"] = 14_000
		}
	}}
	r := read(t, w.make(t))
	text := textOf(svgOf(t, newLatencies(r, r.Run.Scenarios[0])))
	for _, want := range []string{"70 % of the rate", "Below 99 % of the planned rate: rabbitmq at a rate (70 %)."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in: %s", want, text)
		}
	}
	if row := rowOf(t, tableOf(t, r, "latency", "Latency"), "rabbitmq at a rate"); row[2] != "99.9" {
		t.Errorf("at 1,000/s: %q", row)
	}
}

// Runs that have nothing in common are told so, without a table of what one of
// them has.
func TestCompareOfRunsThatShareNothing(t *testing.T) {
	a := read(t, world{repeat: 1, only: []string{"rebalance"}}.make(t))
	b := read(t, world{repeat: 1, only: []string{"latency"}}.make(t))
	var text bytes.Buffer
	if err := Compare(a, b).Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The runs share nothing", "In the first run alone: rebalance (", "In the second run alone: latency ("} {
		if !strings.Contains(strings.ReplaceAll(text.String(), "\n", " "), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "measured in one only") {
		t.Errorf("rows of what is in one only:\n%s", &text)
	}
	both := read(t, world{repeat: 1, only: []string{"rebalance", "latency"}}.make(t))
	text.Reset()
	if err := Compare(a, both).Text(&text); err != nil || strings.Contains(text.String(), "share nothing") ||
		!strings.Contains(text.String(), "In the second run alone: latency (") || !strings.Contains(text.String(), "verdict") {
		t.Errorf("%v\n%s", err, &text)
	}
}
