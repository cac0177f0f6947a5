package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kafkalab/results/resultfile"
)

// Selection is what to run: whole scenarios with the systems wanted, in the
// order in which they were named, those that leave a backlog before those that
// consume it.
type Selection struct {
	Names     []string // as they were asked for
	Systems   []string // as they were asked for; none means all but those on request
	Scenarios []Scenario
	Files     map[string][]byte // every file that was read, by the scenario's name
	Messages  int64             // per attempt
	Repeat    int
	Cap       time.Duration // 0 is none
	// Notes say, a sentence each, what the systems asked for came to where that
	// is not what their names say.
	Notes []string

	// warmUpAtMost lowers the warm-up of every system; nil: as the files say.
	warmUpAtMost *int64
}

// Select reads the named scenarios and keeps the named systems of them, or all
// but those on request if none is named. A system's name is its ID; in a
// scenario that has no system of that ID it stands for all systems of the driver
// of that name. A scenario that consumes the backlog of another brings the
// systems of that one that it needs, if they were not asked for.
func (l Library) Select(names, systems []string) (Selection, error) {
	sel := Selection{Names: names, Systems: systems, Files: map[string][]byte{}}
	var stated []defaults
	for _, name := range names {
		f, text, err := l.read(name)
		if err != nil {
			return sel, err
		}
		sel.Files[f.Name] = text
		if len(f.Include) == 0 {
			sel.Scenarios = append(sel.Scenarios, f.scenario())
			stated = append(stated, f.defaults())
			continue
		}
		for _, included := range f.Include {
			g, text, err := l.read(included)
			if err != nil {
				return sel, fmt.Errorf("included by %s: %w", f.Name, err)
			}
			if len(g.Include) > 0 {
				return sel, fmt.Errorf("%s includes %s, which includes others itself: name those", f.Name, g.Name)
			}
			sel.Files[g.Name] = text
			sel.Scenarios = append(sel.Scenarios, g.scenario())
		}
		sel.warmUpAtMost = f.WarmUp
		stated = append(stated, f.defaults())
	}
	for i, s := range sel.Scenarios {
		for _, t := range sel.Scenarios[:i] {
			if s.Name == t.Name {
				return sel, fmt.Errorf("scenario %s is asked for twice", s.Name)
			}
		}
	}
	if err := sel.settle(stated); err != nil {
		return sel, err
	}
	if err := sel.keep(systems); err != nil {
		return sel, err
	}
	if err := sel.addBacklogs(l); err != nil {
		return sel, err
	}
	if sel.warmUpAtMost != nil {
		for _, s := range sel.Scenarios {
			for i := range s.Systems {
				s.Systems[i].WarmUp = min(s.Systems[i].WarmUp, *sel.warmUpAtMost)
			}
		}
	}
	return sel, nil
}

// defaults are the numbers that a file may state for a run of it.
type defaults struct {
	name     string
	messages int64
	repeat   int
	cap      string
}

func (f *file) defaults() defaults { return defaults{f.Name, f.Messages, f.Repeat, f.Cap} }

// settle finds the numbers of the run, which must be one for all scenarios,
// since these share brokers.
func (sel *Selection) settle(stated []defaults) error {
	sel.Messages, sel.Repeat, sel.Cap = DefaultMessages, DefaultRepeat, DefaultCap
	for i, d := range stated {
		if i > 0 && (d.messages != stated[0].messages || d.repeat != stated[0].repeat || d.cap != stated[0].cap) {
			return fmt.Errorf("scenarios %s and %s state different messages, repeat or cap: run one after the other", stated[0].name, d.name)
		}
	}
	if len(stated) == 0 {
		return nil
	}
	if d := stated[0]; d.messages > 0 {
		sel.Messages = d.messages
	}
	if d := stated[0]; d.repeat > 0 {
		sel.Repeat = d.repeat
	}
	if d := stated[0]; d.cap != "" {
		sel.Cap, _ = parseCap(d.cap) // checked on reading
	}
	return nil
}

// keep drops the systems that were not asked for, and the scenarios of which
// none is left.
func (sel *Selection) keep(wanted []string) error {
	if len(wanted) == 0 {
		for i := range sel.Scenarios {
			s := &sel.Scenarios[i]
			s.Systems = slices.DeleteFunc(slices.Clone(s.Systems), func(sys System) bool { return sys.OnRequest })
		}
		return nil
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(sel.Scenarios, func(s Scenario) bool { return len(s.named(name)) > 0 }) {
			return fmt.Errorf("no system %q in the scenarios asked for%s", name, suggest(name, sel.systemNames()))
		}
	}
	var kept []Scenario
	for _, s := range sel.Scenarios {
		ids := map[string]bool{}
		for _, name := range wanted {
			for _, id := range s.named(name) {
				ids[id] = true
			}
		}
		for _, name := range wanted {
			if note := sel.noteOn(s, name, ids); note != "" {
				sel.Notes = append(sel.Notes, note)
			}
		}
		if len(ids) == 0 {
			sel.Notes = append(sel.Notes, s.Name+" is left out: it has none of the systems asked for")
		}
		s.Systems = slices.DeleteFunc(slices.Clone(s.Systems), func(sys System) bool { return !ids[sys.ID] })
		if len(s.Systems) > 0 {
			kept = append(kept, s)
		}
	}
	sel.Scenarios = kept
	return nil
}

// WithinCores leaves out the systems whose broker is to have more cores than
// there are on its host, with a note for each scenario, and the scenarios of
// which none is left. What the selection was made of is not changed.
func (sel Selection) WithinCores(have int) Selection {
	sel.Notes = slices.Clone(sel.Notes)
	var kept []Scenario
	for _, s := range sel.Scenarios {
		var systems []System
		var out []string
		for _, sys := range s.Systems {
			if sys.Cores > have {
				out = append(out, sys.ID)
				continue
			}
			systems = append(systems, sys)
		}
		if len(out) > 0 {
			sel.Notes = append(sel.Notes, fmt.Sprintf("%s: left out, since the broker has no more cores than %d: %s", s.Name, have, strings.Join(out, ", ")))
		}
		if s.Systems = systems; len(systems) > 0 {
			kept = append(kept, s)
		}
	}
	sel.Scenarios = kept
	return sel
}

// named returns the IDs that a name given by the user stands for.
func (s Scenario) named(name string) []string {
	if _, ok := s.System(name); ok {
		return []string{name}
	}
	var ids []string
	for _, sys := range s.Systems {
		if sys.Driver == name {
			ids = append(ids, sys.ID)
		}
	}
	return ids
}

func (sel *Selection) systemNames() []string {
	var names []string
	for _, s := range sel.Scenarios {
		for _, sys := range s.Systems {
			if !slices.Contains(names, sys.ID) {
				names = append(names, sys.ID)
			}
		}
	}
	return names
}

// addBacklogs sees to it that every backlog to be consumed is produced in the
// same run, and puts the producing scenarios first.
func (sel *Selection) addBacklogs(l Library) error {
	for _, s := range slices.Clone(sel.Scenarios) {
		if s.BacklogOf == "" {
			continue
		}
		f, text, err := l.read(s.BacklogOf)
		if err != nil {
			return fmt.Errorf("backlog of %s: %w", s.Name, err)
		}
		sel.Files[f.Name] = text
		whole := f.scenario()
		switch {
		case whole.Work != resultfile.Produce:
			return fmt.Errorf("%s.toml: backlog_of = %q: that is no scenario that produces", s.Name, s.BacklogOf)
		case whole.PayloadBytes != s.PayloadBytes || whole.Queue != s.Queue:
			return fmt.Errorf("%s.toml: payload_bytes and queue must be those of %s, whose messages it consumes", s.Name, s.BacklogOf)
		}
		for _, sys := range s.Systems {
			producer, ok := whole.System(sys.Backlog)
			if !ok {
				return fmt.Errorf("%s.toml: system %q: backlog = %q: no such system in %s", s.Name, sys.ID, sys.Backlog, s.BacklogOf)
			}
			if producer.Driver != sys.Driver {
				return fmt.Errorf("%s.toml: system %q: the driver is %s, but its backlog %q is left by %s", s.Name, sys.ID, sys.Driver, sys.Backlog, producer.Driver)
			}
			if sel.need(whole, producer) {
				sel.Notes = append(sel.Notes, fmt.Sprintf("%s: %s is measured too, since %s of %s consumes what it leaves", whole.Name, producer.ID, sys.ID, s.Name))
			}
		}
	}
	slices.SortStableFunc(sel.Scenarios, func(a, b Scenario) int { return workOrder(a) - workOrder(b) })
	return nil
}

func workOrder(s Scenario) int {
	if s.BacklogOf == "" {
		return 0
	}
	return 1
}

// need adds a system of a scenario to the selection unless it is there, and
// says whether it did.
func (sel *Selection) need(whole Scenario, sys System) bool {
	for i := range sel.Scenarios {
		s := &sel.Scenarios[i]
		if s.Name != whole.Name {
			continue
		}
		if _, ok := s.System(sys.ID); ok {
			return false
		}
		s.Systems = append(s.Systems, sys)
		return true
	}
	whole.Systems = []System{sys}
	sel.Scenarios = append(sel.Scenarios, whole)
	return true
}
