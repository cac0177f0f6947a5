package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/measure"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// Times that bound the steps of an attempt, where a [Plan] states none.
const (
	// DefaultStall is how long an attempt may stand still: no message more sent
	// or received, or none more arrived, before it is given up. Time in which the
	// client's process did not run itself does not count.
	DefaultStall = 20 * time.Second
	// DefaultStart is the time within which a server must take requests.
	DefaultStart = 2 * time.Minute

	// DefaultLook is how long the hosts are looked at before a server is started,
	// for what else they do.
	DefaultLook = 500 * time.Millisecond

	// verifyCaps is how many times an attempt's cap the unmeasured consumption
	// after it may take.
	verifyCaps = 3
)

// Plan is what to run, where, and where to put what comes out.
type Plan struct {
	Selection scenario.Selection
	Seed      int64 // of the order of the systems
	Client    host.Host
	Broker    host.Host
	// Limits are what every server is held to, whatever the system; zero:
	// nothing is held.
	Limits host.Limits
	// Unshape takes the rate off the link (true) or puts it back (false), for
	// scenarios that ask for that; nil: the link is what it is.
	Unshape func(ctx context.Context, lifted bool) error
	// Ready waits before each attempt, of which nothing runs yet, until the broker host
	// is ready for it, and TouchMemory touches what is free of that host's memory right
	// before it is measured; nil: there is no need. What they fail with is noted at the
	// attempt, which goes on.
	Ready       func(ctx context.Context) error
	TouchMemory func(ctx context.Context) (measure.Held, error)
	Drivers     *driver.Table
	Results     *resultfile.Writer
	Progress    Progress // nil: none
	// Before is the run to go on with, for the estimate before Results is open;
	// nil: a new run.
	Before *resultfile.Run

	// StartStop is about what it takes to start and stop a driver's server on a
	// quiet machine, with the pauses between phases, by the driver's name; for
	// those that are not in it something in between is taken. Remote says that
	// each step of it goes over ssh. Both are for the estimate alone.
	StartStop map[string]time.Duration
	Remote    bool

	// Stall, Start and Look replace DefaultStall, DefaultStart and DefaultLook
	// unless 0.
	Stall, Start, Look time.Duration
}

// entry is one system of one scenario.
type entry struct {
	scenario scenario.Scenario
	system   scenario.System
}

// group is what happens at one server in one repetition: one system of a
// scenario and, if that one produces and its backlog's scenario is in the run,
// the consume of it.
type group struct {
	repetition int
	main       entry
	consume    *entry
}

func (g group) entries() []entry {
	if g.consume == nil {
		return []entry{g.main}
	}
	return []entry{g.main, *g.consume}
}

// groups lists everything in the order in which it is to run: shuffled anew in
// each repetition, so that no system always follows the same one, and a
// function of the seed alone, so that a resumed run keeps its order.
func (p *Plan) groups() ([]group, error) {
	var once []group
	for _, s := range p.Selection.Scenarios {
		if s.BacklogOf != "" {
			continue
		}
		for _, sys := range s.Systems {
			once = append(once, group{main: entry{s, sys}})
		}
	}
	for _, s := range p.Selection.Scenarios {
		if s.BacklogOf == "" {
			continue
		}
		for _, sys := range s.Systems {
			if err := attach(once, entry{s, sys}); err != nil {
				return nil, err
			}
		}
	}
	var all []group
	for r := 1; r <= p.Selection.Repeat; r++ {
		order := rand.New(rand.NewPCG(uint64(p.Seed), uint64(r))).Perm(len(once))
		for _, i := range order {
			g := once[i]
			g.repetition = r
			all = append(all, g)
		}
	}
	return all, nil
}

// attach gives a consume to the group that leaves its backlog.
func attach(groups []group, consume entry) error {
	for i := range groups {
		g := &groups[i]
		if g.main.scenario.Name != consume.scenario.BacklogOf || g.main.system.ID != consume.system.Backlog {
			continue
		}
		if g.consume != nil {
			return fmt.Errorf("%s/%s and %s/%s consume the same backlog, which is there once: run them one after the other",
				g.consume.scenario.Name, g.consume.system.ID, consume.scenario.Name, consume.system.ID)
		}
		g.consume = &consume
		return nil
	}
	return fmt.Errorf("%s/%s: its backlog %s/%s is not in the run", consume.scenario.Name, consume.system.ID, consume.scenario.BacklogOf, consume.system.Backlog)
}

// Check looks before anything starts for what would make every attempt fail:
// options that a driver does not take, and disk space. A system that is not
// installed is no error here; it is recorded as such when its turn comes.
func (p *Plan) Check(ctx context.Context) error {
	groups, err := p.groups()
	if err != nil {
		return err
	}
	return errors.Join(p.checkOptions(ctx, p.Broker, groups), p.checkSpace(ctx, groups))
}

// CheckOptions is the part of Check that needs no host: the options that each
// driver is given. [Plan.Broker] is not used.
func (p *Plan) CheckOptions(ctx context.Context) error {
	groups, err := p.groups()
	if err != nil {
		return err
	}
	return p.checkOptions(ctx, noHost{}, groups)
}

// checkOptions has the drivers read the options of their systems.
func (p *Plan) checkOptions(ctx context.Context, broker host.Host, groups []group) error {
	var errs []error
	for _, g := range groups {
		if g.repetition > 1 {
			continue
		}
		for _, e := range g.entries() {
			d, err := p.Drivers.Find(e.system.Driver)
			if err == nil {
				err = d.Check(ctx, broker, e.system.Options)
			}
			if err == nil && len(e.system.FillOptions) > 0 {
				if err = d.Check(ctx, broker, fillOptions(e.system)); err != nil {
					err = fmt.Errorf("fill_options: %w", err)
				}
			}
			if err == nil && len(e.system.WarmUpOptions) > 0 {
				if err = d.Check(ctx, broker, withOptions(e.system.Options, e.system.WarmUpOptions)); err != nil {
					err = fmt.Errorf("warm_up_options: %w", err)
				}
			}
			if err != nil && !errors.Is(err, driver.ErrNotInstalled) && !errors.Is(err, errNoHost) {
				errs = append(errs, fmt.Errorf("%s, system %s: %w", e.scenario.Name, e.system.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

// spaceReserve is what must be left on the broker host's disk besides the
// messages: RabbitMQ stops its producers below 500 MB.
const spaceReserve = 1 << 30

func (p *Plan) checkSpace(ctx context.Context, groups []group) error {
	var need int64
	var of string
	for _, g := range groups {
		if n := p.storedBytes(g); n > need {
			need, of = n, g.main.system.ID
		}
	}
	if err := p.Broker.MkdirAll(ctx, p.Broker.Dir()); err != nil {
		return fmt.Errorf("%s: %w", p.Broker.Name(), err)
	}
	free, err := p.Broker.FreeBytes(ctx, p.Broker.Dir())
	if err != nil {
		return fmt.Errorf("space on %s: %w", p.Broker.Name(), err)
	}
	if free < need+spaceReserve {
		return fmt.Errorf("%s: %s has %.1f GB free, but %s needs %.1f GB for its messages and 1.1 GB must be left: ask for fewer messages (--messages), or name a folder on a larger disk in the testbed file",
			p.Broker.Name(), p.Broker.Dir(), gb(free), of, gb(need))
	}
	return nil
}

func gb(bytes int64) float64 { return float64(bytes) / 1e9 }

// done says whether every attempt of the group is on record as valid.
func (p *Plan) done(g group) bool {
	var run resultfile.Run
	switch {
	case p.Results != nil:
		run = p.Results.Run()
	case p.Before != nil:
		run = *p.Before
	}
	for _, e := range g.entries() {
		if _, ok := run.ValidAttempt(e.scenario.Name, e.system.ID, g.repetition); !ok {
			return false
		}
	}
	return true
}
