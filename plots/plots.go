// Package plots makes figures and tables of a run's result folder: Figures 4
// and 5 of the paper (NetDB'11 §5), and those of the other scenarios. It reads
// nothing else, so the same folder gives the same bytes at any time.
//
// A scenario says which chart shows it. Over data, as in the paper, a line is a
// system's rate over equal windows of data, derived from the cumulative points:
// for produce of what arrived at the broker, for consume of what was consumed.
// The others show quantities of whole attempts (a sweep, bars), what was sampled
// over the time of one, the latencies of all messages, or the delays to each tier of
// a pipeline with what its audit found complete.
//
// Only valid attempts count; every other one is named with its reason. What
// stands around a median is its 95 % interval, or with fewer than six repetitions
// the lowest and the highest, which the caption says. The captions say as well
// what was the limit by the samples of both hosts (resource.go has the rule),
// what the harness does by itself, what became of the messages, and in which
// settings the systems differ.
package plots

import (
	"fmt"
	"path/filepath"

	"kafkalab/results/resultfile"
)

// Draw draws the figures of a run and writes its tables, all into the folder
// out, which is made if need be; files of the same names are replaced, each as a
// whole. It returns the paths of what it wrote, in order.
//
// Each scenario gives <scenario>.png, .svg and .pdf. One whose chart is "over
// data" has there the axis that fits (logarithmic where systems differ by more
// than a factor of 20), the same with the other axis as <scenario>-linear or
// <scenario>-log, and <scenario>-extras where it has additions to the paper's
// figure. tables.md holds the rest, and at its beginning the tables given.
func Draw(r *resultfile.Result, out string, first ...NamedTable) ([]string, error) {
	var written []string
	for _, s := range r.Run.Scenarios {
		for _, n := range figuresOf(r, s) {
			paths, err := write(n.chart, filepath.Join(out, n.name), r)
			written = append(written, paths...)
			if err != nil {
				return written, err
			}
		}
	}
	page, err := Page(r, first...)
	if err != nil {
		return written, err
	}
	path := filepath.Join(out, "tables.md")
	if err := resultfile.ReplaceFile(path, page); err != nil {
		return written, err
	}
	return append(written, path), nil
}

type namedFigure struct {
	name  string // of the files, without an extension
	chart chart
}

// figuresOf makes the figures of a scenario: of the kind that it asks for.
func figuresOf(r *resultfile.Result, s resultfile.Scenario) []namedFigure {
	switch s.Chart {
	case resultfile.Sweep:
		return []namedFigure{{s.Name, newSweep(r, s)}}
	case resultfile.Bars:
		return []namedFigure{{s.Name, newBars(r, s)}}
	case resultfile.OverTime:
		return []namedFigure{{s.Name, newOverTime(r, s)}}
	case resultfile.Latencies:
		return []namedFigure{{s.Name, newLatencies(r, s)}}
	case resultfile.OverTiers:
		return []namedFigure{{s.Name, newTiers(r, s)}}
	}
	main := newFigure(r, s, paperView)
	other := "-log"
	if main.log {
		other = "-linear"
	}
	out := []namedFigure{{s.Name, main}, {s.Name + other, main.otherAxis()}}
	if hasExtras(s) {
		out = append(out, namedFigure{s.Name + "-extras", newFigure(r, s, extrasView)})
	}
	return out
}

// write writes a figure in all formats.
func write(f chart, base string, r *resultfile.Result) ([]string, error) {
	var written []string
	for _, format := range formats {
		data, err := render(f, format, r.Run.Started)
		if err != nil {
			return written, fmt.Errorf("figure %s.%s: %w", base, format, err)
		}
		path := base + "." + format
		if err := resultfile.ReplaceFile(path, data); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}
