package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// Verdict is what the runs say of a claim, or of one check of it.
type Verdict string

// The verdicts.
const (
	Holds        Verdict = "holds"
	InPart       Verdict = "holds in part"
	Contradicted Verdict = "contradicted"
	NotTestable  Verdict = "not testable here"
	NotMeasured  Verdict = "not measured yet"
)

// verdicts in the order of a summary.
var verdicts = []Verdict{Holds, InPart, Contradicted, NotTestable, NotMeasured}

// Judged is a claim with its verdict.
type Judged struct {
	Claim
	Verdict Verdict
	Checks  []JudgedCheck // in the order of Claim.Checks
}

// JudgedCheck is a check with its verdict: that of the first finding. Real
// hosts count before emulated ones, then more repetitions, more messages, the
// later run.
type JudgedCheck struct {
	Check
	Verdict  Verdict
	Why      string // where the numbers do not say it
	Findings []Finding
	Passed   []Passed // runs that have the numbers and decide nothing all the same
}

// Passed is a run that is passed over, with the reason.
type Passed struct {
	Run *resultfile.Result
	Why string
}

// Finding is what one run says of a check.
type Finding struct {
	Run         *resultfile.Result
	Repetitions int     // valid ones; of a ratio those of the system with fewer
	Number      float64 // the statistic
	// Low and High are the 95 % interval if Interval is true, else the lowest
	// and the highest of the repetitions, or of any two of them for a ratio.
	Low, High float64
	Interval  bool
	// Minutes is over how many minutes of the one repetition the interval is,
	// with MinuteMedian as their median; 0 where it is over the repetitions.
	Minutes      int
	MinuteMedian float64
	OfLimit      *plots.Ratio // of a message rate: the share of the physical limit; nil if not known
	Verdict      Verdict
	Why          string
}

// Judge judges every claim by the runs, whose order does not matter.
func (c *Claims) Judge(runs []*resultfile.Result, scenarios map[string][]string) []Judged {
	out := make([]Judged, len(c.Claims))
	for i, claim := range c.Claims {
		out[i] = Judged{Claim: claim}
		for _, k := range claim.Checks {
			out[i].Checks = append(out[i].Checks, c.judge(k, runs, scenarios))
		}
		out[i].Verdict = together(out[i].Checks)
	}
	return out
}

// together makes the verdict of a claim of those of its checks, but for those
// that stand beside it.
func together(checks []JudgedCheck) Verdict {
	count, n := make(map[Verdict]int), 0
	for _, k := range checks {
		if !k.Beside {
			count[k.Verdict]++
			n++
		}
	}
	switch {
	case count[Holds] == n:
		return Holds
	case count[Holds]+count[InPart] > 0:
		return InPart
	case count[Contradicted] > 0:
		return Contradicted
	case count[NotMeasured] > 0:
		return NotMeasured
	}
	return NotTestable
}

// whyTrial says why a run decides nothing, whatever its size; "" if it may.
func whyTrial(run resultfile.Run) string {
	switch {
	case run.Testbed.Kind == "local":
		return "both halves ran on one machine without a link of their own"
	case run.Testbed.BrokerHost.Fact(resultfile.ShortLook) != "":
		return "the look at its hosts was too short to measure them (--look-time)"
	}
	return ""
}

func (c *Claims) judge(k Check, runs []*resultfile.Result, scenarios map[string][]string) JudgedCheck {
	j := JudgedCheck{Check: k, Verdict: NotMeasured}
	if k.measures() {
		least := cmp.Or(k.LeastMessages, c.LeastMessages)
		for _, r := range runs {
			f, ok := find(k, r)
			switch {
			case !ok:
			case whyTrial(r.Run) != "":
				j.Passed = append(j.Passed, Passed{r, whyTrial(r.Run)})
			case !k.fitsLink(r.Run.Testbed):
				j.Passed = append(j.Passed, Passed{r, fmt.Sprintf("its link has a goodput of %.0f Mb/s, and the claim is about one of %.0f Mb/s", r.Run.Testbed.LinkGoodputMbps, k.LinkMbps)})
			case asked(k, r) < least:
				j.Passed = append(j.Passed, Passed{r, fmt.Sprintf("it asked for %s messages in an attempt, and %s are wanted", plots.Whole(asked(k, r)), plots.Whole(least))})
			default:
				j.Findings = append(j.Findings, f)
			}
		}
		slices.SortFunc(j.Findings, betterFirst)
		slices.SortFunc(j.Passed, func(a, b Passed) int { return strings.Compare(a.Run.Run.Name, b.Run.Run.Name) })
	}
	switch _, built := scenarios[k.Scenario]; {
	case k.NotTestable != "":
		j.Verdict, j.Why = NotTestable, k.NotTestable
	case len(j.Findings) > 0:
		j.Verdict, j.Why = j.Findings[0].Verdict, j.Findings[0].Why
	case k.NotBuilt && !built:
		j.Why = fmt.Sprintf("waits for the scenario %s, which is not built yet", k.Scenario)
	case k.NotBuilt:
		j.Why = fmt.Sprintf("the scenario %s is there, but not yet what in it decides the claim", k.Scenario)
	default:
		systems := k.measured()
		last := len(systems) - 1
		names := systems[last]
		if last > 0 {
			names = strings.Join(systems[:last], ", ") + " and " + names
		}
		j.Why = fmt.Sprintf("waits for a run of the scenario %s with valid attempts of %s", k.Scenario, names)
	}
	return j
}

// fitsLink says whether a testbed's link is of the rate that the claim is about.
func (k Check) fitsLink(t resultfile.Testbed) bool {
	return k.LinkMbps == 0 || t.LinkGoodputMbps >= 0.85*k.LinkMbps && t.LinkGoodputMbps <= k.LinkMbps
}

// betterFirst orders findings by how much they are worth.
func betterFirst(a, b Finding) int {
	emulated := func(f Finding) int {
		if f.Run.Run.Testbed.Emulated {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(emulated(a), emulated(b)),
		cmp.Compare(b.Repetitions, a.Repetitions),
		cmp.Compare(b.Run.Run.Messages, a.Run.Run.Messages),
		b.Run.Run.Started.Compare(a.Run.Run.Started),
		strings.Compare(b.Run.Run.Name, a.Run.Run.Name),
	)
}

// decide holds a finding against the claim's value. All of the interval, or of
// the range, must lie on its right side; beside an interval over the minutes of
// a run the run as a whole must, too, since a median does not show what fewer
// than half of them were.
func (k Check) decide(f Finding) (Verdict, string) {
	if f.Minutes > 0 {
		f.Low, f.High = min(f.Low, f.Number), max(f.High, f.Number)
	}
	least, most := k.Value*(1-k.Tolerance), k.Value*(1+k.Tolerance)
	switch k.Relation {
	case None:
		return onOneSide(f.Low == 0 && f.High == 0, f.Low > 0, f)
	case Some:
		return onOneSide(f.Low > 0, f.High == 0, f)
	case AtLeast:
		return onOneSide(f.Low >= k.Value, f.High < k.Value, f)
	case MoreThan:
		return onOneSide(f.Low > k.Value, f.High <= k.Value, f)
	case AtMost:
		return onOneSide(f.High <= k.Value, f.Low > k.Value, f)
	case About:
		further := f.Low > most
		if k.Quantity.LessIsBetter() && k.Statistic != MedianRatio { // a ratio says how much more a rival takes
			further = f.High < least
		}
		if further {
			return InPart, fmt.Sprintf("reached and exceeded, %s times the paper's number", plots.Factor(f.Number/k.Value))
		}
	}
	return onOneSide(f.Low >= least && f.High <= most, f.High < least || f.Low > most, f)
}

func onOneSide(right, wrong bool, f Finding) (Verdict, string) {
	switch {
	case right:
		return Holds, ""
	case wrong:
		return Contradicted, ""
	case f.Minutes > 0:
		return InPart, "the run and the interval over its minutes do not agree"
	case f.Interval:
		return InPart, "the interval does not tell"
	}
	return InPart, "the repetitions do not agree"
}
