package paper

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

//go:embed goals.toml
var goalsTOML []byte

// Goals say how near the system is to come to what the machine can do.
type Goals struct {
	LeastRepetitions int    `toml:"least_repetitions"`
	LeastMessages    int64  `toml:"least_messages"`
	Goals            []Goal `toml:"goal"`
}

// Goal is one number that is to be reached: a quantity of a system, or its ratio
// to that of another one. The head of goals.toml says what its keys mean.
type Goal struct {
	Path            string         `toml:"path"`
	Ceiling         string         `toml:"ceiling"`
	RunBy           string         `toml:"run"`
	Scenario        string         `toml:"scenario"`
	System          string         `toml:"system"`
	Quantity        plots.Quantity `toml:"quantity"`
	Against         string         `toml:"against"`
	AgainstScenario string         `toml:"against_scenario"`
	AgainstQuantity plots.Quantity `toml:"against_quantity"`
	Relation        Relation       `toml:"relation"`
	Value           float64        `toml:"value"`
	LeastMessages   int64          `toml:"least_messages"`
}

// The verdicts on a goal.
const (
	Met       Verdict = "met"
	NotMet    Verdict = "not met"
	Undecided Verdict = "not decided"
)

// LoadGoals reads the goals strictly: keys, scenarios and systems that do not
// exist are errors. scenarios holds the system IDs of every scenario that exists.
func LoadGoals(scenarios map[string][]string) (*Goals, error) {
	return parseGoals(goalsTOML, scenarios)
}

func parseGoals(text []byte, scenarios map[string][]string) (*Goals, error) {
	const name = "goals.toml"
	var g Goals
	errs, err := decodeStrictly(name, text, &g)
	if err != nil {
		return nil, err
	}
	if g.LeastRepetitions <= 0 || g.LeastMessages <= 0 {
		errs = append(errs, fmt.Errorf("%s: least_repetitions = %d, least_messages = %d: more than 0 is wanted", name, g.LeastRepetitions, g.LeastMessages))
	}
	if len(g.Goals) == 0 {
		errs = append(errs, fmt.Errorf("%s: there is no goal", name))
	}
	seen := map[string]bool{}
	for i := range g.Goals {
		goal := &g.Goals[i]
		goal.AgainstScenario = cmp.Or(goal.AgainstScenario, goal.Scenario)
		goal.AgainstQuantity = cmp.Or(goal.AgainstQuantity, goal.Quantity)
		if seen[goal.Path] {
			errs = append(errs, fmt.Errorf("%s: there are two goals %q", name, goal.Path))
		}
		seen[goal.Path] = true
		if err := goal.check(scenarios); err != nil {
			errs = append(errs, fmt.Errorf("%s: goal %d (%s): %w", name, i+1, goal.Path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &g, nil
}

func (g Goal) check(scenarios map[string][]string) error {
	if g.Path == "" {
		return errors.New("path is missing")
	}
	if _, ok := scenarios[g.RunBy]; !ok {
		return fmt.Errorf("run = %q: there is no such scenario", g.RunBy)
	}
	of := []struct {
		scenario, system string
		quantity         plots.Quantity
	}{{g.Scenario, g.System, g.Quantity}}
	if g.Against != "" {
		of = append(of, struct {
			scenario, system string
			quantity         plots.Quantity
		}{g.AgainstScenario, g.Against, g.AgainstQuantity})
		if g.Ceiling == "" {
			return fmt.Errorf("against = %q: ceiling has to say what that is", g.Against)
		}
	} else if g.AgainstScenario != g.Scenario || g.AgainstQuantity != g.Quantity {
		return errors.New("against_scenario and against_quantity belong to against")
	}
	for _, x := range of {
		systems, ok := scenarios[x.scenario]
		if !ok {
			return fmt.Errorf("there is no scenario %q", x.scenario)
		}
		if !slices.Contains(systems, x.system) {
			return fmt.Errorf("scenario %s has no system %q, only %s", x.scenario, x.system, strings.Join(systems, ", "))
		}
		if !x.quantity.Known() {
			return fmt.Errorf("there is no quantity %q", x.quantity)
		}
	}
	if g.Relation != AtLeast && g.Relation != AtMost {
		return fmt.Errorf("relation = %q: %q or %q is wanted", g.Relation, AtLeast, AtMost)
	}
	if !(g.Value > 0) || math.IsInf(g.Value, 0) || g.LeastMessages < 0 {
		return fmt.Errorf("value = %v, least_messages = %d: a number above 0, and one from 0 are wanted", g.Value, g.LeastMessages)
	}
	return nil
}

// JudgedGoal is a goal with what a run says of it.
type JudgedGoal struct {
	Goal
	Finding         // Run is nil where no run says anything of it
	Of      float64 // the median of the system's own quantity
	Over    float64 // that of what it is divided by; 0 without

	// Others are what other runs say of it, in their order; none where Judge has made
	// this.
	Others []JudgedGoal
}

// Measured says whether a run has the numbers.
func (j JudgedGoal) Measured() bool { return j.Run != nil }

// Judge judges every goal by a run; those of whose scenarios it has none are
// left out.
func (g *Goals) Judge(r *resultfile.Result) []JudgedGoal {
	var out []JudgedGoal
	for _, goal := range g.Goals {
		if !slices.ContainsFunc(r.Run.Scenarios, func(s resultfile.Scenario) bool { return s.Name == goal.Scenario }) {
			continue
		}
		out = append(out, g.judge(goal, r))
	}
	return out
}

// JudgeAll judges every goal by the run that says most of it, as with claims.
// Without a run that has a number of any goal there is nothing.
func (g *Goals) JudgeAll(runs []*resultfile.Result) []JudgedGoal {
	var out []JudgedGoal
	any := false
	for _, goal := range g.Goals {
		best := JudgedGoal{Goal: goal}
		best.Verdict, best.Why = NotMeasured, "waits for a run of the scenario "+goal.RunBy
		var measured []JudgedGoal
		for _, r := range runs {
			j := g.judge(goal, r)
			if !j.Measured() {
				continue
			}
			measured = append(measured, j)
			decided, better := j.Verdict != Undecided, !best.Measured()
			if !better {
				held := best.Verdict != Undecided
				better = decided && !held || decided == held && betterFirst(j.Finding, best.Finding) < 0
			}
			if better {
				best = j
			}
			any = true
		}
		for _, j := range measured {
			if j.Run != best.Run {
				best.Others = append(best.Others, j)
			}
		}
		out = append(out, best)
	}
	if !any {
		return nil
	}
	return out
}

func (g *Goals) judge(goal Goal, r *resultfile.Result) JudgedGoal {
	j := JudgedGoal{Goal: goal}
	values := plots.Values(r, goal.Scenario, goal.System, goal.Quantity)
	f := Finding{Run: r}
	var ok bool
	if goal.Against == "" {
		ok = f.takeMedian(values)
	} else {
		others := plots.Values(r, goal.AgainstScenario, goal.Against, goal.AgainstQuantity)
		ok = f.takeRatio(values, others)
		j.Over = plots.Summarise(others).Median
	}
	if !ok {
		j.Over = 0
		j.Verdict, j.Why = NotMeasured, "there are no valid attempts of it, or not of what it is held against"
		return j
	}
	j.Finding, j.Of = f, plots.Summarise(values).Median
	j.Verdict, j.Why = g.decide(goal, f)
	return j
}

// decide holds the median against the goal.
func (g *Goals) decide(goal Goal, f Finding) (Verdict, string) {
	least := cmp.Or(goal.LeastMessages, g.LeastMessages)
	n, moved := goal.messages(f.Run)
	switch {
	case whyTrial(f.Run.Run) != "":
		return Undecided, whyTrial(f.Run.Run)
	case n < least:
		return Undecided, fmt.Sprintf("%s messages were asked for in an attempt, and %s are wanted", plots.Whole(n), plots.Whole(least))
	case moved < least:
		return Undecided, fmt.Sprintf("an attempt moved %s messages, and %s are wanted", plots.Whole(moved), plots.Whole(least))
	case goal.heldByLink(f.Run):
		return Undecided, "the testbed's own link held it, and that could not be freed of its rate"
	case f.Repetitions < g.LeastRepetitions:
		return Undecided, fmt.Sprintf("valid repetitions: %d, and %d are wanted", f.Repetitions, g.LeastRepetitions)
	}
	right := func(v float64) bool {
		if goal.Relation == AtLeast {
			return v >= goal.Value
		}
		return v <= goal.Value
	}
	verdict, why := NotMet, ""
	if right(f.Number) {
		verdict = Met
	}
	if right(f.Low) != right(f.High) {
		why = "the interval reaches to both sides of the goal"
		if !f.Interval {
			why = "the repetitions lie on both sides of the goal"
		}
	}
	return verdict, why
}

// fullLink is the share of a link's goodput from which on the link is what holds a
// system.
const fullLink = 0.9

// heldByLink reports whether what was to be measured on a link without a rate has met
// that of a link which kept its own: there all that fills it is equally fast.
func (g Goal) heldByLink(r *resultfile.Result) bool {
	held := func(scenario, system string) bool {
		for _, s := range r.Run.Scenarios {
			if s.Name == scenario && s.Link == resultfile.LinkAsItIs {
				share := plots.Summarise(plots.Values(r, scenario, system, plots.LinkShare))
				return share.N > 0 && share.Median > fullLink
			}
		}
		return false
	}
	return held(g.Scenario, g.System) || g.Against != "" && held(g.AgainstScenario, g.Against)
}

// messages is how many messages a run asked for in an attempt, and how many its
// smallest attempt moved: the fewest of the system and of what it is held against.
func (g Goal) messages(r *resultfile.Result) (wanted, moved int64) {
	of := func(scenario, system string, q plots.Quantity) (wanted, moved int64) {
		return asked(Check{Statistic: Median, Scenario: scenario, System: system}, r), plots.FewestMessages(r, scenario, system, q)
	}
	wanted, moved = of(g.Scenario, g.System, g.Quantity)
	if g.Against != "" {
		w, m := of(g.AgainstScenario, g.Against, g.AgainstQuantity)
		wanted, moved = min(wanted, w), min(moved, m)
	}
	return wanted, moved
}

// show writes a number of the goal: a ratio, or with the quantity's unit.
func (g Goal) show(v float64) string {
	if g.Against != "" {
		return g.times(v)
	}
	if g.Quantity.Unit() == "" {
		if g.Relation == AtLeast { // a share of something that is a ceiling
			return g.times(v)
		}
		return strconv.FormatFloat(100*v, 'g', 2, 64) + " %"
	}
	return plots.Show(g.Quantity, v)
}

// times writes a ratio, to one digit more where the goal is so near that two would not
// tell on which side of it the ratio is.
func (g Goal) times(v float64) string {
	if s := times(v); s != times(g.Value) || v == g.Value {
		return s
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// times writes a ratio: to two digits behind the point where it is near 1, and
// without those that say nothing where it is far above.
func times(v float64) string {
	if v < 2 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// Wanted is the goal as people write it.
func (g Goal) Wanted() string {
	sign := "≥ "
	if g.Relation == AtMost {
		sign = "≤ "
	}
	return sign + g.show(g.Value)
}

// Number is what was measured, and Spread how far it is to be trusted; dashes
// where nothing was.
func (j JudgedGoal) Number() string {
	if !j.Measured() {
		return "–"
	}
	return j.show(j.Finding.Number)
}

// Spread is the interval, or the range where there is none.
func (j JudgedGoal) Spread() string {
	switch {
	case !j.Measured():
		return "–"
	case j.Repetitions == 1 && j.Low == j.High:
		return "1 repetition"
	}
	s := j.show(j.Low) + " .. " + j.show(j.High)
	if !j.Interval {
		s += fmt.Sprintf(" (range of %d)", j.Repetitions)
	}
	return s
}

// Medians are those that the number is made of.
func (j JudgedGoal) Medians() string {
	switch {
	case !j.Measured():
		return "–"
	case j.Against == "":
		return plots.Show(j.Quantity, j.Of)
	}
	return plots.Show(j.Quantity, j.Of) + " / " + plots.Show(j.AgainstQuantity, j.Over)
}

// Said is the verdict with its reason.
func (j JudgedGoal) Said() string {
	if j.Why == "" {
		return string(j.Verdict)
	}
	return string(j.Verdict) + " (" + j.Why + ")"
}

// goalsNote says how the table of goals is to be read.
const goalsNote = "Ratios are of two medians of the same run, each over all valid repetitions after a warm-up of its own. A goal is met or not by the median; the 95 % interval stands beside it. " +
	"Client and broker share the machine where the hosts are emulated."

// Columns of what is wanted, and of the run that the goal is judged by.
const (
	goalColumn = "goal"
	runColumn  = "run"
)

// InOthers is what other runs have measured, and whether that meets the goal.
func (j JudgedGoal) InOthers() string {
	var said []string
	for _, o := range j.Others {
		said = append(said, fmt.Sprintf("%s: %s (%s)", o.Run.Run.Name, o.Number(), o.Verdict))
	}
	return cmp.Or(strings.Join(said, "; "), "–")
}

// GoalsTable is a table of the goals of one run, for a page or a terminal.
func GoalsTable(goals []JudgedGoal) plots.NamedTable { return goalsTable(goals, false) }

// goalsTable names the run of each goal where there may be several.
func goalsTable(goals []JudgedGoal, runs bool) plots.NamedTable {
	t := &plots.Table{Head: []string{"path", "ceiling", "measured", "95 % interval", goalColumn, "verdict", "medians"}}
	t.StandLeft(1, 5)
	if runs {
		t.Head = append(t.Head, runColumn, "other runs")
		t.StandLeft(len(t.Head)-2, len(t.Head)-1)
	}
	for _, j := range goals {
		row := []string{j.Path, cmp.Or(j.Ceiling, "–"), j.Number(), j.Spread(), j.Wanted(), j.Said(), j.Medians()}
		if runs {
			name := "–"
			if j.Measured() {
				name = j.Run.Run.Name
			}
			row = append(row, name, j.InOthers())
		}
		t.Rows = append(t.Rows, row)
	}
	return plots.NamedTable{Title: "Goals", Table: t, Note: goalsNote + " " + GoalCounts(goals)}
}

// GoalsPart is the report's own table of goals.
func (r *Report) GoalsPart() plots.NamedTable { return goalsTable(r.Goals, true) }

// goalLink leads from a cell of that table to the run that its number is from. What
// was not measured, and the goals themselves, are no numbers of a run.
func (r *Report) goalLink(t *plots.Table, row, column int) string {
	goal, head := r.Goals[row], t.Head[column]
	if !goal.Measured() || head != runColumn && (t.IsLeft(column) || head == goalColumn) {
		return ""
	}
	return r.Of(goal.Finding).Link
}

// goals writes the table of goals, if a run has numbers of any.
func (m *page) goals() error {
	if len(m.report.Goals) == 0 {
		return nil
	}
	t := m.report.GoalsPart()
	return m.linkedTable("## "+t.Title, t.Table, t.Note, func(row, column int) string { return m.report.goalLink(t.Table, row, column) })
}

// GoalCounts says how many of the report's goals have each verdict.
func (r *Report) GoalCounts() string { return GoalCounts(r.Goals) }

// GoalCounts says how many goals have each verdict.
func GoalCounts(goals []JudgedGoal) string {
	var parts []string
	for _, v := range []Verdict{Met, NotMet, Undecided, NotMeasured} {
		n := 0
		for _, j := range goals {
			if j.Verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", v, n))
		}
	}
	return fmt.Sprintf("Of %d goals: %s.", len(goals), strings.Join(parts, ", "))
}
