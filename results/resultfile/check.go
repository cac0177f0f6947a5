package resultfile

import (
	"errors"
	"fmt"
	"math"
	"regexp"
)

// Bounds on what is read, far above what the testbed writes: they keep a
// damaged or foreign file from taking all memory.
const (
	maxRunBytes    = 64 << 20 // run.json
	maxSeriesBytes = 64 << 20 // one CSV file
	maxAttempts    = 10_000
	maxNameBytes   = 200
)

// namePattern holds IDs and names that become file names.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// CheckName says whether a name can be an ID in a run, and so a file name.
func CheckName(name string) error {
	if len(name) > maxNameBytes || !namePattern.MatchString(name) {
		return fmt.Errorf("name %q: up to %d letters, digits and . _ + - are wanted, a letter or digit first", name, maxNameBytes)
	}
	return nil
}

// Check says what is wrong with a run: names that are used twice, attempts
// that belong to no system, values that do not exist.
func (r Run) Check() error {
	if r.Schema != SchemaVersion {
		return fmt.Errorf("schema %d: this program reads and writes schema %d", r.Schema, SchemaVersion)
	}
	if len(r.Attempts) > maxAttempts {
		return fmt.Errorf("%d attempts: at most %d are possible", len(r.Attempts), maxAttempts)
	}
	systems := make(map[[2]string]bool) // scenario and system
	scenarios := make(map[string]bool)
	for _, s := range r.Scenarios {
		if scenarios[s.Name] {
			return fmt.Errorf("scenario %q stands twice", s.Name)
		}
		scenarios[s.Name] = true
		if err := s.check(systems); err != nil {
			return fmt.Errorf("scenario %q: %w", s.Name, err)
		}
	}
	ids := make(map[string]bool)
	for _, a := range r.Attempts {
		if ids[a.ID] {
			return fmt.Errorf("attempt %q stands twice", a.ID)
		}
		ids[a.ID] = true
		if !systems[[2]string{a.Scenario, a.System}] {
			return fmt.Errorf("attempt %q: the run has no system %q in a scenario %q", a.ID, a.System, a.Scenario)
		}
		if err := a.Check(); err != nil {
			return fmt.Errorf("attempt %q: %w", a.ID, err)
		}
	}
	return nil
}

func (s Scenario) check(systems map[[2]string]bool) error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch s.Work {
	case Produce, Consume, Stream, Crash, Rebalance, Pipeline:
	default:
		return fmt.Errorf("work %q: %s, %s, %s, %s, %s or %s is wanted", s.Work, Produce, Consume, Stream, Crash, Rebalance, Pipeline)
	}
	switch s.Chart {
	case "", OverData, Sweep, Bars, OverTime, Latencies, OverTiers:
	default:
		return fmt.Errorf("chart %q: %s, %s, %s, %s, %s or %s is wanted", s.Chart, OverData, Sweep, Bars, OverTime, Latencies, OverTiers)
	}
	if s.Chart == Sweep && s.Axis == nil {
		return fmt.Errorf("chart %q without an axis", s.Chart)
	}
	if s.PayloadBytes <= 0 {
		return fmt.Errorf("payload_bytes %d: more than 0 is wanted", s.PayloadBytes)
	}
	for _, y := range s.Systems {
		if err := CheckName(y.ID); err != nil {
			return fmt.Errorf("system: %w", err)
		}
		key := [2]string{s.Name, y.ID}
		if systems[key] {
			return fmt.Errorf("system %q stands twice", y.ID)
		}
		systems[key] = true
		switch y.Role {
		case RoleSystem, RoleLimit, RoleExtra, RoleAlso:
		default:
			return fmt.Errorf("system %q: role %q: %s, %s, %s or %s is wanted", y.ID, y.Role, RoleSystem, RoleLimit, RoleExtra, RoleAlso)
		}
	}
	return nil
}

// Check says what is wrong with an attempt taken by itself.
func (a Attempt) Check() error {
	if err := CheckName(a.ID); err != nil {
		return err
	}
	switch a.Outcome {
	case Valid, Invalid, Failed, Interrupted, NotInstalled:
	default:
		return fmt.Errorf("outcome %q: %s, %s, %s, %s or %s is wanted", a.Outcome, Valid, Invalid, Failed, Interrupted, NotInstalled)
	}
	if a.Outcome != Valid && a.Reason == "" {
		return fmt.Errorf("outcome %q without a reason", a.Outcome)
	}
	if a.Repetition < 1 {
		return fmt.Errorf("repetition %d: they count from 1", a.Repetition)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"seconds", a.Seconds}, {"client_seconds", a.ClientSeconds},
		{"broker_cpu_seconds", a.BrokerCPUSeconds}, {"client_cpu_seconds", a.ClientCPUSeconds},
	} {
		if !nonNegative(f.value) {
			return fmt.Errorf("%s is %v: a number from 0 is wanted", f.name, f.value)
		}
	}
	for name, v := range a.Measures {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("measure %s is %v: a number is wanted", name, v)
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"messages", a.Messages}, {"payload_bytes", a.PayloadBytes}, {"stored_bytes", a.StoredBytes},
		{"client_messages", a.ClientMessages},
		{"lost", a.Lost}, {"doubled", a.Doubled}, {"damaged", a.Damaged}, {"reordered", a.Reordered},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s is %d: a number from 0 is wanted", f.name, f.value)
		}
	}
	if a.Outcome == Valid && (a.Messages == 0 || a.Seconds == 0) {
		return fmt.Errorf("outcome %q with %d messages in %v seconds", a.Outcome, a.Messages, a.Seconds)
	}
	if a.Seconds > 0 && math.IsInf(a.MessagesPerSecond(), 1) {
		return fmt.Errorf("%d messages in %v seconds: that is no rate", a.Messages, a.Seconds)
	}
	return nil
}

// errBroken marks a series that contradicts itself.
var errBroken = errors.New("broken series")

// CheckPoints says whether points are cumulative: from 0 up and never back.
// The error names the first point, counted from 1, that is not.
func CheckPoints(points []Point) error {
	var before Point
	for i, p := range points {
		if err := checkPoint(before, p); err != nil {
			return fmt.Errorf("point %d: %w", i+1, err)
		}
		before = p
	}
	return nil
}

func checkPoint(before, p Point) error {
	switch {
	case !nonNegative(p.Seconds):
		return fmt.Errorf("%w: seconds is %v", errBroken, p.Seconds)
	case p.Seconds < before.Seconds:
		return fmt.Errorf("%w: seconds goes back from %v to %v", errBroken, before.Seconds, p.Seconds)
	case p.Messages < before.Messages:
		return fmt.Errorf("%w: messages goes back from %d to %d", errBroken, before.Messages, p.Messages)
	case p.Bytes < before.Bytes:
		return fmt.Errorf("%w: bytes goes back from %d to %d", errBroken, before.Bytes, p.Bytes)
	case p.Arrived < before.Arrived:
		return fmt.Errorf("%w: arrived goes back from %d to %d", errBroken, before.Arrived, p.Arrived)
	}
	return nil
}

func checkSample(s Sample) error {
	for _, v := range []float64{s.Seconds, s.CPUSeconds, s.ProcessSeconds} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %v is no number", errBroken, v)
		}
	}
	return nil
}

func nonNegative(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
