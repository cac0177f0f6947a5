package paper

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"kafkalab/plots"
)

//go:embed claims.toml
var claimsTOML []byte

// lastClaim is the number of the paper's last claim: C1 to C22.
const lastClaim = 22

// Claims are the paper's claims with how they are judged.
type Claims struct {
	// LeastMessages is how many messages a run must have asked for to decide
	// anything, unless a check says otherwise.
	LeastMessages int64   `toml:"least_messages"`
	Claims        []Claim `toml:"claim"` // C1 to C22, in order
}

// Claim is one statement of the paper.
type Claim struct {
	ID         string  `toml:"id"`
	Section    string  `toml:"section"` // of the paper
	Figure     string  `toml:"figure"`  // "" if it is read from none
	Statement  string  `toml:"statement"`
	Judged     string  `toml:"judged"`     // by what
	Arithmetic string  `toml:"arithmetic"` // what the paper's own numbers come to, or ""
	Checks     []Check `toml:"check"`
}

// Check is one thing that is looked at to judge a claim. The head of
// claims.toml says what its keys mean.
type Check struct {
	Says          string         `toml:"says"`
	Short         string         `toml:"short"`
	Beside        bool           `toml:"beside"`
	Scenario      string         `toml:"scenario"`
	NotBuilt      bool           `toml:"not_built"`
	System        string         `toml:"system"`
	Systems       []string       `toml:"systems"`
	Against       string         `toml:"against"`
	Quantity      plots.Quantity `toml:"quantity"`
	Statistic     Statistic      `toml:"statistic"`
	IntervalOver  IntervalOver   `toml:"interval"`
	Relation      Relation       `toml:"relation"`
	Value         float64        `toml:"value"`
	Tolerance     float64        `toml:"tolerance"`
	NotTestable   string         `toml:"not_testable"`
	LeastMessages int64          `toml:"least_messages"`
	LinkMbps      float64        `toml:"link_mbps"`
}

// Statistic is what is made of a quantity.
type Statistic string

// The statistics.
const (
	Median      Statistic = "median" // over the repetitions
	MedianRatio Statistic = "ratio"  // of the medians of two systems
	// Greatest is the greatest of the medians of several systems, the points of
	// a sweep, say: what holds of it as an upper bound holds of them all.
	Greatest Statistic = "greatest"
)

// IntervalOver is what a check's interval is over: "" for the repetitions.
type IntervalOver string

// OverMinutes takes the minutes of a run that is too long to be repeated.
const OverMinutes IntervalOver = "minutes"

// Relation is how a claim's value is meant.
type Relation string

// The relations.
const (
	AtLeast  Relation = "at least"
	AtMost   Relation = "at most"
	MoreThan Relation = "more than"
	About    Relation = "about"
	Exactly  Relation = "exactly"
	// None and Some want nothing at all and anything above 0, and no value.
	None Relation = "none"
	Some Relation = "some"
)

// LoadClaims reads the claims strictly: keys that are not known, a claim that
// is missing or stands twice, and scenarios and systems that do not exist are
// errors. scenarios holds the system IDs of every scenario that exists.
func LoadClaims(scenarios map[string][]string) (*Claims, error) {
	return parseClaims(claimsTOML, scenarios)
}

func parseClaims(text []byte, scenarios map[string][]string) (*Claims, error) {
	const name = "claims.toml"
	var c Claims
	errs, err := decodeStrictly(name, text, &c)
	if err != nil {
		return nil, err
	}
	if c.LeastMessages <= 0 {
		errs = append(errs, fmt.Errorf("%s: least_messages = %d: more than 0 is wanted", name, c.LeastMessages))
	}
	for i, claim := range c.Claims {
		if want := "C" + strconv.Itoa(i+1); claim.ID != want {
			errs = append(errs, fmt.Errorf("%s: claim %q stands where %s should: each stands once, in order", name, claim.ID, want))
		}
		if err := claim.check(scenarios); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", name, claim.ID, err))
		}
	}
	if n := len(c.Claims); n != lastClaim {
		errs = append(errs, fmt.Errorf("%s: %d claims: the paper has C1 to C%d", name, n, lastClaim))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &c, nil
}

// decodeStrictly decodes a file of that name. A syntax error is err, with its
// line; keys that nobody knows are the first errors of what was decoded.
func decodeStrictly(name string, text []byte, into any) (unknown []error, err error) {
	md, err := toml.Decode(string(text), into)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s:%d: %s", name, syntax.Position.Line, syntax.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, key := range md.Undecoded() {
		unknown = append(unknown, fmt.Errorf("%s: unknown key %q", name, key))
	}
	return unknown, nil
}

func (c Claim) check(scenarios map[string][]string) error {
	var errs []error
	for _, f := range []struct{ key, value string }{{"section", c.Section}, {"statement", c.Statement}, {"judged", c.Judged}} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is missing", f.key))
		}
	}
	if !slices.ContainsFunc(c.Checks, func(k Check) bool { return !k.Beside }) {
		errs = append(errs, errors.New("nothing says how it is judged: a check that is not beside is wanted"))
	}
	numbers := 0
	for _, k := range c.Checks {
		if k.counts() {
			numbers++
		}
	}
	for i, k := range c.Checks {
		if several := numbers > 1 && k.counts(); several != (k.Short != "") {
			errs = append(errs, fmt.Errorf("check %d (%s): short = %q: one is wanted for each of several numbers that make a verdict, and for nothing else", i+1, k.Says, k.Short))
		}
		if err := k.check(scenarios); err != nil {
			errs = append(errs, fmt.Errorf("check %d (%s): %w", i+1, k.Says, err))
		}
	}
	return errors.Join(errs...)
}

// counts says whether the check gives a number that stands behind the verdict.
func (k Check) counts() bool { return k.measures() && !k.Beside }

// measures says whether the check looks at a quantity.
func (k Check) measures() bool { return k.Quantity != "" }

func (k Check) check(scenarios map[string][]string) error {
	if k.Says == "" {
		return errors.New("says is missing")
	}
	if k.NotBuilt || !k.measures() {
		return k.checkUnmeasured()
	}
	if err := k.checkStatistic(); err != nil {
		return err
	}
	if err := k.checkNames(scenarios); err != nil {
		return err
	}
	if !k.Quantity.Known() {
		return fmt.Errorf("there is no quantity %q", k.Quantity)
	}
	if err := k.checkInterval(); err != nil {
		return err
	}
	return k.checkRelation()
}

// checkUnmeasured looks at a check that no run can decide: the scenario is
// still to be built, or it cannot be tested.
func (k Check) checkUnmeasured() error {
	decides := k.System != "" || len(k.Systems) > 0 || k.Against != "" || k.measures() || k.Statistic != "" || k.IntervalOver != "" || k.Relation != "" ||
		k.Value != 0 || k.Tolerance != 0 || k.LeastMessages != 0 || k.LinkMbps != 0
	switch {
	case decides:
		return errors.New("it says how to decide, but names no quantity, or a scenario that is not built")
	case k.NotBuilt == (k.NotTestable != ""):
		return errors.New("one of a quantity, not_built and not_testable is wanted")
	case k.NotBuilt && k.Scenario == "":
		return errors.New("it does not say which scenario is to decide it")
	}
	return nil
}

// checkStatistic looks whether the statistic has the systems that it wants, and
// no others.
func (k Check) checkStatistic() error {
	switch k.Statistic {
	case Median, MedianRatio, Greatest:
	default:
		return fmt.Errorf("statistic = %q: %q, %q or %q is wanted", k.Statistic, Median, MedianRatio, Greatest)
	}
	switch ratio := k.Statistic == MedianRatio; {
	case ratio && k.Against == "":
		return fmt.Errorf("statistic = %q wants the system that it is against", k.Statistic)
	case !ratio && k.Against != "":
		return fmt.Errorf("against = %q belongs to statistic = %q", k.Against, MedianRatio)
	}
	switch several := k.Statistic == Greatest; {
	case several && (k.System != "" || len(k.Systems) < 2):
		return fmt.Errorf("statistic = %q wants systems, two or more, and no system", k.Statistic)
	case !several && len(k.Systems) > 0:
		return fmt.Errorf("systems = %q belongs to statistic = %q", k.Systems, Greatest)
	}
	return nil
}

// checkInterval looks whether there is what the interval is to be over.
func (k Check) checkInterval() error {
	switch k.IntervalOver {
	case "":
	case OverMinutes:
		if k.Statistic != Median {
			return fmt.Errorf("interval = %q belongs to statistic = %q", OverMinutes, Median)
		}
		if !k.Quantity.HasMinutes() {
			return fmt.Errorf("interval = %q: %s is not known of each minute", OverMinutes, k.Quantity)
		}
	default:
		return fmt.Errorf("interval = %q: %q or nothing, for the repetitions, is wanted", k.IntervalOver, OverMinutes)
	}
	return nil
}

// measured are the systems that the check looks at.
func (k Check) measured() []string {
	switch k.Statistic {
	case Greatest:
		return k.Systems
	case MedianRatio:
		return []string{k.System, k.Against}
	}
	return []string{k.System}
}

func (k Check) checkNames(scenarios map[string][]string) error {
	systems, ok := scenarios[k.Scenario]
	if !ok {
		return fmt.Errorf("there is no scenario %q; not_built = true marks one that is to come", k.Scenario)
	}
	for _, y := range k.measured() {
		if !slices.Contains(systems, y) {
			return fmt.Errorf("scenario %s has no system %q, only %s", k.Scenario, y, strings.Join(systems, ", "))
		}
	}
	return nil
}

func (k Check) checkRelation() error {
	tolerant, valued := false, true
	switch k.Relation {
	case AtLeast, AtMost, MoreThan:
	case About, Exactly:
		tolerant = true
	case None, Some:
		valued = false
	default:
		return fmt.Errorf("relation = %q: %q, %q, %q, %q, %q, %q or %q is wanted", k.Relation, AtLeast, AtMost, MoreThan, About, Exactly, None, Some)
	}
	if valued && !(k.Value > 0) || math.IsInf(k.Value, 0) {
		return fmt.Errorf("value = %v: a number above 0 is wanted", k.Value)
	}
	if !valued && k.Value != 0 {
		return fmt.Errorf("value = %v: relation = %q wants none", k.Value, k.Relation)
	}
	if tolerant != (k.Tolerance > 0) || k.Tolerance >= 1 {
		return fmt.Errorf("tolerance = %v: %q and %q want one above 0 and below 1, and nothing else does", k.Tolerance, About, Exactly)
	}
	if k.LeastMessages < 0 {
		return fmt.Errorf("least_messages = %d: it cannot be below 0", k.LeastMessages)
	}
	return nil
}
