package plots

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kafkalab/results/paper"
	"kafkalab/results/resultfile"
)

// RatesTable writes, for a terminal, the tables of every scenario: the rates,
// how many times as fast as RabbitMQ and ActiveMQ that is, what it cost, and
// how the tables are to be read.
func RatesTable(w io.Writer, r *resultfile.Result) error {
	return writeRates(w, r, asText, wholeTables)
}

// RatesMarkdown writes the same tables as Markdown.
func RatesMarkdown(w io.Writer, r *resultfile.Result) error {
	return writeRates(w, r, asMarkdown, wholeTables)
}

// RatiosTable writes, for a terminal, the rates and ratios alone.
func RatiosTable(w io.Writer, r *resultfile.Result) error {
	return writeRates(w, r, asText, ratiosAlone)
}

// RatiosMarkdown writes the same as Markdown.
func RatiosMarkdown(w io.Writer, r *resultfile.Result) error {
	return writeRates(w, r, asMarkdown, ratiosAlone)
}

// How much of the tables is written.
const (
	wholeTables = iota
	ratiosAlone
)

func writeRates(w io.Writer, r *resultfile.Result, as format, much int) error {
	if _, err := fmt.Fprintf(w, as.title, as.words(runLine(r.Run))); err != nil {
		return err
	}
	for _, t := range RatesOf(r) {
		if _, err := fmt.Fprintf(w, as.heading, as.words(t.Title)); err != nil {
			return err
		}
		if err := t.write(w, as, much); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	legend := legendOfTables
	if much == ratiosAlone {
		legend = legendOfRatios
	}
	_, err := fmt.Fprintln(w, as.paragraph(legend))
	return err
}

// legendOfTables says what the columns are that do not speak for themselves.
const legendOfTables = legendOfShares +
	"Client's view: messages that the client handed over (or received) a second, until its last call returned. " +
	"CPU: processor time of the processes, user and system. " +
	"Format: a message of the test in the system's own format, with its header. " +
	"Store: how much more disk space the system's files took after the attempt than before; of one that produces, without taking off what was removed meanwhile, which was there before. " +
	"Disk writes: what the broker's processes gave to the disk while they were measured; the kernel may write the rest later. " +
	legendOfRoles + " –: not known, or not measured; of a store, that it did not grow."

const (
	legendOfShares = "Of the limit: the share of the physical limit; – for the limit itself, and for systems whose own format of a message is not known byte by byte. "
	legendOfRoles  = "(extra): an addition to the paper's figure."
	legendOfRatios = legendOfShares + legendOfRoles + " –: not known, or not measured."
)

func (t Rates) write(w io.Writer, as format, much int) error {
	if err := as.table(t.rates(), w); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%s\n\n", as.paragraph(t.notes())); err != nil {
		return err
	}
	if len(t.peers()) > 0 {
		if err := as.table(t.ratios(), w); err != nil {
			return err
		}
		if much == ratiosAlone {
			return nil
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if much == ratiosAlone {
		return nil
	}
	if err := as.table(t.costs(), w); err != nil {
		return err
	}
	for _, m := range t.more {
		if err := m.write(w, as); err != nil {
			return err
		}
	}
	return nil
}

// rates is the table of what was reached.
func (t Rates) rates() *Table {
	intervals := t.anyInterval()
	out := &Table{Head: []string{"system", "messages/s", "lowest .. highest", "of the limit", "valid"}}
	if intervals {
		out.Head = slices.Insert(out.Head, 3, "95 % interval")
	}
	ceilings := slices.ContainsFunc(t.Systems, func(y SystemRates) bool { return y.OfCeiling != nil })
	if ceilings {
		out.Head = slices.Insert(out.Head, len(out.Head)-1, "of the harness alone")
	}
	for _, y := range t.Systems {
		valid := fmt.Sprintf("%d of %d", y.Valid, y.Attempts)
		if y.Absent != "" {
			valid = firstOf(y.Absent)
		}
		cells := []string{y.name(), tripled(y.MessagesPerSecond), span(y.MessagesPerSecond), percent(y.OfLimit), valid}
		if intervals {
			cells = slices.Insert(cells, 3, interval(y.MessagesPerSecond))
		}
		if ceilings {
			cells = slices.Insert(cells, len(cells)-1, y.harness())
		}
		out.add(cells...)
	}
	return out
}

// ratios is the table of how many times faster each system is than the peers.
func (t Rates) ratios() *Table {
	out := &Table{Head: []string{"times as fast as"}}
	labels := make(map[string]string)
	for _, y := range t.Systems {
		labels[y.System] = y.Label
	}
	for _, id := range t.peers() {
		out.Head = append(out.Head, labels[id])
	}
	for _, y := range t.Systems {
		if y.Role == resultfile.RoleLimit {
			continue
		}
		cells := []string{y.name()}
		for _, a := range y.Against {
			cells = append(cells, timesIn(a.Ratio, MessageRate))
		}
		out.add(cells...)
	}
	return out
}

// costs is the table of what it took.
func (t Rates) costs() *Table {
	out := &Table{Head: []string{"system", "client's view, /s", "broker CPU, µs/message", "client CPU, µs/message", "format, B/message", "store, B/message", "broker memory, MB", "disk writes, MB"}}
	for _, y := range t.Systems {
		out.add(y.name(), tripled(y.ClientMessagesPerSecond), decimals(y.BrokerMicrosPerMessage, 2), decimals(y.ClientMicrosPerMessage, 2),
			decimals(y.FormatBytesPerMessage, 1), decimals(y.DiskBytesPerMessage, 1), megabytes(y.BrokerResidentBytes), megabytes(y.BrokerDiskWriteBytes))
	}
	t.column(out, "disk reads, MB", func(y SystemRates) string { return megabytes(y.diskReads) })
	t.column(out, "system calls/message", func(y SystemRates) string { return shorted(y.syscalls, 1) })
	t.column(out, "GC, % of broker CPU", func(y SystemRates) string { return shorted(y.gc, 0.01) })
	if t.asks { // runs of before are shown as they were
		if t.column(out, "what was the limit", func(y SystemRates) string { return y.Bound.text() }) {
			out.left = map[int]bool{len(out.Head) - 1: true}
		}
	}
	return out
}

// column adds a column to the table of all systems, unless none has anything in
// it.
func (t Rates) column(out *Table, head string, cell func(SystemRates) string) bool {
	cells := make([]string, len(t.Systems))
	known := false
	for i, y := range t.Systems {
		cells[i] = cell(y)
		known = known || cells[i] != unknown
	}
	if !known {
		return false
	}
	out.Head = append(out.Head, head)
	for i := range out.Rows {
		out.Rows[i] = append(out.Rows[i], cells[i])
	}
	return true
}

// harness is the share of what the harness does alone, with the mark.
func (y SystemRates) harness() string {
	if y.OfCeiling == nil {
		return unknown
	}
	text := shorted(Summarise([]float64{*y.OfCeiling}), 0.01) + " %"
	if y.HarnessBound {
		text += ", " + harnessBound
	}
	return text
}

// notes says how to read the tables.
func (t Rates) notes() string {
	var b strings.Builder
	b.WriteString("Median over the valid attempts")
	if t.Work == resultfile.Produce {
		b.WriteString(", of what arrived at the broker by its own count")
	}
	switch {
	case t.asks && len(t.peers()) == 0:
		b.WriteString(".")
	case t.anyRatioInterval():
		b.WriteString("; ratios " + intervalNote + ".")
	default:
		b.WriteString("; ratios with the lowest and the highest that any two repetitions give.")
	}
	if t.Busy > 0 {
		fmt.Fprintf(&b, " The machine was busy with other work before %s (load %.1f at most): rates are lower and spread more widely than on a quiet one.", plural(t.Busy, "attempt"), t.BusyLoad)
	}
	for _, line := range []string{t.link, t.brief} {
		if line != "" {
			b.WriteString(" " + line)
		}
	}
	if !t.anyInterval() {
		b.WriteString(" Fewer than 6 repetitions: too few for an interval.")
	}
	if t.Limit != nil && t.limitsDiffer {
		b.WriteString(" Limit: that measured for the same place of the sweep; a system's share of it is in bytes of its own message format.")
	} else if t.Limit != nil {
		fmt.Fprintf(&b, " Limit: \"%s\", %s MB/s; a system's share of it is in bytes of its own message format.", t.Limit.Label, number(t.Limit.BytesPerSecond.Median/megabyte))
	}
	if t.ceiling != "" {
		b.WriteString(" " + t.ceiling)
	}
	if marks := t.marks(); len(marks) > 0 {
		b.WriteString(" In the paper (2011):")
		for i, m := range marks {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %s %s messages/s", m.Label, number(m.Rate))
		}
		b.WriteString(".")
	}
	if slices.ContainsFunc(t.Systems, func(y SystemRates) bool { return y.Role == resultfile.RoleAlso }) {
		b.WriteString(" (also measured): none of the systems that the paper compared.")
	}
	return b.String()
}

func (t Rates) marks() []paper.Mark {
	if t.asks && figureName.FindString(t.Scenario) == "" {
		return nil // a scenario of another question
	}
	if t.Work == resultfile.Consume {
		return paper.Marks("5")
	}
	return paper.Marks("4")
}

func (t Rates) peers() []string {
	for _, y := range t.Systems {
		if len(y.Against) > 0 {
			ids := make([]string, len(y.Against))
			for i, a := range y.Against {
				ids[i] = a.System
			}
			return ids
		}
	}
	return nil
}

func (t Rates) anyRatioInterval() bool {
	for _, y := range t.Systems {
		if slices.ContainsFunc(y.Against, func(a Against) bool { return a.Ratio.hasInterval() }) {
			return true
		}
	}
	return false
}

func (t Rates) anyInterval() bool {
	for _, y := range t.Systems {
		if y.MessagesPerSecond.Low != nil {
			return true
		}
	}
	return false
}

// name is the label with the role where it is not plain.
func (y SystemRates) name() string { return roleName(y.Label, y.Role) }

// named is the same of a system.
func named(y resultfile.System) string { return roleName(y.Label, y.Role) }

func roleName(label, role string) string {
	switch role {
	case resultfile.RoleExtra:
		return label + " (extra)"
	case resultfile.RoleAlso:
		return label + " (also measured)"
	}
	return label
}
