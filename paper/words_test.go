package paper

import (
	"testing"

	"kafkalab/plots"
)

// Numbers come in units that people read, and both ends of a spread say theirs
// where they differ.
func TestWordsOfNumbers(t *testing.T) {
	for _, c := range []struct {
		check                   Check
		f                       Finding
		measured, spread, holds string
	}{
		{Check{Quantity: plots.SettleTimeLongest, Statistic: Greatest, Relation: AtMost, Value: 8}, Finding{Number: 1.25, Low: 0.95, High: 2, Repetitions: 3},
			"1.25 s", "lowest .. highest 950 ms .. 2 s, 3 repetitions, too few for an interval", "at most 8 s"},
		{Check{Quantity: plots.DataRate, Statistic: Median, Relation: AtLeast, Value: 2.5e6}, Finding{Number: 23.1e6, Low: 23e6, High: 23.2e6, Interval: true, Repetitions: 6},
			"23.1 MB/s", "95 % interval 23 .. 23.2, 6 repetitions", "at least 2.5 MB/s"},
		{Check{Quantity: plots.GCShare, Statistic: Median, Relation: AtMost, Value: 0.05}, Finding{Number: 0.012, Low: 0.011, High: 0.013, Interval: true, Repetitions: 6},
			"1.2 %", "95 % interval 1.1 .. 1.3, 6 repetitions", "at most 5 %"},
		{Check{Quantity: plots.RepeatsClean, Statistic: Median, Relation: None}, Finding{Repetitions: 1},
			"0 messages", "1 repetition, too few for an interval", "it is 0"},
		{Check{Quantity: plots.IndexBytes, Statistic: Median, Relation: Some}, Finding{Number: 0.034, Low: 0.03, High: 0.04, Repetitions: 2},
			"0.034 B/message", "lowest .. highest 0.03 .. 0.04, 2 repetitions, too few for an interval", "it is more than 0"},
		{Check{Quantity: plots.BrokerSyscalls, Statistic: MedianRatio, Relation: MoreThan, Value: 1}, Finding{Number: 2.5, Low: 2, High: 3, Repetitions: 1},
			"2.50 times", "lowest .. highest 2.00 .. 3.00, 1 repetition of one of the two, too few for an interval", "more than 1 times"},
	} {
		if got := c.check.Measured(c.f); got != c.measured {
			t.Errorf("%s: %q, want %q", c.check.Quantity, got, c.measured)
		}
		if got := c.check.Spread(c.f); got != c.spread {
			t.Errorf("%s: %q, want %q", c.check.Quantity, got, c.spread)
		}
		if got := c.check.HoldsIf(); got != c.holds {
			t.Errorf("%s: %q, want %q", c.check.Quantity, got, c.holds)
		}
	}
}
