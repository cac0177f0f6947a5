package runner

import (
	"cmp"
	"time"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// What the parts of a group take that have nothing to do with messages, about.
const (
	// startStop is for starting and stopping its server and for the pauses
	// between phases, where the plan says nothing of its driver.
	startStop = 9 * time.Second
	// remoteTime is for the some dozens of steps of a group, each of which goes
	// over ssh.
	remoteTime = 10 * time.Second
	// restartTime is for ending a server and starting it again.
	restartTime = 6 * time.Second
	// dropTime is for writing what a store has in memory alone.
	dropTime = 2 * time.Second
	// rebalanceTime is for the quiet time of a group of consumers and for the end
	// of a killed one's session, memberTime for each consumer's joins and leaves.
	rebalanceTime = 25 * time.Second
	memberTime    = 1200 * time.Millisecond
	// pipelineTime is for the processes around a pipeline to start, and for the
	// last messages to go through to the last load and to be audited.
	pipelineTime = 35 * time.Second
)

// storedBytes is what the server of a group will keep on disk, with a tenth to
// spare. What no disk holds is told as the largest number, never as a small one.
func (p *Plan) storedBytes(g group) int64 {
	s, sys := g.main.scenario, g.main.system
	messages := p.fillWithin(g.main, fastest*sys.ExpectedRate) + sys.WarmUp
	switch s.Work {
	case resultfile.Consume:
	case resultfile.Crash:
		messages += p.crashMessages(s, sys)
	default:
		messages += p.expectedMessages(s, sys)
	}
	return int64(min(float64(messages)*float64(sys.StoredBytes)*11/10, 1<<62))
}

// fastest is how many times as fast as a scenario expects a machine may be.
const fastest = 4

// expectedMessages is how many messages a system will be sent at most.
func (p *Plan) expectedMessages(s scenario.Scenario, sys scenario.System) int64 {
	return atMost(p.Selection.MessagesOf(s, sys), sys.LongestRun(p.Selection.Cap), fastest*sys.ExpectedRate)
}

// fillWithin is how many messages a fill will store at a rate.
func (p *Plan) fillWithin(e entry, rate int64) int64 {
	return atMost(p.Selection.FillOf(e.scenario, e.system), p.fillCap(e.system), rate)
}

// atMost is how many of the messages come within limit (0: without) at a rate.
func atMost(messages int64, limit time.Duration, rate int64) int64 {
	if limit <= 0 {
		return messages
	}
	return min(messages, int64(limit.Seconds()*float64(rate)))
}

// Estimate is about how long the run takes. On a slow or busy machine it
// takes longer, but an attempt with a cap cannot take much longer.
func (p *Plan) Estimate() (time.Duration, error) {
	groups, err := p.groups()
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, g := range groups {
		if !p.done(g) {
			total += p.estimate(g)
		}
	}
	return total, nil
}

func (p *Plan) estimate(g group) time.Duration {
	s, sys := g.main.scenario, g.main.system
	seconds := 2 * float64(sys.WarmUp) / float64(cmp.Or(sys.WarmUpRate, sys.ExpectedRate))
	pause, known := p.StartStop[sys.Driver]
	if !known {
		pause = startStop
	}
	if p.Remote {
		pause += remoteTime
	}
	switch s.Work {
	case resultfile.Consume:
		seconds += p.consumeSeconds(g.main)
		for _, step := range sys.Before {
			pause += map[string]time.Duration{scenario.BeforeRestart: restartTime, scenario.BeforeDropCache: dropTime}[step]
		}
	case resultfile.Stream:
		seconds += float64(p.Selection.MessagesOf(s, sys)) / max(sys.Rate, 1)
	case resultfile.Crash:
		seconds += p.produceSeconds(g)
		pause += restartTime
	case resultfile.Pipeline:
		seconds += float64(p.Selection.MessagesOf(s, sys)) / max(sys.Rate, 1)
		pause += pipelineTime
	case resultfile.Rebalance:
		pause += rebalanceTime + time.Duration(sys.Consumers)*memberTime
	default:
		seconds += p.produceSeconds(g)
	}
	return pause + time.Duration(seconds*float64(time.Second))
}

// produceSeconds is about how long a fill, a produce and the consume of all of
// it take.
func (p *Plan) produceSeconds(g group) float64 {
	sys := g.main.system
	rate := float64(sys.ExpectedRate)
	fill := float64(p.fillWithin(g.main, sys.ExpectedRate))
	sent := p.within(p.Selection.MessagesOf(g.main.scenario, sys), sys, rate)
	// Whether measured or not, what was sent is consumed in the end.
	back := rate
	if g.consume != nil {
		back = float64(g.consume.system.ExpectedRate)
	}
	return (fill+sent)/rate + (fill+sent)/back
}

// consumeSeconds is about how long a fill and the consume of all of it take. The
// rate that is expected of several consumers is that of all together.
func (p *Plan) consumeSeconds(e entry) float64 {
	sys := e.system
	rate := float64(sys.ExpectedRate)
	fill := float64(p.fillWithin(e, sys.ExpectedRate))
	consumers := float64(max(sys.Consumers, 1))
	return fill/rate + fill*consumers/rate
}

// within is how many of the messages a system will move under its cap.
func (p *Plan) within(messages int64, sys scenario.System, rate float64) float64 {
	n := float64(messages)
	if limit := sys.LongestRun(p.Selection.Cap); limit > 0 {
		n = min(n, limit.Seconds()*rate)
	}
	return n
}
