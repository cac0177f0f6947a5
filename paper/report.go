package paper

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

//go:embed deviations.md
var deviations string

// The names of a report's files.
const (
	HTMLName     = "report.html"
	MarkdownName = "REPORT.md"
)

// Report is what the runs say: the verdicts, and every run with its figures
// and tables.
type Report struct {
	Claims     []Judged
	Goals      []JudgedGoal // none where no run has a number of any
	Runs       []RunPart    // by their names, which begin with the time
	Drawn      []DrawnPart  // in the same order
	Views      []ViewsRow
	Arrays     []Array
	Unmeasured []string // scenarios of which no run is here
	Broken     []Broken
}

// RunPart is a run in a report.
type RunPart struct {
	Run      resultfile.Run
	Anchor   string // in the page
	Link     string // to its folder, relative to that of the report, with a slash at its end
	Line     string // what must be known to compare it
	Hosts    string // where it took place, in a sentence
	Label    string // as its figures have it: "emulated", say, else ""
	Sections []plots.Section
	HostFact *plots.Table
	Around   string   // the conditions
	Faults   []string // of files that could not be read
	Valid    int      // attempts

	dir string
}

// Broken is a folder that could not be read as a run.
type Broken struct {
	Link string // to it, relative to the report's folder
	Why  string
}

// New reads the runs and drawings in dirs, in any order, judges the claims by
// the runs, and makes a report that is to stand in the folder out. A folder
// that cannot be read is named in it and takes no other one down; it is an
// error if none can.
// scenarios holds the system IDs of every scenario that exists.
func New(dirs []string, out string, scenarios map[string][]string) (*Report, error) {
	claims, err := LoadClaims(scenarios)
	if err != nil {
		return nil, err
	}
	goals, err := LoadGoals(scenarios)
	if err != nil {
		return nil, err
	}
	report := &Report{}
	var runs []*resultfile.Result
	var failures []error
	for i, dir := range unique(dirs) {
		link, err := linkTo(out, dir)
		if err != nil {
			return nil, err
		}
		if plots.HoldsDrawings(dir) {
			drawn, err := newDrawnPart(dir, link)
			if err != nil {
				failures = append(failures, err)
				report.Broken = append(report.Broken, Broken{Link: link, Why: inFolder(err, dir)})
				continue
			}
			drawn.Anchor = "drawn-" + strconv.Itoa(i+1)
			report.Drawn = append(report.Drawn, drawn)
			continue
		}
		r, err := resultfile.Salvage(dir)
		var part RunPart
		if err == nil {
			part, err = newPart(r, link)
		}
		if err != nil {
			failures = append(failures, err)
			report.Broken = append(report.Broken, Broken{Link: link, Why: inFolder(err, dir)})
			continue
		}
		part.Anchor = "run-" + strconv.Itoa(i+1)
		runs = append(runs, r)
		report.Runs = append(report.Runs, part)
	}
	if len(runs)+len(report.Drawn) == 0 {
		return nil, errors.Join(append([]error{errors.New("there is no run to report on")}, failures...)...)
	}
	report.Claims, report.Goals = claims.Judge(runs, scenarios), goals.JudgeAll(runs)
	report.Views, report.Arrays, report.Unmeasured = report.views(runs), report.arrays(runs), unmeasured(runs, scenarios)
	return report, nil
}

// unmeasured are the scenarios of which no run is here, sorted; those that only
// stand for others are left out.
func unmeasured(runs []*resultfile.Result, scenarios map[string][]string) []string {
	var out []string
	for name, systems := range scenarios {
		measured := slices.ContainsFunc(runs, func(r *resultfile.Result) bool {
			return slices.ContainsFunc(r.Run.Scenarios, func(s resultfile.Scenario) bool { return s.Name == name })
		})
		if !measured && len(systems) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// unique returns the folders once each, by their names.
func unique(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, dir := range dirs {
		out[i] = filepath.Clean(dir)
	}
	slices.SortFunc(out, func(a, b string) int {
		if c := strings.Compare(filepath.Base(a), filepath.Base(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}

func newPart(r *resultfile.Result, link string) (RunPart, error) {
	sections, err := plots.Sections(r)
	if err != nil {
		return RunPart{}, err
	}
	p := RunPart{
		Run: r.Run, Link: link, Line: plots.RunLine(r.Run), Hosts: plots.HostsLine(r.Run.Testbed),
		Label: plots.Mark(r.Run.Testbed), Sections: sections, HostFact: plots.Hosts(r.Run.Testbed), Around: environment(r.Run), dir: r.Dir,
	}
	for _, fault := range r.Faults() {
		p.Faults = append(p.Faults, inFolder(fault, r.Dir))
	}
	for _, a := range r.Run.Attempts {
		if a.Outcome == resultfile.Valid {
			p.Valid++
		}
	}
	return p, nil
}

// part returns the part of a run.
func (r *Report) part(run *resultfile.Result) RunPart {
	i := slices.IndexFunc(r.Runs, func(p RunPart) bool { return p.dir == run.Dir })
	return r.Runs[i] // every run that was judged has one
}

// linkTo is the relative path from one folder to another, as in a URL.
func linkTo(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return "", err
	}
	u := url.URL{Path: filepath.ToSlash(rel) + "/"}
	return u.String(), nil
}

// inFolder is an error's text with paths as they are in the run's folder, so
// that a report does not depend on where that is.
func inFolder(err error, dir string) string {
	s := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	return strings.ReplaceAll(s, dir, filepath.Base(dir))
}

// Write writes both forms of the report into the folder out, which is made if
// need be, and returns their paths. Files of the same names are replaced.
func (r *Report) Write(out string) ([]string, error) {
	var written []string
	for _, f := range []struct {
		name string
		make func() ([]byte, error)
	}{{HTMLName, r.HTML}, {MarkdownName, r.Markdown}} {
		data, err := f.make()
		if err != nil {
			return written, fmt.Errorf("%s: %w", f.name, err)
		}
		path := filepath.Join(out, f.name)
		if err := resultfile.ReplaceFile(path, data); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// State says how complete a run is.
func (p RunPart) State() string {
	s := fmt.Sprintf("%d of %d attempts are valid", p.Valid, len(p.Run.Attempts))
	switch {
	case p.Run.Interrupted:
		s += "; the run was interrupted before every attempt was made"
	case p.Run.Ended.IsZero():
		s += "; the run did not come to its end"
	}
	return s + "."
}

// Origin says when, at which commit and by which command a run was made.
func (p RunPart) Origin() string {
	return fmt.Sprintf("Started %s; order of the systems by seed %d; command: %s", p.Run.Started.UTC().Format(time.RFC3339), p.Run.Seed, p.Run.Command)
}

// hasFile says whether a file stands in the run's folder.
func (p RunPart) hasFile(name string) bool {
	_, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(name)))
	return err == nil
}

// svgHead is the first tag of a drawing, with its size.
var svgHead = regexp.MustCompile(`(?s)^.*?<svg [^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"[^>]*>`)

// roomForFonts is how much wider a drawing is made, as a share of its width,
// for readers whose fonts run wider than those that it was laid out with.
const roomForFonts = 0.08

// inlineSVG makes a drawing a part of a page: without a head of its own, and
// as wide as there is room.
func inlineSVG(svg []byte) ([]byte, error) {
	head := svgHead.FindSubmatchIndex(svg)
	if head == nil {
		return nil, errors.New("a drawing without a viewBox from 0 0")
	}
	width, err := strconv.ParseFloat(string(svg[head[2]:head[3]]), 64)
	if err != nil {
		return nil, err
	}
	tag := fmt.Sprintf(`<svg role="img" viewBox="0 0 %.0f %s">`, width*(1+roomForFonts), svg[head[4]:head[5]])
	return append([]byte(tag), svg[head[1]:]...), nil
}
