package resultfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// Result is a run as it was read, complete and checked.
type Result struct {
	Dir string // as it was given to Read
	Run Run

	points    map[string][]Point
	samples   map[string][]Sample
	latencies map[string]*Latency
	audits    map[string][]AuditWindow
	faults    []error
}

// Points returns the points of an attempt, in order; none if it has none. The
// caller must not change them.
func (r *Result) Points(attemptID string) []Point { return r.points[attemptID] }

// Samples returns the samples of an attempt, both hosts mixed, in order. The
// caller must not change them.
func (r *Result) Samples(attemptID string) []Sample { return r.samples[attemptID] }

// Faults returns what Salvage could not read, an error for each file, in the
// order of the attempts; nil after Read.
func (r *Result) Faults() []error { return r.faults }

// Read reads a run's folder. It is strict: an unknown schema or key, a series
// that goes back, or a valid attempt without points is an error that names
// file, line and value.
func Read(dir string) (*Result, error) {
	r, err := Salvage(dir)
	if err != nil {
		return nil, err
	}
	if len(r.faults) > 0 {
		return nil, r.faults[0]
	}
	return r, nil
}

// Salvage reads a run's folder of which some attempts may be damaged, for
// those who show it. An attempt whose points cannot be read, or that is valid
// without any, comes back as invalid with that reason; of one whose samples
// or latencies cannot be read a note says so. Faults lists them. A run.json that cannot be
// read is an error, as in Read: without it nothing is known of the rest.
func Salvage(dir string) (*Result, error) {
	run, err := readRun(dir)
	if err != nil {
		return nil, err
	}
	r := &Result{Dir: dir, Run: run, points: map[string][]Point{}, samples: map[string][]Sample{}, latencies: map[string]*Latency{}, audits: map[string][]AuditWindow{}}
	for i := range run.Attempts {
		r.readAttempt(&run.Attempts[i])
	}
	return r, nil
}

// readAttempt reads the series of an attempt of this result, and changes the
// attempt if they are damaged.
func (r *Result) readAttempt(a *Attempt) {
	path := pointsPath(r.Dir, a.ID)
	points, err := readFile(path, ReadPoints)
	if err == nil && a.Outcome == Valid && len(points) == 0 {
		err = fmt.Errorf("%s: attempt %q is valid but has no points", path, a.ID)
	}
	if err != nil {
		r.faults = append(r.faults, err)
		if a.Outcome == Valid {
			a.Outcome, a.Reason = Invalid, "its points cannot be read: "+r.inFolder(err)
		} else {
			a.Notes = append(a.Notes, "its points cannot be read: "+r.inFolder(err))
		}
	}
	samples, err := readFile(samplesPath(r.Dir, a.ID), ReadSamples)
	if err != nil {
		r.faults = append(r.faults, err)
		a.Notes = append(a.Notes, "its samples cannot be read: "+r.inFolder(err))
	}
	r.points[a.ID], r.samples[a.ID] = points, samples
	latency, err := readFile(latencyPath(r.Dir, a.ID), ReadLatency)
	if err != nil {
		r.faults = append(r.faults, err)
		a.Notes = append(a.Notes, "its latencies cannot be read: "+r.inFolder(err))
	}
	if latency != nil {
		r.latencies[a.ID] = latency
	}
	audit, err := readFile(auditPath(r.Dir, a.ID), ReadAudit)
	if err != nil {
		r.faults = append(r.faults, err)
		a.Notes = append(a.Notes, "what the audit said cannot be read: "+r.inFolder(err))
	}
	if audit != nil {
		r.audits[a.ID] = audit
	}
}

// inFolder is an error's text with paths as they are in the run's folder, so
// that it does not depend on where that is.
func (r *Result) inFolder(err error) string {
	return strings.ReplaceAll(err.Error(), filepath.Clean(r.Dir)+string(filepath.Separator), "")
}

func readRun(dir string) (Run, error) {
	path := runPath(dir)
	data, err := ReadBounded(path, maxRunBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Run{}, fmt.Errorf("%s holds no run: there is no %s in it: %w", dir, filepath.Base(path), err)
	}
	if err != nil {
		return Run{}, err
	}
	// The version first: another one may well have other keys.
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, jsonError(data, err))
	}
	if version.Schema != SchemaVersion && version.Schema != 1 {
		return Run{}, fmt.Errorf("%s: schema %d: this program reads schema 1 and %d", path, version.Schema, SchemaVersion)
	}
	var run Run
	if err := DecodeStrict(data, &run); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	run.Schema = SchemaVersion // version 1 has fewer keys, and those mean the same
	if err := run.Check(); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

// readFile reads a file of an attempt. One that does not exist is the zero
// value: an attempt that failed before its first message has no series.
func readFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	data, err := ReadBounded(path, maxSeriesBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	v, err := read(bytes.NewReader(data))
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}
