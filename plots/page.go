package plots

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"kafkalab/results/resultfile"
)

// Page returns tables.md: everything that a run says, as Markdown, with its
// figures, behind the tables given.
func Page(r *resultfile.Result, first ...NamedTable) ([]byte, error) {
	var b bytes.Buffer
	run := r.Run
	fmt.Fprintf(&b, "# Run %s\n\n", escape(run.Name))
	fmt.Fprintf(&b, "%s\n\n", escape(hostsLine(run.Testbed)))
	fmt.Fprintf(&b, "%s, %s, %s, started %s, commit %s, order of the systems by seed %d. Command: `%s`\n",
		askedFor(run), plural(run.Repeat, "repetition"), capText(run), run.Started.UTC().Format(time.RFC3339), escape(shortCommit(run.Commit)), run.Seed,
		strings.ReplaceAll(visible(run.Command), "`", "'"))
	for _, t := range first {
		fmt.Fprintf(&b, "\n## %s\n\n", escape(t.Title))
		if err := t.Table.Markdown(&b); err != nil {
			return nil, err
		}
		if t.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", escape(t.Note))
		}
	}
	for i, t := range RatesOf(r) {
		s := run.Scenarios[i]
		fmt.Fprintf(&b, "\n## %s\n\n", escape(t.Title))
		for _, f := range figuresOf(r, s) {
			fmt.Fprintf(&b, "![%s](%s.png)\n\n", escape(f.chart.name()), f.name)
		}
		if err := t.write(&b, asMarkdown, wholeTables); err != nil {
			return nil, err
		}
		if s.Limit != "" {
			fmt.Fprintf(&b, "\nExpected limit: %s\n", escape(s.Limit))
		}
		fmt.Fprint(&b, "\n### Settings\n\n")
		if err := settings(s).Markdown(&b); err != nil {
			return nil, err
		}
		fmt.Fprint(&b, "\n### Every attempt\n\n")
		if err := attemptsTable(r, s).Markdown(&b); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&b, "\n## How to read the tables\n\n%s\n\n%s\n", escape(legendOfTables), escape(legendOfAttempts))
	fmt.Fprint(&b, "\n## Hosts\n\n")
	if err := hosts(run.Testbed).Markdown(&b); err != nil {
		return nil, err
	}
	link(&b, run.Testbed)
	return b.Bytes(), nil
}

func link(w io.Writer, t resultfile.Testbed) {
	if t.LinkGoodputMbps > 0 {
		fmt.Fprintf(w, "\nLink: %.1f Mbit/s of TCP goodput from client to broker and %.1f back, measured before the run. %s\n",
			t.LinkGoodputMbps, t.LinkReverseGoodputMbps, escape(t.LinkNote))
	}
}

// settings is the table that makes the comparison fair: each setting of each
// system side by side.
func settings(s resultfile.Scenario) *Table {
	t := &Table{Head: []string{"setting"}, left: map[int]bool{}}
	var rows []string
	for i, y := range s.Systems {
		t.Head = append(t.Head, y.Label)
		t.left[i+1] = true
		for _, set := range y.Settings {
			if !slices.Contains(rows, set.Row) {
				rows = append(rows, set.Row)
			}
		}
	}
	for _, name := range rows {
		cells := []string{name}
		for _, y := range s.Systems {
			value := unknown
			for _, set := range y.Settings {
				if set.Row == name {
					value = set.Value
				}
			}
			cells = append(cells, value)
		}
		t.add(cells...)
	}
	t.addIfAny("view of the rival", s, func(y resultfile.System) string { return y.View })
	t.addIfAny("of its own", s, ownAmounts)
	cells := []string{"options of the driver"}
	for _, y := range s.Systems {
		cells = append(cells, options(y.Options))
	}
	t.add(cells...)
	return t
}

// addIfAny adds a row of what each system has, unless none has anything.
func (t *Table) addIfAny(name string, s resultfile.Scenario, of func(resultfile.System) string) {
	cells, any := []string{name}, false
	for _, y := range s.Systems {
		text := of(y)
		if text == "" {
			text = unknown
		}
		any = any || text != unknown
		cells = append(cells, text)
	}
	if any {
		t.add(cells...)
	}
}

func options(o map[string]string) string {
	if len(o) == 0 {
		return "none"
	}
	var parts []string
	for name, value := range o {
		parts = append(parts, name+" = "+value)
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// attemptsTable lists every attempt in the order in which they ran, with how
// it ended.
func attemptsTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	t := &Table{
		Head: []string{"attempt", "order", "outcome", "messages", "seconds", "messages/s", "contents checked", "lost", "doubled", "damaged", "reordered", "remarks"},
		left: map[int]bool{2: true, 11: true},
	}
	var as []resultfile.Attempt
	for _, a := range r.Run.Attempts {
		if a.Scenario == s.Name {
			as = append(as, a)
		}
	}
	slices.SortStableFunc(as, func(a, b resultfile.Attempt) int { return a.Order - b.Order })
	for _, a := range as {
		remarks := a.Notes
		if a.Reason != "" {
			remarks = append([]string{a.Reason}, a.Notes...)
		}
		checked := "no"
		if a.Verified {
			checked = "yes"
		}
		whole := func(n int64) string { return number(float64(n)) }
		t.add(a.ID, strconv.Itoa(a.Order), string(a.Outcome), whole(a.Messages), strconv.FormatFloat(a.Seconds, 'f', 2, 64), number(roundTo3(a.MessagesPerSecond())),
			checked, whole(a.Lost), whole(a.Doubled), whole(a.Damaged), whole(a.Reordered), strings.Join(remarks, "; "))
	}
	return t
}

const legendOfAttempts = "Every attempt: order is that in which they ran, by the seed; the consumer's attempt follows the producer's whose backlog it consumes, at the same server. " +
	"Contents checked: sequence number and checksum of every message were compared; no: only of a part, as the remarks say, or of none. " +
	"Lost, doubled, damaged and reordered are messages. Messages and seconds of a producer are until the last one had arrived at the broker."

// hosts is the table of what the two machines are.
func hosts(t resultfile.Testbed) *Table {
	out := &Table{Head: []string{"fact", "client: " + t.ClientHost.Name, "broker: " + t.BrokerHost.Name}, left: map[int]bool{1: true, 2: true}}
	var names []string
	for _, h := range []resultfile.Host{t.ClientHost, t.BrokerHost} {
		for _, f := range h.Facts {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	value := func(h resultfile.Host, name string) string {
		if v := h.Fact(name); v != "" {
			return v
		}
		return unknown
	}
	for _, name := range names {
		out.add(name, value(t.ClientHost, name), value(t.BrokerHost, name))
	}
	return out
}
