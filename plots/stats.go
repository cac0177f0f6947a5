package plots

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// confidence of the intervals and alpha of the comparisons.
const (
	confidence = 0.95
	alpha      = 0.05
)

// Summary is what is said of a quantity that was measured several times.
type Summary struct {
	N      int     `json:"n"` // measurements; with 0 the rest means nothing
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Low and High bound the median with a confidence of at least 95 %, by
	// order statistics, so without an assumption on how the measurements are
	// spread. They are nil when there are too few measurements for that, which
	// is below 6.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

// Summarise summarises measurements. It does not change them.
func Summarise(values []float64) Summary {
	s := Summary{N: len(values)}
	if s.N == 0 {
		return s
	}
	values = slices.Clone(values)
	sample := benchmath.NewSample(values, &benchmath.DefaultThresholds) // sorts
	s.Median, s.Min, s.Max = median(values), values[0], values[s.N-1]
	sum := benchmath.AssumeNothing.Summary(sample, confidence)
	if s.N > 1 && !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		s.Low, s.High = &sum.Lo, &sum.Hi
	}
	return s
}

// median of sorted values; of an even number it is the mean of the middle two.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Ratio is a quantity of one system over that of another.
type Ratio struct {
	Median float64 `json:"median"` // of the medians
	// Min and Max are the lowest and the highest that any two of the
	// measurements give: no pair of repetitions lies outside.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Low and High bound the ratio with a confidence of at least 95 %, without
	// an assumption on how the measurements are spread but that both series have
	// the same shape on a logarithmic scale. They are nil below 6 measurements
	// of either, and where only RatioOf computes them.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

func (r *Ratio) hasInterval() bool { return r != nil && r.Low != nil }

// intervalNote says what stands behind a ratio where there are intervals.
const intervalNote = "with the 95 % interval where both have 6 repetitions and more, else with the lowest and the highest that any two repetitions give"

// ratioInterval is the interval that belongs to the Mann-Whitney U test: of the
// ratios of all pairs, in order, as many are cut off at either end as the test
// takes for chance.
func ratioInterval(a, b []float64) (low, high *float64) {
	if len(a) < intervalNeeds || len(b) < intervalNeeds {
		return nil, nil
	}
	var ratios []float64
	for _, x := range a {
		for _, y := range b {
			ratios = append(ratios, x/y)
		}
	}
	slices.Sort(ratios)
	cut := chanceBelow(len(a), len(b), (1-confidence)/2)
	return &ratios[cut], &ratios[len(ratios)-1-cut]
}

// intervalNeeds is the fewest measurements that give an interval of a median.
const intervalNeeds = 6

// mostExact is the most pairs of which the orders are counted, which takes the
// square of their number in time.
const mostExact = 10_000

// chanceBelow is the critical value of the U statistic: the greatest u that it
// does not exceed with a probability of more than p, if both series are alike.
// So many of the pairs' ratios lie outside of the interval at one end.
func chanceBelow(n, m int, p float64) int {
	if n*m > mostExact {
		// Of so many, u is spread as a normal distribution to far less than a step.
		deviation := math.Sqrt(float64(n) * float64(m) * float64(n+m+1) / 12)
		quantile := math.Sqrt2 * math.Erfinv(1-2*p)
		return max(int(math.Floor(float64(n)*float64(m)/2-quantile*deviation-0.5)), 0)
	}
	// ways[i][u]: so many orders of i of the first series and j of the second
	// have u pairs in which the first is the greater, for j from 0 to m.
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
		ways[i][0] = 1 // j = 0
	}
	for j := 1; j <= m; j++ {
		for i := 1; i <= n; i++ { // the greatest is of the first (it beats all j), or of the second
			for u := n * m; u >= 0; u-- {
				if u >= j {
					ways[i][u] += ways[i-1][u-j]
				}
			}
		}
	}
	total, below := 0.0, 0.0
	for _, w := range ways[n] {
		total += w
	}
	for k, w := range ways[n] {
		if below+w > p*total {
			return max(k-1, 0)
		}
		below += w
	}
	return 0
}

// ratio returns a over b, or nil when one of them was not measured.
func ratio(a, b Summary) *Ratio {
	if a.N == 0 || b.N == 0 || b.Min <= 0 {
		return nil
	}
	return &Ratio{Median: a.Median / b.Median, Min: a.Min / b.Max, Max: a.Max / b.Min}
}

// verdict says whether two series of measurements differ beyond noise, by the
// Mann-Whitney U test.
func verdict(a, b []float64) (p float64, text string) {
	switch {
	case len(a) == 0 && len(b) == 0:
		return 1, "not measured"
	case len(a) == 0 || len(b) == 0:
		return 1, "measured in one only"
	}
	c := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds),
		benchmath.NewSample(slices.Clone(b), &benchmath.DefaultThresholds))
	switch {
	case c.P <= alpha:
		return c.P, "differs"
	case lowestP(len(a), len(b)) > alpha:
		return c.P, tooFew
	default:
		return c.P, noDifference
	}
}

// The verdicts on two series that are not known to differ. tooFew is for those
// that are too short for any difference to show, and enoughNote says what is
// enough: 4 of each, as two of the 70 ways to choose 4 of 8 are less than 5 %.
const (
	noDifference = "no difference beyond noise"
	tooFew       = "too few repetitions to say"
	enoughNote   = "Too few repetitions to say: the runs have too few of them for any difference to be beyond noise; 4 valid ones of both are enough (REPEAT=4)."
)

// lowestP is what the test gives when all of one series lie below all of the
// other: two of the ways to choose n of n+m places.
func lowestP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= n; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2 / ways
}
