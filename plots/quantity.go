package plots

import (
	"math"
	"slices"

	"kafkalab/results/resultfile"
)

// Quantity is something that was measured of each attempt, or follows from
// what was.
type Quantity string

// The quantities. Unit gives their units.
const (
	MessageRate   Quantity = "message rate"   // the headline
	DataRate      Quantity = "data rate"      // the headline in bytes of payload
	LogRate       Quantity = "log rate"       // in bytes of the system's own message format
	LinkShare     Quantity = "share of link"  // log rate over the link's TCP goodput in the same direction
	StoreOverhead Quantity = "store overhead" // disk space taken for a message, without its payload
	StoreBytes    Quantity = "store bytes"    // disk space taken for a message
	WireBytes     Quantity = "wire bytes"     // what the sending host gave to the test network for a message
	DiskWrites    Quantity = "disk writes"    // what the broker's processes gave to the disk for a message
	ResidentShare Quantity = "resident share" // the broker's resident memory over the payload that went through it
	BrokerCPU     Quantity = "broker CPU"     // of the broker's processes for a message
	DailyMessages Quantity = "messages a day" // the headline, held for a day

	BrokerSyscalls  Quantity = "broker syscalls" // read and write calls of the broker's processes for a message
	DiskReads       Quantity = "disk reads"      // what the broker's processes had from the disk for a message
	GCShare         Quantity = "GC share"        // garbage collection's part of the broker's processor time
	ResidentPeak    Quantity = "resident peak"   // the most memory that the broker's processes held
	ResidentMemory  Quantity = "resident memory" // the same in numbers; over time what they held at each moment
	LatencyP50      Quantity = "latency p50"     // from the planned send time, as all latencies
	LatencyP90      Quantity = "latency p90"
	LatencyP99      Quantity = "latency p99"
	LatencyP999     Quantity = "latency p99.9"
	latencyMax      Quantity = "latency, largest"
	RateAchieved    Quantity = "rate achieved"    // over the rate that was planned
	SlowestConsumer Quantity = "slowest consumer" // of several at once
	ConsumedBeside  Quantity = "consumed beside"  // by all consumers beside a produce, of what was there before
	WireRate        Quantity = "wire rate"        // what the sending host gave to the test network, at the headline's rate
	OfFirstGB       Quantity = "of the first GB"  // log rate of all over that of the first 10^9 bytes
	OfDiskReads     Quantity = "of disk reads"    // log rate over the sequential rate at which the broker's disk was read before the run

	LogBytes      Quantity = "log bytes" // of the disk space taken for a message, the part of the log
	IndexBytes    Quantity = "index bytes"
	JournalBytes  Quantity = "journal bytes"
	MetadataBytes Quantity = "metadata bytes"
	OtherBytes    Quantity = "other bytes" // of no part that has a name

	LostUnpromised    Quantity = "lost unpromised" // sent, never acknowledged, and gone after a crash
	LostPromised      Quantity = "lost promised"   // acknowledged, and gone after a crash
	RestartTime       Quantity = "restart time"    // until a crashed broker takes requests again
	SettleTime        Quantity = "settle time"     // from a join or leave until each partition has an owner; the median of those of an attempt
	SettleTimeLongest Quantity = "settle time, longest"
	SettleAfterKill   Quantity = "settle time after a kill"    // the end of the killed one's session included
	RebalanceTries    Quantity = "rebalance tries"             // the most that one consumer made for one join or leave
	QuietRequests     Quantity = "quiet requests"              // of ZooKeeper while nobody joins or leaves
	QuietCommits      Quantity = "quiet commits"               // commits of offsets, which are none of those
	QuietProofs       Quantity = "quiet proofs"                // of the session, which are neither
	DelayLive         Quantity = "delay to live"               // of a pipeline: from the making of a message until the first cluster hands it out; the median
	DelayReplica      Quantity = "delay to replica"            // the same to the replica cluster
	DelayLoad         Quantity = "delay to load"               // and to the output of the load
	DelayLoadMean     Quantity = "mean delay to load"          // the mean of the same
	DelayLoadP99      Quantity = "delay to load p99"           //
	AuditMissing      Quantity = "audit missing"               // messages that the audit misses, in the tier that misses most
	AuditDoubled      Quantity = "audit doubled"               // that it has twice
	AuditUnreported   Quantity = "audit unreported"            // that no monitoring event speaks of
	AuditWrong        Quantity = "audit wrong"                 // missing and doubled by the audit beyond what really is, or short of it, over all tiers
	AuditBeyond       Quantity = "audit missing, not left out" // missing by the audit, beyond or short of what was left out on purpose
	RepeatsClean      Quantity = "repeats after clean ends"
	RepeatsUnclean    Quantity = "repeats after unclean ends"
	RepeatsBeyond     Quantity = "repeats beyond the uncommitted" // of those after unclean ends; 0 is what is promised
)

// quantity is what there is to know of a Quantity.
type quantity struct {
	unit  string // "" for a share
	title string // of an axis, without the unit
	less  bool   // less of it is better
	of    func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (v float64, ok bool)
}

// quantities holds all of them; of says with ok false that it is not known.
var quantities = map[Quantity]quantity{
	MessageRate: {unit: perSecond, title: "Messages per second", of: ofAttempt(rate)},
	DataRate:    {unit: bytesPerSecond, title: "Payload per second", of: ofAttempt(dataRate)},
	LogRate:     {unit: bytesPerSecond, title: "Log bytes per second", of: ofAttempt(logRate)},
	LinkShare: {title: "Share of the link's goodput", of: func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := logRate(a)
		goodput := linkMbps(r, s) * 1e6 / 8
		if !ok || goodput <= 0 {
			return 0, false
		}
		return v / goodput, true
	}},
	StoreOverhead: {unit: perMessage, title: "Disk space beyond the payload", less: true, of: func(_ *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := storeBytes(a)
		return v - float64(payloadOf(s, a.System)), ok
	}},
	StoreBytes: {unit: perMessage, title: "Disk space", less: true, of: ofAttempt(storeBytes)},
	WireBytes:  {unit: perMessage, title: "Bytes given to the network", less: true, of: wireBytes},
	DiskWrites: {unit: perMessage, title: "Bytes written to the disk", less: true, of: func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := diskWrites(a)
		return v / float64(a.Messages), ok
	}},
	ResidentShare: {title: "Broker's memory over the payload", less: true, of: func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := residentBytes(a)
		return v / float64(a.PayloadBytes), ok && a.PayloadBytes > 0
	}},
	BrokerCPU: {unit: "µs/message", title: "Broker's processor time", less: true, of: ofAttempt(brokerMicros)},
	DailyMessages: {unit: "messages/day", title: "Messages a day", of: func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		return a.MessagesPerSecond() * 86_400, true
	}},

	BrokerSyscalls: {unit: "1/message", title: "Broker's read and write calls", less: true, of: aMessage("broker_syscalls")},
	DiskReads:      {unit: perMessage, title: "Bytes read from the disk", less: true, of: aMessage("broker_disk_read_bytes")},
	GCShare:        {title: "Garbage collection's share of the broker's processor time", less: true, of: ofAttempt(gcShare)},
	ResidentPeak:   {unit: "B", title: "Broker's memory, at most", less: true, of: measure("broker_resident_peak_bytes")},
	ResidentMemory: {unit: "B", title: "Broker's memory, at most", less: true, of: measure("broker_resident_peak_bytes")},
	LatencyP50:     {unit: "s", title: "Latency, median", less: true, of: latency("latency_p50_seconds", 50)},
	LatencyP90:     {unit: "s", title: "Latency, 90th percentile", less: true, of: latency("latency_p90_seconds", 90)},
	LatencyP99:     {unit: "s", title: "Latency, 99th percentile", less: true, of: latency("latency_p99_seconds", 99)},
	LatencyP999:    {unit: "s", title: "Latency, 99.9th percentile", less: true, of: latency("latency_p999_seconds", 99.9)},
	latencyMax:     {unit: "s", title: "Latency, largest", less: true, of: latency("latency_max_seconds", 100)},
	RateAchieved: {title: "Rate reached, of the planned one", of: func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		achieved, ok := a.Measures["rate_achieved"]
		wanted := a.Measures["rate_wanted"]
		return achieved / wanted, ok && wanted > 0
	}},
	SlowestConsumer: {unit: perSecond, title: "Messages per second, slowest consumer", of: measure("consumer_slowest_rate")},

	ConsumedBeside: {unit: perSecond, title: "Messages per second consumed beside it", of: measure("consumed_per_second")},
	WireRate: {unit: bytesPerSecond, title: "Bytes given to the network per second", of: func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := wireBytes(r, s, a)
		return v * a.MessagesPerSecond(), ok
	}},
	OfFirstGB: {title: "Rate, of that of the first GB", of: func(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		return ofFirst(r.Points(a.ID), a)
	}},
	OfDiskReads: {title: "Rate, of the disk's sequential one", of: func(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := logRate(a)
		disk := diskRate(r.Run.Testbed.BrokerHost, "sequential read")
		return v / disk, ok && disk > 0
	}},

	LogBytes:      {unit: perMessage, title: "Disk space, log", less: true, of: aMessage("store_log_bytes")},
	IndexBytes:    {unit: perMessage, title: "Disk space, index", less: true, of: aMessage("store_index_bytes")},
	JournalBytes:  {unit: perMessage, title: "Disk space, journal", less: true, of: aMessage("store_journal_bytes")},
	MetadataBytes: {unit: perMessage, title: "Disk space, metadata", less: true, of: aMessage("store_metadata_bytes")},
	OtherBytes:    {unit: perMessage, title: "Disk space, other files", less: true, of: aMessage("store_other_bytes")},

	LostUnpromised:    {unit: "messages", title: "Lost in a crash, not acknowledged", less: true, of: measure("crash_lost_unpromised")},
	LostPromised:      {unit: "messages", title: "Lost in a crash though acknowledged", less: true, of: measure("crash_lost_promised")},
	RestartTime:       {unit: "s", title: "Time to start again after the crash", less: true, of: measure("restart_seconds")},
	SettleTime:        {unit: "s", title: "Time to settle", less: true, of: measure("settle_median_seconds")},
	SettleTimeLongest: {unit: "s", title: "Longest time to settle", less: true, of: measure("settle_max_seconds")},
	RebalanceTries:    {unit: "tries", title: "Tries of a rebalance, at most", less: true, of: measure("tries_max")},
	DelayLive:         {unit: "s", title: "Delay to the live cluster, median", less: true, of: measure("delay_live_p50_seconds")},
	DelayReplica:      {unit: "s", title: "Delay to the replica cluster, median", less: true, of: measure("delay_replica_p50_seconds")},
	DelayLoad:         {unit: "s", title: "Delay to the load's output, median", less: true, of: measure("delay_load_p50_seconds")},
	DelayLoadMean:     {unit: "s", title: "Delay to the load's output, mean", less: true, of: measure("delay_load_mean_seconds")},
	DelayLoadP99:      {unit: "s", title: "Delay to the load's output, 99th percentile", less: true, of: measure("delay_load_p99_seconds")},
	AuditMissing:      {unit: "messages", title: "Missing by the audit", less: true, of: measure("audit_missing")},
	AuditDoubled:      {unit: "messages", title: "Doubled by the audit", less: true, of: measure("audit_doubled")},
	AuditUnreported:   {unit: "messages", title: "Of no monitoring event", less: true, of: measure("audit_unreported")},
	AuditWrong:        {unit: "messages", title: "What the audit is wrong by", less: true, of: measure("audit_wrong")},
	AuditBeyond:       {unit: "messages", title: "Missing by the audit, beyond what was left out", less: true, of: measure("audit_missing_beyond_dropped")},
	QuietRequests:     {unit: "1/s", title: "Requests of ZooKeeper while nothing changes", less: true, of: measure("quiet_requests_per_second")},
	QuietCommits:      {unit: "1/s", title: "Commits of offsets while nothing changes", less: true, of: measure("quiet_commits_per_second")},
	QuietProofs:       {unit: "1/s", title: "Proofs of sessions while nothing changes", less: true, of: measure("quiet_proofs_per_second")},
	SettleAfterKill:   {unit: "s", title: "Time to settle after a kill", less: true, of: measure("settle_after_kill_seconds")},
	RepeatsClean:      {unit: "messages", title: "Messages twice after clean ends", less: true, of: measure("repeats_clean")},
	RepeatsUnclean:    {unit: "messages", title: "Messages twice after unclean ends", less: true, of: measure("repeats_unclean")},
	RepeatsBeyond: {unit: "messages", title: "Messages twice beyond what was not committed", less: true, of: func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		repeats, ok := a.Measures["repeats_unclean"]
		bound, bounded := a.Measures["repeats_bound"]
		return max(repeats-bound, 0), ok && bounded
	}},
}

// ofAttempt is a quantity for which the attempt is enough.
func ofAttempt(of func(resultfile.Attempt) (float64, bool)) func(*resultfile.Result, resultfile.Scenario, resultfile.Attempt) (float64, bool) {
	return func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) { return of(a) }
}

// measure is one of the attempt's measures as it is.
func measure(name string) func(*resultfile.Result, resultfile.Scenario, resultfile.Attempt) (float64, bool) {
	return func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := a.Measures[name]
		return v, ok
	}
}

// aMessage is one of the attempt's measures for each message.
func aMessage(name string) func(*resultfile.Result, resultfile.Scenario, resultfile.Attempt) (float64, bool) {
	return func(_ *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		v, ok := a.Measures[name]
		return v / float64(a.Messages), ok
	}
}

// latency is a percentile from the planned send time: as the runner has it, or
// else of the histogram. It is known of attempts with enough messages for it.
func latency(name string, percentile float64) func(*resultfile.Result, resultfile.Scenario, resultfile.Attempt) (float64, bool) {
	return func(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) (float64, bool) {
		count := a.Messages
		l := r.Latency(a.ID)
		recorded := l != nil && l.Planned != nil && l.Planned.TotalCount() > 0
		if recorded {
			count = l.Planned.TotalCount()
		}
		if count < messagesFor(percentile) {
			return 0, false
		}
		if v, ok := a.Measures[name]; ok {
			return v, true
		}
		if recorded {
			return secondsAt(l.Planned, percentile), true
		}
		return 0, false
	}
}

// hasLimit says whether a physical limit bounds the quantity, and not only has a
// number of it too.
func (q Quantity) hasLimit() bool {
	switch q {
	case MessageRate, DataRate, LogRate, LinkShare, SlowestConsumer, LatencyP50, LatencyP90, LatencyP99, LatencyP999:
		return true
	}
	return false
}

// Known says whether there is such a quantity.
func (q Quantity) Known() bool {
	_, ok := quantities[q]
	return ok
}

// LessIsBetter says whether less of the quantity is better.
func (q Quantity) LessIsBetter() bool { return quantities[q].less }

// Unit is the quantity's unit, "" for a share.
func (q Quantity) Unit() string { return quantities[q].unit }

// value is a quantity of an attempt; ok is false where it is not known, or is
// no finite number.
func (q Quantity) value(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) (v float64, ok bool) {
	known, found := quantities[q]
	if !found {
		return 0, false
	}
	v, ok = known.of(r, s, a)
	return v, ok && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// valuesIn returns a quantity of every valid attempt of a system for which it
// is known.
func (q Quantity) valuesIn(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) []float64 {
	return valuesOf(validAttempts(r, s, y), func(a resultfile.Attempt) (float64, bool) { return q.value(r, s, a) })
}

// Values returns a quantity of every valid attempt of a system for which it is
// known, in the order of the run. Systems and scenarios that the run has not
// have none.
func Values(r *resultfile.Result, scenario, system string, q Quantity) []float64 {
	s, y, ok := find(r, scenario, system)
	if !ok {
		return nil
	}
	return q.valuesIn(r, s, y)
}

// FewestMessages is how many messages the smallest of the attempts behind [Values]
// has moved; 0 if there is none.
func FewestMessages(r *resultfile.Result, scenario, system string, q Quantity) int64 {
	s, y, ok := find(r, scenario, system)
	if !ok {
		return 0
	}
	fewest := int64(-1)
	for _, a := range validAttempts(r, s, y) {
		if _, ok := q.value(r, s, a); ok && (fewest < 0 || a.Messages < fewest) {
			fewest = a.Messages
		}
	}
	return max(fewest, 0)
}

// OfLimit returns the share of the physical limit that a system of a run
// reaches, 1 for all of it, as the table of rates shows it; nil if it is not
// known.
func OfLimit(r *resultfile.Result, scenario, system string) *Ratio {
	s, y, ok := find(r, scenario, system)
	if !ok || y.Role == resultfile.RoleLimit {
		return nil
	}
	limit := limitFor(r, s, y)
	if limit == nil {
		return nil
	}
	return ratio(summaryOf(validAttempts(r, s, y), logRate), limit.BytesPerSecond)
}

// find returns a system of a run with its scenario.
func find(r *resultfile.Result, scenario, system string) (resultfile.Scenario, resultfile.System, bool) {
	for _, s := range r.Run.Scenarios {
		for _, y := range s.Systems {
			if s.Name == scenario && y.ID == system {
				return s, y, true
			}
		}
	}
	return resultfile.Scenario{}, resultfile.System{}, false
}

// linkMbps is the link's goodput in the direction of the messages.
func linkMbps(r *resultfile.Result, s resultfile.Scenario) float64 {
	forth, back := goodputs(r.Run.Testbed, s)
	if s.Work == resultfile.Consume {
		return back
	}
	return forth
}

// goodputs is what the link gave before the run, in 10^6 bits a second, held to
// its rate or, for a scenario without one, to none.
func goodputs(t resultfile.Testbed, s resultfile.Scenario) (forth, back float64) {
	if s.Link == resultfile.LinkUnshaped {
		return t.UnshapedGoodputMbps, t.UnshapedReverseGoodputMbps
	}
	return t.LinkGoodputMbps, t.LinkReverseGoodputMbps
}

// firstBytes is the beginning of an attempt with which the whole is compared,
// and leastBytes how many there must be at all for that to say something.
const (
	firstBytes = 1e9
	leastBytes = 2 * firstBytes
)

// ofFirst is the log rate of all messages over that of those that make the first
// firstBytes.
func ofFirst(points []resultfile.Point, a resultfile.Attempt) (float64, bool) {
	if float64(a.StoredBytes) < leastBytes || a.Messages == 0 {
		return 0, false
	}
	wanted := firstBytes / (float64(a.StoredBytes) / float64(a.Messages))
	for i, p := range points {
		if float64(p.Arrived) < wanted || i == 0 {
			continue
		}
		before := points[i-1]
		part := (wanted - float64(before.Arrived)) / float64(p.Arrived-before.Arrived)
		seconds := before.Seconds + part*(p.Seconds-before.Seconds)
		return a.MessagesPerSecond() / (wanted / seconds), seconds > 0
	}
	return 0, false
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
	samples := samplesOf(r, a, host)
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
