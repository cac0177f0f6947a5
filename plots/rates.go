package plots

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kafkalab/results/paper"
	"kafkalab/results/resultfile"
)

// Rates is what a run says of one scenario, in numbers.
type Rates struct {
	Scenario string          `json:"scenario"`
	Title    string          `json:"title"`
	Work     resultfile.Work `json:"work"`
	Limit    *Limit          `json:"limit,omitempty"` // nil: none was measured
	Systems  []SystemRates   `json:"systems"`
	// Busy attempts were made beside other work on the machine, which kept at
	// most BusyLoad processors busy.
	Busy     int     `json:"busy,omitempty"`
	BusyLoad float64 `json:"busy_load,omitempty"`

	asks         bool // the scenario says how it is to be shown, as all do now
	limitsDiffer bool // each place of a sweep has a limit of its own
	ceiling      string
	more         []NamedTable
}

// Limit is the physical limit that rates are held against: the lowest of those
// that the scenario measured, else the goodput of the link before the run.
type Limit struct {
	Label          string  `json:"label"`
	BytesPerSecond Summary `json:"bytes_per_second"`
}

// SystemRates is a row of the table of rates. Every summary is over the valid
// attempts.
type SystemRates struct {
	System   string `json:"system"` // its ID
	Label    string `json:"label"`
	Driver   string `json:"driver"`
	Role     string `json:"role"`
	Attempts int    `json:"attempts"`
	Valid    int    `json:"valid"`
	Absent   string `json:"absent,omitempty"` // why none is valid

	MessagesPerSecond Summary `json:"messages_per_second"`
	// LogBytesPerSecond counts a message in the system's own format.
	LogBytesPerSecond Summary `json:"log_bytes_per_second"`
	// OfLimit is LogBytesPerSecond over the limit's, 1 for all of it.
	OfLimit *Ratio `json:"of_limit,omitempty"`
	// Against holds the rate over those of the systems compared with.
	Against []Against `json:"against,omitempty"`

	ClientMessagesPerSecond Summary `json:"client_messages_per_second"` // the client's own view
	BrokerMicrosPerMessage  Summary `json:"broker_cpu_us_per_message"`
	ClientMicrosPerMessage  Summary `json:"client_cpu_us_per_message"`
	FormatBytesPerMessage   Summary `json:"format_bytes_per_message"`
	DiskBytesPerMessage     Summary `json:"disk_bytes_per_message"`
	BrokerResidentBytes     Summary `json:"broker_resident_bytes"`
	BrokerDiskWriteBytes    Summary `json:"broker_disk_write_bytes"`

	// Quantities are those of the scenario's figure, where they are known.
	Quantities []Measured `json:"quantities,omitempty"`
	Bound      *Bound     `json:"bound,omitempty"` // what held it back; nil: not known
	// OfCeiling is the rate over that of the harness without a system; nil: not
	// known. HarnessBound systems come closer to it than a factor of two.
	OfCeiling    *float64 `json:"of_ceiling,omitempty"`
	HarnessBound bool     `json:"harness_bound,omitempty"`
	Counts       Counts   `json:"counts"`

	syscalls, diskReads, gc Summary
}

// Measured is a quantity of a system.
type Measured struct {
	Quantity Quantity `json:"quantity"`
	Unit     string   `json:"unit"` // "" for a share
	Summary
}

// Against is how many times faster a system is than another one.
type Against struct {
	System string `json:"system"` // the other's ID
	Ratio  *Ratio `json:"ratio"`  // nil: one of them was not measured
}

// RatesOf computes the numbers of a run, scenario by scenario.
func RatesOf(r *resultfile.Result) []Rates {
	var out []Rates
	for _, s := range r.Run.Scenarios {
		t := Rates{Scenario: s.Name, Title: heading(s), Work: s.Work, Limit: limitOf(r, s)}
		peers := peersOf(s)
		for _, y := range s.Systems {
			t.Systems = append(t.Systems, systemRates(r, s, y, limitFor(r, s, y), peers))
		}
		t.asks, t.limitsDiffer, t.more = s.Chart != "", limitsDiffer(s), moreTables(r, s)
		t.ceiling = ceilingLine(r, s, extrasView.shows)
		t.Busy, t.BusyLoad = busyAttempts(r, s, extrasView) // that has them all
		out = append(out, t)
	}
	return out
}

func systemRates(r *resultfile.Result, s resultfile.Scenario, y resultfile.System, limit *Limit, peers []resultfile.System) SystemRates {
	valid := validAttempts(r, s, y)
	row := SystemRates{
		System: y.ID, Label: y.Label, Driver: y.Driver, Role: y.Role,
		Attempts: len(attempts(r, s, y)), Valid: len(valid),
		MessagesPerSecond:       summaryOf(valid, rate),
		LogBytesPerSecond:       summaryOf(valid, logRate),
		ClientMessagesPerSecond: summaryOf(valid, clientRate),
		BrokerMicrosPerMessage:  summaryOf(valid, brokerMicros),
		ClientMicrosPerMessage:  summaryOf(valid, clientMicros),
		FormatBytesPerMessage:   summaryOf(valid, formatBytes),
		DiskBytesPerMessage:     summaryOf(valid, storeBytes),
		BrokerResidentBytes:     summaryOf(valid, residentBytes),
		BrokerDiskWriteBytes:    summaryOf(valid, diskWrites),
	}
	if row.Valid == 0 {
		row.Absent = whyAbsent(r, s, y)
	}
	row.extend(r, s, y)
	if y.Role == resultfile.RoleLimit {
		return row
	}
	if limit != nil {
		row.OfLimit = ratio(row.LogBytesPerSecond, limit.BytesPerSecond)
	}
	for _, p := range peers {
		a := Against{System: p.ID}
		if p.ID != y.ID {
			a.Ratio = RatioOf(valuesOf(valid, rate), valuesOf(validAttempts(r, s, p), rate))
		}
		row.Against = append(row.Against, a)
	}
	return row
}

// peersOf returns the systems that the others are compared with: RabbitMQ and
// ActiveMQ as in the paper's figure, in each of their modes. Figures of other
// kinds have comparisons of their own (comparisonsOf).
func peersOf(s resultfile.Scenario) []resultfile.System {
	if len(comparisonsOf(s)) > 0 {
		return nil
	}
	var peers []resultfile.System
	for _, y := range s.Systems {
		if y.Role == resultfile.RoleSystem && (y.Driver == "rabbitmq" || y.Driver == "activemq") {
			peers = append(peers, y)
		}
	}
	return peers
}

// extend adds what a run of today knows of a system beside its rates.
func (y *SystemRates) extend(r *resultfile.Result, s resultfile.Scenario, of resultfile.System) {
	for _, q := range quantitiesOf(s) {
		if sum := Summarise(q.valuesIn(r, s, of)); sum.N > 0 && s.Chart != "" {
			y.Quantities = append(y.Quantities, Measured{q, q.Unit(), sum})
		}
	}
	y.Bound = boundOf(r, s, of)
	y.Counts = countsOf(r, s, of)
	if share, bound := ofCeiling(r.Run, s, of, y.MessagesPerSecond.Median); share > 0 && y.MessagesPerSecond.N > 0 {
		y.OfCeiling, y.HarnessBound = &share, bound && of.Role != resultfile.RoleLimit
	}
	y.syscalls = Summarise(BrokerSyscalls.valuesIn(r, s, of))
	y.diskReads = summaryOf(validAttempts(r, s, of), func(a resultfile.Attempt) (float64, bool) {
		v, ok := a.Measures["broker_disk_read_bytes"]
		return v, ok
	})
	y.gc = Summarise(GCShare.valuesIn(r, s, of))
}

// limitOf is the physical limit of a scenario: that of its first system.
func limitOf(r *resultfile.Result, s resultfile.Scenario) *Limit {
	for _, y := range s.Systems {
		if y.Role != resultfile.RoleLimit {
			return limitFor(r, s, y)
		}
	}
	return limitAmong(r, s, s.Systems)
}

// limitFor is the physical limit that a system is held against: of those
// measured for its own place in a sweep, for payloads as large as its own and
// with the same done before, where there are such. What goes at a planned rate, or stands still for a
// crash or a rebalance, has none.
func limitFor(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) *Limit {
	if s.Work != resultfile.Produce && s.Work != resultfile.Consume {
		return nil
	}
	limits := s.Systems
	for _, alike := range []func(resultfile.System) bool{
		func(l resultfile.System) bool { return onAxis(l) && l.X == y.X },
		func(l resultfile.System) bool { return payloadOf(s, l.ID) == payloadOf(s, y.ID) },
		func(l resultfile.System) bool { return slices.Equal(l.Before, y.Before) },
	} {
		var close []resultfile.System
		for _, l := range limits {
			if l.Role == resultfile.RoleLimit && alike(l) {
				close = append(close, l)
			}
		}
		if len(close) > 0 {
			limits = close
		}
	}
	return limitAmong(r, s, limits)
}

// limitsDiffer says whether the places of a sweep have limits of their own.
func limitsDiffer(s resultfile.Scenario) bool {
	return slices.ContainsFunc(s.Systems, func(y resultfile.System) bool { return y.Role == resultfile.RoleLimit && onAxis(y) })
}

func limitAmong(r *resultfile.Result, s resultfile.Scenario, systems []resultfile.System) *Limit {
	var lowest *Limit
	for _, y := range systems {
		if y.Role != resultfile.RoleLimit {
			continue
		}
		rates := summaryOf(validAttempts(r, s, y), logRate)
		if rates.N > 0 && (lowest == nil || rates.Median < lowest.BytesPerSecond.Median) {
			lowest = &Limit{Label: y.Label, BytesPerSecond: rates}
		}
	}
	if lowest != nil {
		return lowest
	}
	mbps := linkMbps(r, s)
	if mbps <= 0 {
		return nil
	}
	return &Limit{Label: "the link's TCP goodput before the run", BytesPerSecond: Summarise([]float64{mbps * 1e6 / 8})}
}

// RatesTable writes, for a terminal, the tables of every scenario: the rates,
// how many times as fast as RabbitMQ and ActiveMQ that is, what it cost, and
// how the tables are to be read.
func RatesTable(w io.Writer, r *resultfile.Result) error { return writeRates(w, r, asText) }

// RatesMarkdown writes the same tables as Markdown.
func RatesMarkdown(w io.Writer, r *resultfile.Result) error { return writeRates(w, r, asMarkdown) }

func writeRates(w io.Writer, r *resultfile.Result, as format) error {
	if _, err := fmt.Fprintf(w, as.title, runLine(r.Run)); err != nil {
		return err
	}
	for _, t := range RatesOf(r) {
		if _, err := fmt.Fprintf(w, as.heading, t.Title); err != nil {
			return err
		}
		if err := t.write(w, as); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, as.paragraph(legendOfTables))
	return err
}

// runLine names a run and says what must be known to compare it.
func runLine(run resultfile.Run) string {
	return fmt.Sprintf("Run %s: %s messages asked for in each attempt, %s, %s, commit %s",
		run.Name, number(float64(run.Messages)), plural(run.Repeat, "repetition"), capText(run), shortCommit(run.Commit))
}

// capText says how long an attempt could take.
func capText(run resultfile.Run) string {
	if run.CapSeconds == 0 {
		held := make(map[string]bool)
		for _, s := range run.Scenarios {
			for _, y := range s.Systems {
				if y.Capped {
					held[y.ID] = true
				}
			}
		}
		if len(held) == 0 {
			return "no cap"
		}
		return "no cap but for the " + plural(len(held), "system") + " held to a time of their own"
	}
	return fmt.Sprintf("none longer than %s s", number(run.CapSeconds))
}

// legendOfTables says what the columns are that do not speak for themselves.
const legendOfTables = "Of the limit: the share of the physical limit; – for the limit itself, and for systems whose own format of a message is not known byte by byte. " +
	"Client's view: messages that the client handed over (or received) a second, until its last call returned. " +
	"CPU: processor time of the processes, user and system. " +
	"Format: a message of the test in the system's own format, with its header. " +
	"Store: how much more disk space the system's files took after the attempt than before. " +
	"Disk writes: what the broker's processes gave to the disk while they were measured; the kernel may write the rest later. " +
	"(extra): an addition to the paper's figure. –: not known, or not measured; of a store, that it did not grow."

func (t Rates) write(w io.Writer, as format) error {
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
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
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
