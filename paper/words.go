package paper

import (
	"fmt"
	"strconv"
	"strings"

	"kafkalab/plots"
)

// split writes a number of a check, and its unit apart. Times, memory and rates
// of data come in the unit that fits the number.
func (k Check) split(v float64) (number, unit string) {
	unit = k.Quantity.Unit()
	switch {
	case k.Statistic == MedianRatio && k.looksLikeBorder(v):
		return strconv.FormatFloat(v, 'f', 4, 64), "times"
	case k.Statistic == MedianRatio:
		return plots.Factor(v), "times"
	case unit == "s" || unit == "B" || unit == "B/s":
		shown := plots.Show(k.Quantity, v)
		at := strings.LastIndexByte(shown, ' ')
		return shown[:at], shown[at+1:]
	case unit == "":
		return strconv.FormatFloat(100*v, 'f', 1, 64), "%"
	case v > 0 && v < 0.1: // a page in ten million messages is not nothing
		return strconv.FormatFloat(v, 'g', 2, 64), unit
	}
	return plots.Rounded(v), unit
}

// looksLikeBorder says whether a ratio would be written as one of the numbers at
// which the check's verdict changes, although it is not that.
func (k Check) looksLikeBorder(v float64) bool {
	for _, at := range []float64{k.Value, k.Value * (1 - k.Tolerance), k.Value * (1 + k.Tolerance)} {
		if k.measures() && v != at && plots.Factor(v) == plots.Factor(at) {
			return true
		}
	}
	return false
}

// HoldsIf says what must be measured for the check to hold.
func (k Check) HoldsIf() string {
	if !k.measures() || k.NotTestable != "" {
		return ""
	}
	value, unit := strconv.FormatFloat(k.Value, 'g', -1, 64), k.Quantity.Unit()
	switch {
	case k.Relation == None:
		return "it is 0"
	case k.Relation == Some:
		return "it is more than 0"
	case k.Statistic == MedianRatio:
		unit = "times"
	case unit == "":
		value, unit = strconv.FormatFloat(100*k.Value, 'g', 4, 64), "%"
	case unit == "s" || unit == "B" || unit == "B/s":
		value, unit = k.split(k.Value)
	case k.Value >= 1000:
		value = plots.Rounded(k.Value)
	}
	s := fmt.Sprintf("%s %s %s", k.Relation, value, unit)
	if k.Tolerance > 0 {
		s += fmt.Sprintf(", within %s %%", strconv.FormatFloat(100*k.Tolerance, 'g', 4, 64))
	}
	return s
}

// Measured is the number that a run gives.
func (k Check) Measured(f Finding) string {
	number, unit := k.split(f.Number)
	return number + " " + unit
}

// Spread says how far the number is to be trusted.
func (k Check) Spread(f Finding) string {
	low, lowUnit := k.split(f.Low)
	high, highUnit := k.split(f.High)
	if lowUnit != highUnit {
		low, high = low+" "+lowUnit, high+" "+highUnit
	}
	switch {
	case f.Minutes > 0:
		median, unit := k.split(f.MinuteMedian)
		if unit != lowUnit || unit != highUnit {
			median += " " + unit
		}
		return fmt.Sprintf("over the minutes of one run: median %s, 95 %% interval %s .. %s, %d minutes; of other runs it says nothing", median, low, high, f.Minutes)
	case f.Interval:
		return fmt.Sprintf("95 %% interval %s .. %s, %d repetitions", low, high, f.Repetitions)
	case f.Low == f.High && f.Repetitions == 1:
		return "1 repetition, too few for an interval"
	case f.Repetitions == 1: // of the other system there were more
		return fmt.Sprintf("lowest .. highest %s .. %s, 1 repetition of one of the two, too few for an interval", low, high)
	}
	return fmt.Sprintf("lowest .. highest %s .. %s, %d repetitions, too few for an interval", low, high, f.Repetitions)
}

// Short is a number in a summary, with what it is of, if there are several, and
// the finding that it comes from.
type Short struct {
	Of   string
	Text string
	Finding
}

// Numbers are those that the checks give, in short.
func (j Judged) Numbers() []Short {
	var out []Short
	for _, k := range j.Checks {
		if f := k.First(); f != nil && !k.Beside {
			out = append(out, Short{k.Short, k.Measured(*f), *f})
		}
	}
	return out
}

// Remark says what weakens a verdict: that too few repetitions stand behind a
// number of it, that they are the minutes of one run, or that there are numbers
// and they were passed over.
func (j Judged) Remark() string {
	remark := ""
	for _, k := range j.Checks {
		if j.Verdict == NotMeasured && len(k.Passed) > 0 && !k.Beside {
			return "passed over, since " + k.Passed[len(k.Passed)-1].Why
		}
		if f := k.First(); f != nil && !f.Interval && !k.Beside {
			return "fewer than six repetitions"
		} else if f != nil && f.Minutes > 0 && !k.Beside {
			remark = "with the interval over the minutes of one run"
		}
	}
	return remark
}

// Share is the share of the physical limit that a rate is, "" if that is not
// known or does not apply.
func (f Finding) Share() string {
	if f.OfLimit == nil {
		return ""
	}
	return strconv.FormatFloat(100*f.OfLimit.Median, 'f', 1, 64) + " % of the limit"
}

// First is the finding that decides the check, nil if there is none.
func (k JudgedCheck) First() *Finding {
	if len(k.Findings) == 0 {
		return nil
	}
	return &k.Findings[0]
}

// Others are the findings of the other runs.
func (k JudgedCheck) Others() []Finding {
	if len(k.Findings) == 0 {
		return nil
	}
	return k.Findings[1:]
}

// Aside says how much stands behind a finding, and which verdict it would give
// where that is not the one of the check.
func (k JudgedCheck) Aside(f Finding) string {
	words := fmt.Sprintf("%s of %s messages", repetitions(f.Repetitions), plots.Whole(asked(k.Check, f.Run)))
	if k.NotTestable == "" && f.Verdict != k.Verdict {
		words += ", " + string(f.Verdict)
	}
	return words
}

func repetitions(n int) string {
	if n == 1 {
		return "1 repetition"
	}
	return fmt.Sprintf("%d repetitions", n)
}

// Counts says how many claims have each verdict, in the order of a summary;
// verdicts that none has are left out.
func (r *Report) Counts() string { return counts(r.Claims) }

func counts(claims []Judged) string {
	var parts []string
	for _, v := range verdicts {
		n := 0
		for _, c := range claims {
			if c.Verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", v, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Decided lists the claims that have a verdict by a number, by their verdicts;
// "" if none has.
func (r *Report) Decided() string {
	var parts []string
	for _, v := range []Verdict{Holds, InPart, Contradicted} {
		var ids []string
		for _, c := range r.Claims {
			if c.Verdict == v {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", v, strings.Join(ids, " ")))
		}
	}
	return strings.Join(parts, "; ")
}

// method says how the verdicts are made.
const method = "A verdict follows from the valid attempts in the result folders by the rules in paper/claims.toml, and is never written by hand. " +
	"A check holds if the whole 95 % interval lies on the right side of the number; with fewer than six repetitions there is no interval, and everything from the lowest to the highest must. " +
	"A run too long to be repeated has its interval over the minutes of one run, where paper/claims.toml says so: of its one attempt cut into minutes, the first and the last left out, with six and more of them; the run as a whole must lie on the right side too. " +
	"Such an interval says how even that run was, as far as its minutes are independent of each other; of another run, day or machine it says nothing. " +
	"Of several runs, the number is that of the one that says most: two machines before emulated hosts, then more repetitions, more messages, and the later one; the others stand beside it. " +
	"What stands beside a claim (a rival at its documented best, a control) is judged by the same rules and makes no part of the claim's verdict. " +
	"A claim holds if all its checks do, is contradicted if none holds even in part and one is contradicted, and holds in part otherwise. " +
	"Absolute rates of two different machines are not to be compared: a rate beyond the paper's holds in part, since the paper's is reached. " +
	"What is not testable here, or not measured yet, waits or says why."

// readingNote says what may be skipped.
const readingNote = "The table of claims is the outcome. \"Numbers\" says for each claim what stands behind it. What follows the goals is there to be looked up: the tables of each run, in the order of their time."

// emulatedNote says what the label means.
const emulatedNote = "Runs marked \"emulated\" have both hosts on one machine, as network namespaces with a link held to its rate between them, or as two that ssh reaches: ratios say more than rates, and the broker's processor time for a message more than either. " +
	"Those marked \"one machine, no link\" had no link between the two, and decide nothing; nor does a run whose look at its hosts was too short to measure them."
