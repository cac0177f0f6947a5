package plots

import "kafkalab/results/resultfile"

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
	brief        string // which attempts are too short to measure anything
	link         string // what it was, where the scenario asks for none with a rate
	more         []NamedTable
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
		t.brief = briefLine(r, s, extrasView.shows)
		t.link = linkLine(r.Run.Testbed, s)
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
