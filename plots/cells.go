package plots

import (
	"fmt"
	"strconv"
	"strings"
)

// Cells of the tables. What was not measured is a dash.
const unknown = "–"

// tripled is a median to three digits.
func tripled(s Summary) string {
	if s.N == 0 {
		return unknown
	}
	return number(roundTo3(s.Median))
}

// span is the lowest and the highest of several measurements.
func span(s Summary) string {
	if s.N < 2 {
		return unknown
	}
	return number(roundTo3(s.Min)) + " .. " + number(roundTo3(s.Max))
}

func interval(s Summary) string {
	if s.Low == nil {
		return "too few"
	}
	return number(roundTo3(*s.Low)) + " .. " + number(roundTo3(*s.High))
}

func decimals(s Summary, places int) string {
	if s.N == 0 {
		return unknown
	}
	if s.Median >= 1000 {
		return number(s.Median)
	}
	return strconv.FormatFloat(s.Median, 'f', places, 64)
}

func megabytes(s Summary) string {
	if s.N == 0 {
		return unknown
	}
	return number(roundTo3(s.Median / megabyte))
}

func percent(r *Ratio) string {
	if r == nil {
		return unknown
	}
	return strconv.FormatFloat(100*r.Median, 'f', 1, 64) + " %"
}

// times is a ratio with its interval, or its range, if it has one.
func times(r *Ratio) string {
	if r == nil {
		return unknown
	}
	if r.hasInterval() {
		return fmt.Sprintf("%s (%s .. %s)", factor(r.Median), factor(*r.Low), factor(*r.High))
	}
	if r.Min == r.Max { // of one repetition each
		return factor(r.Median)
	}
	return fmt.Sprintf("%s (%s .. %s)", factor(r.Median), factor(r.Min), factor(r.Max))
}

// timesIn is a ratio of a quantity with a word on which is the greater, where
// the interval allows one.
func timesIn(r *Ratio, q Quantity) string {
	text := times(r)
	if word := wordOn(r, q); word != "" {
		text += ", " + word
	}
	return text
}

// wordOn says which of two is the greater, "" where there is no interval that
// would say so.
func wordOn(r *Ratio, q Quantity) string {
	more, less := "more", "less"
	switch q {
	case MessageRate, DataRate, LogRate, SlowestConsumer:
		more, less = "faster", "slower"
	case LatencyP50, LatencyP90, LatencyP99, LatencyP999, latencyMax, RestartTime, SettleTime, SettleTimeLongest, SettleAfterKill:
		more, less = "slower", "faster"
	}
	switch {
	case !r.hasInterval():
		return ""
	case *r.Low > 1:
		return more
	case *r.High < 1:
		return less
	}
	return noDifference
}

// shorted is a median in units of factor.
func shorted(s Summary, factor float64) string {
	if s.N == 0 {
		return unknown
	}
	return short(s.Median / factor)
}

func factor(v float64) string {
	switch {
	case v >= 100:
		return number(v)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v > 0 && v < 0.1: // to two digits
		return short(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// firstOf cuts a long reason at its first sentence or clause.
func firstOf(reason string) string {
	const most = 60
	if i := strings.IndexAny(reason, ";\n"); i >= 0 {
		reason = reason[:i]
	}
	if r := []rune(reason); len(r) > most {
		return string(r[:most]) + "…"
	}
	return reason
}
