package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"kafkalab/results/resultfile"
)

// sweepRow makes several systems of one [[system]]: one for each value of a key
// of the table, or of one of its options ("options.batch"). Its id gets the
// value behind a hyphen, "%s" in its label is replaced by it, and it is the
// system's place on the axis, unless x is given as a factor for it. Where the
// size of payload is swept, expected_rate and stored_bytes are those of the
// scenario's payload, and are brought to each size. A smaller message is
// expected to be faster too, but no more than four times.
type sweepRow struct {
	Key    string  `toml:"key"`
	Values []int64 `toml:"values"`
}

// sweepKeys are the keys that can be swept, besides options.
var sweepKeys = map[string]func(*systemRow, int64){
	"payload_bytes": func(r *systemRow, v int64) { r.PayloadBytes = int(v) },
	"messages":      func(r *systemRow, v int64) { r.Messages = v },
	"bytes":         func(r *systemRow, v int64) { r.Bytes = v },
	"fill_messages": func(r *systemRow, v int64) { r.FillMessages = v },
	"fill_bytes":    func(r *systemRow, v int64) { r.FillBytes = v },
	"consumers":     func(r *systemRow, v int64) { r.Consumers = int(v) },
	"producers":     func(r *systemRow, v int64) { r.Producers = int(v) },
	"cores":         func(r *systemRow, v int64) { r.Cores = int(v) },
	"rate":          func(r *systemRow, v int64) { r.Rate = float64(v) },
}

// expandSweeps replaces each system that has a sweep by those it stands for.
func (f *file) expandSweeps(name string) []error {
	var errs []error
	var all []systemRow
	for _, row := range f.Systems {
		if row.Sweep == nil {
			all = append(all, row)
			continue
		}
		rows, err := row.expand()
		if row.Sweep.Key == "payload_bytes" {
			for i := range rows {
				rows[i].expectSize(f.PayloadBytes)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: system %q: sweep: %w", name, row.ID, err))
		}
		all = append(all, rows...)
	}
	f.Systems = all
	return errs
}

func (row systemRow) expand() ([]systemRow, error) {
	sweep := *row.Sweep
	row.Sweep = nil
	option, isOption := strings.CutPrefix(sweep.Key, "options.")
	set := sweepKeys[sweep.Key]
	if set == nil && !isOption {
		keys := []string{"options.NAME"}
		for k := range sweepKeys {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return nil, fmt.Errorf("key = %q: one of %s is wanted", sweep.Key, strings.Join(keys, ", "))
	}
	if len(sweep.Values) == 0 {
		return nil, fmt.Errorf("values is empty")
	}
	if !strings.Contains(row.Label, "%s") {
		return nil, fmt.Errorf("label = %q: the place of the value, %%s, is wanted in it", row.Label)
	}
	factor := row.X
	if factor == 0 {
		factor = 1
	}
	var rows []systemRow
	for _, v := range sweep.Values {
		if v <= 0 {
			return nil, fmt.Errorf("value %d: more than 0 is wanted", v)
		}
		one := row
		one.ID = row.ID + "-" + strconv.FormatInt(v, 10)
		one.X, _ = strconv.ParseFloat(strconv.FormatFloat(float64(v)*factor, 'g', 12, 64), 64) // 0.3, not 0.30000000000000004
		one.Label = strings.ReplaceAll(row.Label, "%s", grouped(one.X))
		if one.Series == "" {
			one.Series = row.ID
		}
		if isOption {
			one.Options = map[string]any{option: v}
			for k, other := range row.Options {
				if k != option {
					one.Options[k] = other
				}
			}
		} else {
			set(&one, v)
		}
		rows = append(rows, one)
	}
	return rows, nil
}

// expectSize turns what is expected with payloads of usual bytes into what is
// with the row's own: so many bytes more or less are stored, and a message
// takes longer or less in proportion.
func (row *systemRow) expectSize(usual int) {
	before := max(row.StoredBytes, 1)
	row.StoredBytes = max(before+int64(row.PayloadBytes-usual), int64(row.PayloadBytes), 1)
	factor := min(float64(usual)/float64(row.PayloadBytes), mostFaster)
	row.ExpectedRate = max(int64(float64(row.ExpectedRate)*factor), 1)
}

// mostFaster bounds what a smaller message gains: some of its cost is no byte's.
const mostFaster = 4

// grouped writes a number with commas between the thousands.
func grouped(v float64) string {
	whole, fraction, dotted := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dotted {
		whole += "." + fraction
	}
	return whole
}

// checkChart looks at the figure's keys.
func (f *file) checkChart(name string) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(name+": "+format, args...)) }
	charts := []resultfile.Chart{resultfile.OverData, resultfile.Sweep, resultfile.Bars, resultfile.OverTime, resultfile.Latencies, resultfile.OverTiers}
	if f.Chart == "" {
		f.Chart = string(resultfile.OverData)
	}
	if !slices.Contains(charts, resultfile.Chart(f.Chart)) {
		bad("chart = %q: one of %q is wanted", f.Chart, charts)
	}
	if sweep := f.Chart == string(resultfile.Sweep); sweep != (f.Axis != nil) || sweep && f.Axis.Label == "" {
		bad("chart = %q: axis, with a label that says the unit, belongs to chart = %q, and to no other", f.Chart, resultfile.Sweep)
	}
	if f.Seconds != 0 && !planned(resultfile.Work(f.Work)) {
		bad("seconds = %v: only work = %q and %q lasts a planned time", f.Seconds, resultfile.Stream, resultfile.Pipeline)
	}
	if planned(resultfile.Work(f.Work)) && !(f.Seconds > 0 && f.Seconds <= 86_400) {
		bad("seconds = %v: how long each system is sent its planned rate is wanted, up to a day", f.Seconds)
	}
	return errs
}

// planned says whether a work sends at a planned rate for a planned time.
func planned(work resultfile.Work) bool {
	return work == resultfile.Stream || work == resultfile.Pipeline
}

func (f *file) axis() *resultfile.Axis {
	if f.Axis == nil {
		return nil
	}
	return &resultfile.Axis{Label: f.Axis.Label, Log: f.Axis.Log}
}

func (f *file) baseMessages() int64 {
	if f.Messages > 0 {
		return f.Messages
	}
	return DefaultMessages
}

// checkAmounts looks at what a system does otherwise than its scenario, and
// turns bytes into messages.
func (row *systemRow) checkAmounts(f *file) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if row.PayloadBytes != 0 && (row.PayloadBytes < MinPayloadBytes || row.PayloadBytes > MaxPayloadBytes) {
		bad("payload_bytes = %d: from %d to %d is wanted", row.PayloadBytes, MinPayloadBytes, MaxPayloadBytes)
		return errs
	}
	payload := int64(row.PayloadBytes)
	if payload == 0 {
		payload = int64(max(f.PayloadBytes, 1))
	}
	for _, a := range []struct {
		name     string
		bytes    int64
		messages *int64
	}{{"bytes", row.Bytes, &row.Messages}, {"fill_bytes", row.FillBytes, &row.FillMessages}} {
		if a.bytes < 0 || *a.messages < 0 || a.bytes > 0 && *a.messages > 0 {
			bad("%s = %d, messages = %d: one of the two, from 0, is wanted", a.name, a.bytes, *a.messages)
		} else if a.bytes > 0 {
			*a.messages = max(a.bytes/payload, 1)
		}
		if *a.messages > MaxMessages {
			bad("%s = %d, messages = %d: no more than %d messages can be asked for", a.name, a.bytes, *a.messages, int64(MaxMessages))
		}
	}
	work := resultfile.Work(f.Work)
	if row.FillMessages > 0 && (f.BacklogOf != "" || work != resultfile.Consume && work != resultfile.Produce) {
		bad("fill_messages = %d: a consume with a backlog of its own and a produce are filled, nothing else", row.FillMessages)
	}
	if row.Consumers < 0 || row.Consumers > maxConsumers {
		bad("consumers = %d: from 1 to %d is wanted", row.Consumers, maxConsumers)
	}
	if row.Consumers > 1 && (f.BacklogOf != "" || work != resultfile.Consume && work != resultfile.Rebalance) {
		bad("consumers = %d: several consume a backlog that is made for them, or are a group that rebalances, nothing else", row.Consumers)
	}
	if row.Producers < 0 || row.Producers > maxProducers || row.Producers > 1 && work != resultfile.Produce {
		bad("producers = %d: from 1 to %d is wanted, and several belong to work = %q", row.Producers, maxProducers, resultfile.Produce)
	}
	if row.Beside < 0 || row.Beside > maxConsumers || row.Beside > 0 && (work != resultfile.Produce || row.FillMessages == 0) {
		bad("beside = %d: up to %d consumers of what fill_messages stores belong to work = %q", row.Beside, maxConsumers, resultfile.Produce)
	}
	if row.Cores < 0 || row.Cores > maxCores {
		bad("cores = %d: up to %d are possible; without the key it is what the testbed file says", row.Cores, maxCores)
	}
	if work == resultfile.Rebalance && row.Consumers < 2 {
		bad("consumers = %d: a group of at least 2 is wanted, which come and go", row.Consumers)
	}
	if math.IsNaN(row.X) || math.IsInf(row.X, 0) || f.Axis != nil && f.Axis.Log && row.X < 0 {
		bad("x = %v: a number is wanted, and none below 0 on a logarithmic axis", row.X)
	}
	if !(row.Rate >= 0 && row.Rate <= MaxRate) || (row.Rate > 0) != planned(work) {
		bad("rate = %v: a planned rate in messages a second belongs to every system of work = %q and %q, and to no other work", row.Rate, resultfile.Stream, resultfile.Pipeline)
	}
	if planned(work) && row.Messages == 0 {
		row.Messages = max(int64(math.Round(row.Rate*f.Seconds)), 1)
	}
	for _, step := range row.Before {
		if step != BeforeRestart && step != BeforeDropCache {
			bad("before = %q: %q and %q are possible", step, BeforeRestart, BeforeDropCache)
		}
	}
	if len(row.Before) > 0 && (work != resultfile.Consume || f.BacklogOf != "") {
		bad("before = %q: that is for a consume whose broker is filled for it", row.Before)
	}
	if row.View != "" && row.View != resultfile.ViewPaper && row.View != resultfile.ViewBest {
		bad("view = %q: %q or %q is wanted", row.View, resultfile.ViewPaper, resultfile.ViewBest)
	}
	return errs
}

// maxConsumers and maxProducers bound those of one client process, and maxCores
// what a broker can be asked to be held to.
const (
	maxConsumers = 1000
	maxProducers = 1000
	maxCores     = 4096
)

// MessagesOf is how many messages an attempt of a system sends or consumes.
func (sel Selection) MessagesOf(s Scenario, sys System) int64 {
	if sys.Messages == 0 {
		return sel.Messages
	}
	return sel.scaled(s, sys.Messages)
}

// FillOf is how many messages are stored before the measuring of a system
// begins; 0: none. A consume without a backlog of another scenario is filled
// with as many as it consumes, unless it says otherwise.
func (sel Selection) FillOf(s Scenario, sys System) int64 {
	switch {
	case sys.FillMessages > 0:
		return sel.scaled(s, sys.FillMessages)
	case s.Work == resultfile.Consume && s.BacklogOf == "":
		return sel.MessagesOf(s, sys)
	}
	return 0
}

// scaled brings messages that a scenario states to the size of the run.
func (sel Selection) scaled(s Scenario, messages int64) int64 {
	if sel.Messages == s.BaseMessages || s.BaseMessages == 0 {
		return messages
	}
	n := math.Round(float64(messages) * float64(sel.Messages) / float64(s.BaseMessages))
	return int64(min(max(n, 1), MaxMessages))
}

// PayloadOf is the size of a system's payloads, in bytes.
func (s Scenario) PayloadOf(sys System) int {
	if sys.PayloadBytes > 0 {
		return sys.PayloadBytes
	}
	return s.PayloadBytes
}
