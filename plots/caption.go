package plots

import (
	"fmt"
	"slices"
	"strings"

	"kafkalab/results/resultfile"
)

// caption says under a figure of rates over data what must be known to judge
// it: where, with what, how often, and from which run.
func caption(r *resultfile.Result, s resultfile.Scenario, v view) []string {
	lines := " Lines: rate in equal windows of data"
	if r.Run.Repeat > 1 {
		lines += ", median over the repetitions; bands: lowest to highest"
	}
	if slices.ContainsFunc(s.Systems, func(y resultfile.System) bool { return y.Role == resultfile.RoleLimit }) {
		lines += "; dashed grey: median of the physical limit; thin grey: its course"
	}
	return captionOf(r, s, v, lines+".")
}

// captionOf is the caption of a figure of any kind; lines says what is drawn,
// with a space before it.
func captionOf(r *resultfile.Result, s resultfile.Scenario, v view, lines string) []string {
	run := r.Run
	work := fmt.Sprintf("%s, %s.", amounts(run, s, v), plural(run.Repeat, "repetition"))
	work += heldTo(run, s, v) + lines
	if n, load := busyAttempts(r, s, v); n > 0 {
		work += fmt.Sprintf(" The machine was busy with other work before %s (load %.1f at most).", plural(n, "attempt"), load)
	}
	if s.Chart != "" && s.Chart != resultfile.OverData && slices.ContainsFunc(s.Systems, func(y resultfile.System) bool { return y.Role == resultfile.RoleAlso }) {
		work += " (also measured): none of the systems that the paper compared."
	}
	out := []string{work}
	for _, line := range []string{
		linkLine(r.Run.Testbed, s), briefLine(r, s, v.shows),
		paceLine(r, s), boundsLine(r, s, v.shows), ceilingLine(r, s, v.shows), countsLine(r, s, v.shows), differencesLine(s, v), hostsLine(run.Testbed), versionsLine(s, v),
	} {
		if line != "" {
			out = append(out, line)
		}
	}
	out = append(out, fmt.Sprintf("Run %s of %s, commit %s.", run.Name, run.Started.UTC().Format("2 January 2006"), shortCommit(run.Commit)))
	for i := range out {
		out[i] = plain(out[i])
	}
	return out
}

// amounts says how many messages of which size an attempt is of; where the
// systems differ, from the least to the most.
func amounts(run resultfile.Run, s resultfile.Scenario, v view) string {
	var messages, payloads []float64
	for _, y := range s.Systems {
		if !v.shows(y) {
			continue
		}
		n := run.Messages
		if y.Messages > 0 {
			n = y.Messages
		}
		messages, payloads = append(messages, float64(n)), append(payloads, float64(payloadOf(s, y.ID)))
	}
	if len(messages) == 0 {
		messages, payloads = []float64{float64(run.Messages)}, []float64{float64(s.PayloadBytes)}
	}
	fromTo := func(values []float64) string {
		lo, hi := slices.Min(values), slices.Max(values)
		if lo == hi {
			return number(lo)
		}
		return number(lo) + " to " + number(hi)
	}
	of := "messages"
	if slices.Max(messages) == 1 {
		of = "message"
	}
	return fmt.Sprintf("%s %s of %s bytes asked for in each repetition", fromTo(messages), of, fromTo(payloads))
}

// spreadText says what stands around a median, by the repetitions of the
// systems shown: "95 % interval", "lowest to highest", or each where it can be.
func spreadText(r *resultfile.Result, s resultfile.Scenario) string {
	enough, few := 0, 0
	for _, y := range s.Systems {
		switch n := len(validAttempts(r, s, y)); {
		case n >= intervalNeeds:
			enough++
		case n > 0:
			few++
		}
	}
	switch {
	case enough > 0 && few > 0:
		return fmt.Sprintf("95 %% interval, and of systems with fewer than %d repetitions the lowest to the highest", intervalNeeds)
	case enough > 0:
		return "95 % interval"
	}
	return fmt.Sprintf("lowest to highest, since fewer than %d repetitions are too few for an interval", intervalNeeds)
}

// linkLine says what the link was where the scenario asked for one without a
// rate; "" where it did not.
func linkLine(t resultfile.Testbed, s resultfile.Scenario) string {
	switch s.Link {
	case resultfile.LinkUnshaped:
		line := "Link: not held to a rate while this was measured"
		if forth, back := goodputs(t, s); forth > 0 {
			line += fmt.Sprintf(" (TCP goodput before the run: %s Mbit/s from client to broker, %s back)", Rounded(forth), Rounded(back))
		}
		return line + "."
	case resultfile.LinkAsItIs:
		return "Link: asked for without a rate; that of this testbed is what it is."
	}
	return ""
}

// paceLine names the systems that did not reach the rate that was planned for
// them, so that their latencies are those of a system that cannot follow; "" if
// there is none.
func paceLine(r *resultfile.Result, s resultfile.Scenario) string {
	if s.Work != resultfile.Stream {
		return ""
	}
	var slow []string
	for _, y := range s.Systems {
		if reached := Summarise(RateAchieved.valuesIn(r, s, y)); reached.N > 0 && reached.Median < paceIsLimit {
			slow = append(slow, fmt.Sprintf("%s (%s)", y.Label, Show(RateAchieved, reached.Median)))
		}
	}
	if len(slow) == 0 {
		return ""
	}
	return fmt.Sprintf("Below %.0f %% of the planned rate: %s.", 100*paceIsLimit, strings.Join(slow, "; "))
}

// differencesLine says in which settings the systems of a figure differ that
// the comparison rests on; "" if they do not, or nothing was read of them.
func differencesLine(s resultfile.Scenario, v view) string {
	drawn := s
	drawn.Systems = slices.DeleteFunc(slices.Clone(s.Systems), func(y resultfile.System) bool { return !v.shows(y) })
	differences := contractDifferences(drawn)
	if len(differences) == 0 {
		return ""
	}
	return "Settings that differ: " + strings.Join(differences, " ")
}

// leastMeasured is how long, in seconds, an attempt must last to measure anything:
// below that connections that start and counts that come late are a large part.
const leastMeasured = 1.0

// briefLine names the systems whose attempts are too short to measure anything;
// "" if there are none.
func briefLine(r *resultfile.Result, s resultfile.Scenario, shown func(resultfile.System) bool) string {
	if s.Work == resultfile.Rebalance || s.Work == resultfile.Crash || s.Work == resultfile.Pipeline {
		return "" // their seconds are no measurement
	}
	var brief []resultfile.System
	others := false
	for _, y := range s.Systems {
		if !shown(y) {
			continue
		}
		seconds := summaryOf(validAttempts(r, s, y), func(a resultfile.Attempt) (float64, bool) { return a.Seconds, true })
		switch {
		case seconds.N == 0:
		case seconds.Median < leastMeasured:
			brief = append(brief, y)
		default:
			others = true
		}
	}
	const say = "Attempts shorter than 1 s are a look at the path, no measurement"
	switch {
	case len(brief) == 0:
		return ""
	case !others:
		return say + ": all of these are."
	}
	return fmt.Sprintf("%s: %s.", say, listed(s, brief, func([]resultfile.System) string { return "" }))
}

// emulatedMark is the label of figures that were not measured on two machines.
func emulatedMark(t resultfile.Testbed) string {
	switch {
	case t.Kind == "local":
		return "one machine, no link"
	case t.Emulated:
		return "emulated"
	}
	return ""
}

// busyAttempts counts the drawn attempts that other work on the machine may
// have slowed, and the highest load of it, in processors.
func busyAttempts(r *resultfile.Result, s resultfile.Scenario, v view) (n int, load float64) {
	for _, y := range s.Systems {
		if !v.shows(y) {
			continue
		}
		for _, a := range validAttempts(r, s, y) {
			if a.OtherLoad > 0 {
				n, load = n+1, max(load, a.OtherLoad)
			}
		}
	}
	return n, load
}

// heldTo says how long a repetition may send or consume. Until the last message
// has arrived and all are verified it takes longer.
func heldTo(run resultfile.Run, s resultfile.Scenario, v view) string {
	if run.CapSeconds > 0 {
		if s.Work == resultfile.Rebalance || s.Work == resultfile.Stream || s.Work == resultfile.Pipeline {
			return "" // they last as long as they are planned to
		}
		verb := "sends"
		if s.Work == resultfile.Consume {
			verb = "consumes"
		}
		return fmt.Sprintf(" None %s for longer than %s s.", verb, number(run.CapSeconds))
	}
	var labels []string
	for _, y := range s.Systems {
		if y.Capped && v.shows(y) {
			labels = append(labels, y.Label)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return " Held to a time of their own: " + strings.Join(labels, "; ") + "."
}

// hostsLine says in one sentence where the run took place, and says plainly
// when the two hosts are one machine.
func hostsLine(t resultfile.Testbed) string {
	var b strings.Builder
	switch {
	case t.Kind == "local": // emulated too, but nothing separates the two
		fmt.Fprintf(&b, "Hosts: client and broker run on one machine without a link of their own (%s)", hostFacts(t.BrokerHost))
	case t.Emulated && t.Kind == "ssh":
		fmt.Fprintf(&b, "Hosts: emulated; client and broker are reached by ssh and share one machine (%s)", hostFacts(t.BrokerHost))
	case t.Emulated:
		fmt.Fprintf(&b, "Hosts: emulated; client and broker are network namespaces that share one machine (%s)", hostFacts(t.BrokerHost))
	case hostFacts(t.ClientHost) == hostFacts(t.BrokerHost):
		fmt.Fprintf(&b, "Hosts: two machines, %s and %s (each %s)", t.ClientHost.Name, t.BrokerHost.Name, hostFacts(t.BrokerHost))
	default:
		fmt.Fprintf(&b, "Hosts: two machines, client %s (%s) and broker %s (%s)", t.ClientHost.Name, hostFacts(t.ClientHost), t.BrokerHost.Name, hostFacts(t.BrokerHost))
	}
	if w, r := t.BrokerHost.Fact("sequential write"), t.BrokerHost.Fact("sequential read"); w != "" && r != "" {
		fmt.Fprintf(&b, "; the broker's disk: writes %s, reads %s", w, r)
	}
	if t.LinkGoodputMbps > 0 {
		way := "link"
		if t.Kind == "local" {
			way = "in the place of a link the machine's loopback"
		}
		fmt.Fprintf(&b, "; %s: %.0f Mbit/s of TCP goodput from client to broker, %.0f back", way, t.LinkGoodputMbps, t.LinkReverseGoodputMbps)
	}
	return b.String() + "."
}

// hostFacts lists the facts that fit a caption.
func hostFacts(h resultfile.Host) string {
	var parts []string
	for _, f := range []struct{ name, format string }{
		{"processor", "%s"}, {"cores", "%s cores"}, {"memory", "%s of memory"}, {"kernel", "%s"}, {"RAID", "disk %s"},
	} {
		if v := h.Fact(f.name); v != "" {
			parts = append(parts, fmt.Sprintf(f.format, v))
		}
	}
	if len(parts) == 0 {
		return "not described"
	}
	return strings.Join(parts, ", ")
}

// versionsLine names the version of each driver's system that is drawn once.
func versionsLine(s resultfile.Scenario, v view) string {
	var parts []string
	for _, y := range s.Systems {
		if y.Role == resultfile.RoleLimit || !v.shows(y) {
			continue
		}
		for _, set := range y.Settings {
			if set.Row != "version" || set.Value == "" {
				continue
			}
			v := set.Value
			if !strings.Contains(strings.ToLower(v), y.Driver) {
				v = y.Driver + ": " + v
			}
			if !slices.Contains(parts, v) {
				parts = append(parts, v)
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Versions: " + strings.Join(parts, "; ") + "."
}

// shortCommit cuts each commit of a run to the length that people read, and keeps
// the mark of a tree with changes.
func shortCommit(c string) string {
	all := strings.Split(c, resultfile.ThenCommit)
	for i := range all {
		all[i] = shortOne(all[i])
	}
	return strings.Join(all, resultfile.ThenCommit)
}

func shortOne(c string) string {
	hash, changes, changed := strings.Cut(c, "+")
	if len(hash) > 12 {
		hash = hash[:12]
	}
	switch {
	case hash == "":
		return "unknown"
	case changed:
		return hash + "+" + changes
	}
	return hash
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(float64(n)) + " " + what + "s"
}
