package plots

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// logFactor is by how much systems must differ for a logarithmic axis.
const logFactor = 20

// niceCeil is the next round number that is not below v (> 0): a good end for
// an axis from 0.
func niceCeil(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// linearTicks are ticks from 0 to max, four to nine of them.
func linearTicks(max float64) []plot.Tick {
	if !(max > 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(max)))
	for _, m := range []float64{2, 2.5, 2, 2.5} { // 1, 0.5, 0.2, 0.1, 0.05
		if max/step >= 4-1e-9 {
			break
		}
		step /= m
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= max*(1+1e-9); i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return ticks
}

// logBounds widens a range (0 < min <= max) to 1, 2 or 5 times a power of ten,
// with a little room above for labels.
func logBounds(min, max float64) (float64, float64) {
	lo, hi := math.Pow(10, math.Floor(math.Log10(min))), math.Pow(10, math.Ceil(math.Log10(max)))
	for _, m := range []float64{2, 5} {
		if lo0 := math.Pow(10, math.Floor(math.Log10(min))) * m; lo0 <= min {
			lo = lo0
		}
	}
	base := math.Pow(10, math.Floor(math.Log10(max)))
	for _, m := range []float64{5, 2, 1} {
		if base*m >= max {
			hi = base * m
		}
	}
	if hi == lo {
		hi *= 2
	}
	// At the ends of what numbers there are.
	return math.Max(lo, math.SmallestNonzeroFloat64), math.Min(hi, math.MaxFloat64)
}

// logTicks are labelled ticks at powers of ten, and at 2 and 5 times them
// when there are few, and small ones between.
func logTicks(min, max float64) []plot.Tick {
	var ticks []plot.Tick
	few := max/min < 1e3
	// Neither 0 nor what lies behind the largest number grows any more.
	for power := math.Pow(10, math.Floor(math.Log10(min))); power > 0 && power <= max*(1+1e-9) && !math.IsInf(power, 1); power *= 10 {
		for m := 1.0; m <= 9; m++ {
			v := power * m
			if v < min*(1-1e-9) || v > max*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || few && (m == 2 || m == 5) {
				t.Label = number(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// number writes a number from 0 for people: thousands apart by commas, and
// decimals only below 100.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v < 0:
		return "-" + number(-v)
	case v < 10 && v != math.Trunc(v):
		return trimZeros(strconv.FormatFloat(v, 'f', 2, 64))
	case v < 100 && v != math.Trunc(v):
		return trimZeros(strconv.FormatFloat(v, 'f', 1, 64))
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// roundTo3 rounds to three digits, as far as a rate measured on a busy machine
// means anything.
func roundTo3(v float64) float64 {
	if !(v > 0) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return math.Round(v/unit) * unit
}
