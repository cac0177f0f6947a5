package plots

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"kafkalab/results/resultfile"
)

// Comparison sets two runs side by side.
type Comparison struct {
	First  string `json:"first"` // names of the runs
	Second string `json:"second"`
	// Caveats are differences between the runs that make the numbers differ
	// for reasons other than the systems.
	Caveats []string   `json:"caveats"`
	Systems []Compared `json:"systems"`
}

// Compared is one system of one scenario in both runs.
type Compared struct {
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Label    string  `json:"label"`
	First    Summary `json:"first"` // messages per second
	Second   Summary `json:"second"`
	// Ratio is second over first, nil when one of them has no valid attempt.
	Ratio        *Ratio  `json:"ratio"`
	P            float64 `json:"p"` // of the Mann-Whitney U test
	Verdict      string  `json:"verdict"`
	FirstMicros  Summary `json:"first_broker_cpu_us_per_message"`
	SecondMicros Summary `json:"second_broker_cpu_us_per_message"`
	// Quantities are those that the scenario's figure shows beside the message
	// rate, where one of the runs has them.
	Quantities []ComparedQuantity `json:"quantities,omitempty"`

	in int // which of the runs have it
}

// ComparedQuantity is a quantity of one system in both runs.
type ComparedQuantity struct {
	Quantity Quantity `json:"quantity"`
	Unit     string   `json:"unit"` // "" for a share
	First    Summary  `json:"first"`
	Second   Summary  `json:"second"`
	Ratio    *Ratio   `json:"ratio"` // nil as well when one is not above 0
	P        float64  `json:"p"`
	Verdict  string   `json:"verdict"`
}

// Compare compares two runs, system by system, in the order of the first one
// and then what only the second one has.
func Compare(a, b *resultfile.Result) Comparison {
	c := Comparison{First: a.Run.Name, Second: b.Run.Name, Caveats: caveats(a.Run, b.Run)}
	type key struct{ scenario, system string }
	seen := make(map[key]bool)
	for _, r := range []*resultfile.Result{a, b} {
		for _, s := range r.Run.Scenarios {
			for _, y := range s.Systems {
				k := key{s.Name, y.ID}
				if seen[k] {
					continue
				}
				seen[k] = true
				one := compared(a, b, s, y)
				_, _, first := find(a, s.Name, y.ID)
				_, _, second := find(b, s.Name, y.ID)
				switch {
				case !second:
					one.in = inFirst
				case !first:
					one.in = inSecond
				}
				c.Systems = append(c.Systems, one)
			}
		}
	}
	return c
}

func compared(a, b *resultfile.Result, s resultfile.Scenario, y resultfile.System) Compared {
	as, bs := validAttempts(a, s, y), validAttempts(b, s, y)
	c := Compared{
		Scenario: s.Name, System: y.ID, Label: y.Label,
		First: ratesOf(as), Second: ratesOf(bs),
		FirstMicros: summaryOf(as, brokerMicros), SecondMicros: summaryOf(bs, brokerMicros),
	}
	c.Ratio = RatioOf(valuesOf(bs, rate), valuesOf(as, rate))
	c.P, c.Verdict = verdict(valuesOf(as, rate), valuesOf(bs, rate))
	for _, q := range quantitiesOf(s) {
		first, second := Values(a, s.Name, y.ID, q), Values(b, s.Name, y.ID, q)
		if q == MessageRate || len(first)+len(second) == 0 {
			continue
		}
		one := ComparedQuantity{Quantity: q, Unit: q.Unit(), First: Summarise(first), Second: Summarise(second), Ratio: RatioOf(second, first)}
		one.P, one.Verdict = verdict(first, second)
		c.Quantities = append(c.Quantities, one)
	}
	return c
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// caveats lists in what else than the systems two runs differ.
func caveats(a, b resultfile.Run) []string {
	out := []string{}
	differ := func(what, first, second string) {
		first, second = cmp.Or(first, "nothing"), cmp.Or(second, "nothing")
		if first != second {
			out = append(out, fmt.Sprintf("%s: %s in the first, %s in the second", what, first, second))
		}
	}
	differ("testbed", a.Testbed.Kind, b.Testbed.Kind)
	differ("messages", number(float64(a.Messages)), number(float64(b.Messages)))
	differ("longest time of an attempt", capText(a), capText(b))
	differ("repetitions", strconv.Itoa(a.Repeat), strconv.Itoa(b.Repeat))
	differ("commit", shortCommit(a.Commit), shortCommit(b.Commit))
	for _, name := range resultfile.MachineFacts() {
		differ("broker host's "+name, a.Testbed.BrokerHost.Fact(name), b.Testbed.BrokerHost.Fact(name))
	}
	if x, y := a.Testbed.BrokerLimits, b.Testbed.BrokerLimits; x != nil && y != nil {
		differ("broker's cores", x.Cores, y.Cores)
		differ("broker's memory, bytes", number(float64(x.MemoryBytes)), number(float64(y.MemoryBytes)))
	} else if (x == nil) != (y == nil) {
		out = append(out, "brokers were held to cores and memory in one of the runs only")
	}
	if (a.Testbed.HeldMemoryBytes > 0) != (b.Testbed.HeldMemoryBytes > 0) {
		out = append(out, "the broker host's free memory was held for one of the runs only")
	}
	differ("RAID 10 for the broker's data", yesNo(a.Testbed.RAID10), yesNo(b.Testbed.RAID10))
	if !a.Testbed.Emulated || !b.Testbed.Emulated { // else the client host is the broker's
		for _, name := range resultfile.MachineFacts() {
			differ("client host's "+name, a.Testbed.ClientHost.Fact(name), b.Testbed.ClientHost.Fact(name))
		}
	}
	if x, y := a.Testbed.LinkGoodputMbps, b.Testbed.LinkGoodputMbps; math.Abs(x-y) > 0.02*max(x, y) {
		differ("link's goodput, Mbit/s", number(x), number(y))
	}
	for _, s := range a.Scenarios {
		for _, t := range b.Scenarios {
			if s.Name != t.Name {
				continue
			}
			differ(s.Name+": message bytes", strconv.Itoa(s.PayloadBytes), strconv.Itoa(t.PayloadBytes))
			for _, y := range s.Systems {
				for _, z := range t.Systems {
					if y.ID == z.ID {
						differ(s.Name+": version of "+y.Label, version(y), version(z))
						differ(s.Name+": options of "+y.Label, options(y.Options), options(z.Options))
						differ(s.Name+": amounts of "+y.Label, ownAmounts(y), ownAmounts(z))
					}
				}
			}
		}
	}
	return out
}

// ownAmounts is what a system does otherwise than its run and scenario say, ""
// for nothing.
func ownAmounts(y resultfile.System) string {
	var parts []string
	for _, p := range []struct {
		what string
		n    float64
	}{{"payload bytes", float64(y.PayloadBytes)}, {"messages", float64(y.Messages)}, {"stored before", float64(y.FillMessages)},
		{"consumers", float64(y.Consumers)}, {"producers", float64(y.Producers)}, {"consumers beside", float64(y.Beside)}, {"cores of the broker", float64(y.Cores)},
		{"messages/s planned", y.Rate}} {
		if p.n > 0 && (p.what != "consumers" || p.n > 1) {
			parts = append(parts, number(p.n)+" "+p.what)
		}
	}
	return strings.Join(append(parts, y.Before...), ", ")
}

func version(y resultfile.System) string {
	for _, s := range y.Settings {
		if s.Row == "version" {
			return s.Value
		}
	}
	return unknown
}

// Text writes the comparison for a terminal.
func (c Comparison) Text(w io.Writer) error { return c.write(w, asText) }

// Markdown writes the comparison as Markdown.
func (c Comparison) Markdown(w io.Writer) error { return c.write(w, asMarkdown) }

func (c Comparison) write(w io.Writer, as format) error {
	if _, err := fmt.Fprintf(w, as.heading, as.words("First: "+c.First+"; second: "+c.Second)); err != nil {
		return err
	}
	t := &Table{
		Head: []string{"scenario", "system", "first, messages/s", "second, messages/s", "second over first", "first, broker CPU, µs/message", "second, broker CPU, µs/message", "verdict"},
		left: map[int]bool{1: true, 7: true},
	}
	var both []Compared
	for _, y := range c.Systems {
		if y.in == inBoth {
			both = append(both, y)
		}
	}
	if lines := c.onesOnly(len(both) > 0); len(lines) > 0 {
		for _, line := range lines {
			if _, err := fmt.Fprintf(w, "%s\n\n", as.paragraph(line)); err != nil {
				return err
			}
		}
		if len(both) == 0 {
			return nil
		}
	}
	c.Systems = both
	for _, y := range c.Systems {
		t.add(y.Scenario, y.Label, tripled(y.First), tripled(y.Second), times(y.Ratio), decimals(y.FirstMicros, 2), decimals(y.SecondMicros, 2), y.Verdict)
	}
	if err := as.table(t, w); err != nil {
		return err
	}
	if q := c.quantities(); len(q.Rows) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := as.table(q, w); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.Systems, func(y Compared) bool { return y.anyOf(func(r *Ratio, _ string) bool { return r.hasInterval() }) }) {
		if _, err := fmt.Fprintf(w, "\n%s\n", as.paragraph("Second over first: "+intervalNote+".")); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.Systems, func(y Compared) bool {
		return y.anyOf(func(_ *Ratio, verdict string) bool { return verdict == tooFew })
	}) {
		if _, err := fmt.Fprintf(w, "\n%s\n", as.paragraph(enoughNote)); err != nil {
			return err
		}
	}
	for i, caveat := range c.Caveats {
		if i == 0 {
			if _, err := fmt.Fprint(w, "\nThe runs differ in more than the systems:\n\n"); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "- %s\n", as.words(caveat)); err != nil {
			return err
		}
	}
	return nil
}

// anyOf says whether something holds of the message rate or of another quantity.
func (c Compared) anyOf(holds func(ratio *Ratio, verdict string) bool) bool {
	return holds(c.Ratio, c.Verdict) || slices.ContainsFunc(c.Quantities, func(q ComparedQuantity) bool { return holds(q.Ratio, q.Verdict) })
}

// quantities is the table of what is compared beside the message rate.
func (c Comparison) quantities() *Table {
	t := &Table{Head: []string{"scenario", "system", "quantity", "first", "second", "second over first", "verdict"}, left: map[int]bool{1: true, 2: true, 6: true}}
	for _, y := range c.Systems {
		for _, q := range y.Quantities {
			cell := func(s Summary) string {
				if s.N == 0 {
					return unknown
				}
				return q.Quantity.cell(s.Median)
			}
			t.add(y.Scenario, y.Label, q.Quantity.head(), cell(q.First), cell(q.Second), times(q.Ratio), q.Verdict)
		}
	}
	return t
}
