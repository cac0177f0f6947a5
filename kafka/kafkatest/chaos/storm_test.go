package chaos

import (
	"context"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// ending is what ends a trouble that lasts.
type ending struct {
	at   time.Time
	what string // of which there is one at a time
	do   func()
}

// aftermath is for how long an end of ownership counts as unclean after a trouble
// is over: sessions have to be made anew, or to come to their end.
const aftermath = 3 * sessionTime

// trouble is one kind of it. do reports what was done, or nothing if it cannot be
// done now.
type trouble struct {
	weight int
	do     func(w *world) string
}

var kinds = []trouble{
	{6, (*world).someoneJoins},
	{5, (*world).someoneLeaves},
	{4, (*world).someoneIsKilled},
	{3, (*world).someoneIsStopped},
	{2, (*world).someoneExpires},
	{2, (*world).connectionsDrop},
	{2, (*world).lineIsCut},
	{1, (*world).zooKeeperRestarts},
	{2, (*world).brokerRestarts},
}

// storm does one thing after the other for so long, and returns how often each
// was done.
func (w *world) storm(d time.Duration) map[string]int {
	w.t.Helper()
	done := make(map[string]int)
	var all int
	for _, k := range kinds {
		all += k.weight
	}
	for end := time.Now().Add(d); time.Now().Before(end) && !w.t.Failed(); {
		n := w.rng.IntN(all)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				if what := k.do(w); what != "" {
					done[what]++
				}
				break
			}
		}
		w.endDue(time.Now())
		w.noneDied()
		time.Sleep(time.Duration(w.rng.Int64N(int64(1500 * time.Millisecond)))) // the pace of the storm; nothing is waited for
	}
	w.endDue(time.Now().Add(time.Hour))
	for len(w.alive()) < fewConsumers {
		w.join()
	}
	return done
}

// endDue ends those troubles that have lasted long enough.
func (w *world) endDue(now time.Time) {
	for i := 0; i < len(w.ends); {
		e := w.ends[i]
		if e.at.After(now) {
			i++
			continue
		}
		w.ends = append(w.ends[:i], w.ends[i+1:]...)
		e.do()
	}
}

func (w *world) going(what string) bool {
	for _, e := range w.ends {
		if e.what == what {
			return true
		}
	}
	return false
}

// lasts notes a trouble of a consumer, or of all if that is empty, which do ends
// after d. The aftermath begins when it has been done.
func (w *world) lasts(what, consumer string, d time.Duration, do func()) {
	w.troubles = append(w.troubles, Trouble{Consumer: consumer, What: what, From: Now(), To: math.MaxInt64})
	n := len(w.troubles) - 1
	w.ends = append(w.ends, ending{time.Now().Add(d), what, func() {
		do()
		w.troubles[n].To = Now() + int64(aftermath)
	}})
}

// passes notes a trouble that is over at once.
func (w *world) passes(what, consumer string, from int64) {
	w.troubles = append(w.troubles, Trouble{Consumer: consumer, What: what, From: from, To: Now() + int64(aftermath)})
}

// shortOrLong is a time that a session survives, or one that it does not.
func (w *world) shortOrLong() time.Duration {
	if w.rng.IntN(3) == 0 {
		return sessionTime/10 + time.Duration(w.rng.Int64N(int64(sessionTime/4)))
	}
	return sessionTime*3/2 + time.Duration(w.rng.Int64N(int64(sessionTime*3/2)))
}

// someone is a consumer that runs; nil if there are too few.
func (w *world) someone() *process {
	var running []*process
	for _, p := range w.alive() {
		// With its journal it has begun to listen for signals.
		if _, err := os.Stat(p.journal); err == nil && !p.stopped {
			running = append(running, p)
		}
	}
	if len(running) < fewConsumers {
		return nil
	}
	return running[w.rng.IntN(len(running))]
}

func (w *world) someoneJoins() string {
	if len(w.alive()) >= maxConsumers {
		return ""
	}
	w.join()
	return "joined"
}

func (w *world) signal(p *process, s syscall.Signal) {
	w.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		w.t.Fatalf("signal %v to consumer %s: %v", s, p.name, err)
	}
}

func (w *world) someoneLeaves() string {
	p := w.someone()
	if p == nil {
		return ""
	}
	w.leave(p)
	return "left"
}

// leave tells a consumer to leave.
func (w *world) leave(p *process) {
	w.t.Helper()
	p.leaving = true
	w.signal(p, syscall.SIGTERM)
}

func (w *world) someoneIsKilled() string {
	p := w.someone()
	if p == nil {
		return ""
	}
	p.killed = true
	w.troubles = append(w.troubles, Trouble{Consumer: p.name, What: "killed", From: Now(), To: math.MaxInt64})
	w.signal(p, syscall.SIGKILL)
	<-p.ended
	return "killed"
}

func (w *world) someoneIsStopped() string {
	p := w.someone()
	if p == nil {
		return ""
	}
	p.stopped = true
	d := w.shortOrLong()
	w.lasts("stopped", p.name, d, func() {
		w.signal(p, syscall.SIGCONT)
		p.stopped = false
	})
	w.signal(p, syscall.SIGSTOP)
	if d < sessionTime {
		return "stopped for less than the session time-out"
	}
	return "stopped for more than the session time-out"
}

func (w *world) someoneExpires() string {
	p := w.someone()
	if p == nil || w.going("ZooKeeper") {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stat, there, err := w.look.Exists(ctx, fmt.Sprintf("/consumers/%s/ids/%s", group, p.id))
	if err != nil {
		w.t.Fatal(err)
	}
	if !there {
		return "" // it is not in yet, or out at the moment
	}
	from := Now()
	if err := w.zk.Expire(stat.EphemeralOwner); err != nil {
		w.t.Fatal(err)
	}
	w.passes("expired", p.name, from)
	w.troubles[len(w.troubles)-1].Early = true
	return "session expired"
}

// ofLine notes a trouble of all consumers on a line.
func (w *world) ofLine(line int, note func(consumer string)) {
	for _, p := range w.alive() {
		if p.line == line {
			note(p.name)
		}
	}
}

func (w *world) connectionsDrop() string {
	line, from := w.rng.IntN(lineCount), Now()
	w.lines[line].DropConnections()
	w.ofLine(line, func(c string) { w.passes("dropped", c, from) })
	return "connections dropped"
}

func (w *world) lineIsCut() string {
	line, d := w.rng.IntN(lineCount), w.shortOrLong()
	if w.going("line") {
		return ""
	}
	w.lasts("line", "", d, w.lines[line].Mend) // also consumers that join meanwhile
	if w.rng.IntN(2) == 0 {
		w.lines[line].Cut()
		return "line cut"
	}
	w.lines[line].Freeze()
	return "line frozen"
}

func (w *world) zooKeeperRestarts() string {
	if w.going("ZooKeeper") {
		return ""
	}
	node, d := w.rng.IntN(w.zk.Size()), w.shortOrLong()
	if w.zk.Kind == zktest.Ensemble && w.rng.IntN(2) == 0 {
		node = w.zk.Leader()
	}
	w.lasts("ZooKeeper", "", d, func() { w.zk.Restart(node) })
	w.zk.Kill(node)
	return "a ZooKeeper server killed"
}

func (w *world) brokerRestarts() string {
	i := w.rng.IntN(brokers)
	what := fmt.Sprintf("broker %d", i)
	// One that cannot register does not come up.
	if w.going(what) || w.going("ZooKeeper") || !w.brokers[i].Ready() {
		return ""
	}
	did := "broker killed"
	w.down[i] = true
	if w.rng.IntN(2) == 0 {
		w.brokers[i].Kill()
	} else {
		did = "broker stopped"
		if err := w.brokers[i].Stop(); err != nil {
			w.t.Fatalf("broker %d: %v; its log:\n%s", i, err, w.brokers[i].Log())
		}
	}
	// It is no trouble for what consumers hold and commit.
	w.ends = append(w.ends, ending{time.Now().Add(w.shortOrLong() / 2), what, func() { w.startBroker(i) }})
	return did
}
