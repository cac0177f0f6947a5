package plots

import (
	"slices"

	"kafkalab/results/resultfile"
)

// Quantity is something that was measured of each attempt, or follows from
// what was.
type Quantity string

// The quantities. Unit gives their units.
const (
	MessageRate   Quantity = "message rate"   // the headline
	LogRate       Quantity = "log rate"       // in bytes of the system's own message format
	LinkShare     Quantity = "share of link"  // log rate over the link's TCP goodput in the same direction
	StoreOverhead Quantity = "store overhead" // disk space taken for a message, without its payload
	StoreBytes    Quantity = "store bytes"    // disk space taken for a message
	WireBytes     Quantity = "wire bytes"     // what the sending host gave to the test network for a message
	DiskWrites    Quantity = "disk writes"    // what the broker's processes gave to the disk for a message
	ResidentShare Quantity = "resident share" // the broker's resident memory over the payload that went through it
	BrokerCPU     Quantity = "broker CPU"     // of the broker's processes for a message
	DailyMessages Quantity = "messages a day" // the headline, held for a day
)

// quantities holds for each of them its unit ("" for a share) and how it is
// found; ok is false where it is not known.
var quantities = map[Quantity]struct {
	unit string
	of   func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (v float64, ok bool)
}{
	MessageRate: {"messages/s", ofAttempt(rate)},
	LogRate:     {"B/s", ofAttempt(logRate)},
	LinkShare: {"", func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := logRate(a)
		goodput := linkMbps(r, s) * 1e6 / 8
		if !ok || goodput <= 0 {
			return 0, false
		}
		return v / goodput, true
	}},
	StoreOverhead: {"B/message", func(_ *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := storeBytes(a)
		return v - float64(s.PayloadBytes), ok
	}},
	StoreBytes: {"B/message", ofAttempt(storeBytes)},
	WireBytes:  {"B/message", wireBytes},
	DiskWrites: {"B/message", func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := diskWrites(a)
		return v / float64(a.Messages), ok
	}},
	ResidentShare: {"", func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := residentBytes(a)
		return v / float64(a.PayloadBytes), ok && a.PayloadBytes > 0
	}},
	BrokerCPU: {"µs/message", ofAttempt(brokerMicros)},
	DailyMessages: {"messages/day", func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		return a.MessagesPerSecond() * 86_400, true
	}},
}

func ofAttempt(of func(resultfile.Attempt) (float64, bool)) func(*resultfile.Result, resultfile.Scenario, resultfile.Attempt) (float64, bool) {
	return func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) { return of(a) }
}

// Known says whether there is such a quantity.
func (q Quantity) Known() bool {
	_, ok := quantities[q]
	return ok
}

// Unit is the quantity's unit, "" for a share.
func (q Quantity) Unit() string { return quantities[q].unit }

// Values returns a quantity of every valid attempt of a system for which it is
// known, in the order of the run. Systems and scenarios that the run has not
// have none.
func Values(r *resultfile.Result, scenario, system string, q Quantity) []float64 {
	i := slices.IndexFunc(r.Run.Scenarios, func(s resultfile.Scenario) bool { return s.Name == scenario })
	if i < 0 {
		return nil
	}
	s := r.Run.Scenarios[i]
	j := slices.IndexFunc(s.Systems, func(y resultfile.System) bool { return y.ID == system })
	if j < 0 {
		return nil
	}
	return valuesOf(validAttempts(r, s, s.Systems[j]), func(a resultfile.Attempt) (float64, bool) {
		return quantities[q].of(r, s, a)
	})
}

// OfLimit returns the share of the physical limit that a system of a run
// reaches, 1 for all of it, as the table of rates shows it; nil if it is not
// known.
func OfLimit(r *resultfile.Result, scenario, system string) *Ratio {
	for _, t := range RatesOf(r) {
		for _, y := range t.Systems {
			if t.Scenario == scenario && y.System == system {
				return y.OfLimit
			}
		}
	}
	return nil
}

// linkMbps is the link's goodput in the direction of the messages.
func linkMbps(r *resultfile.Result, s resultfile.Scenario) float64 {
	if s.Work == resultfile.Consume {
		return r.Run.Testbed.LinkReverseGoodputMbps
	}
	return r.Run.Testbed.LinkGoodputMbps
}

// wireBytes is what the host that sends the messages has given to the device
// of the test network, from the first sample to the last. Both stand at the
// ends of the measured phase. Packets are counted as they are handed over,
// before the device cuts them into frames, with the headers that they have then.
func wireBytes(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
	host := r.Run.Testbed.ClientHost.Name
	messages := a.ClientMessages
	if s.Work == resultfile.Consume {
		host, messages = r.Run.Testbed.BrokerHost.Name, a.Messages
	}
	samples := slices.DeleteFunc(slices.Clone(r.Samples(a.ID)), func(x resultfile.Sample) bool { return x.Host != host })
	if len(samples) < 2 || messages == 0 {
		return 0, false
	}
	sent := samples[len(samples)-1].NetTxBytes - samples[0].NetTxBytes
	return float64(sent) / float64(messages), sent > 0
}

// RatioOf returns how many times the values of a are those of b, nil when one
// of them has none or is not above 0.
func RatioOf(a, b []float64) *Ratio {
	r := ratio(Summarise(a), Summarise(b))
	if r == nil || slices.Min(a) <= 0 {
		return nil
	}
	r.Low, r.High = ratioInterval(a, b)
	return r
}
