package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kafkalab/harness/runner"
	"kafkalab/results/resultfile"
)

// takesFiles looks before anything is measured whether results can be written
// to a folder, which it makes.
func takesFiles(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(folder, ".writable-"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("results cannot be written to %s: %w: name another folder with --out", folder, err)
	}
	return nil
}

// results makes the run's folder, or opens that of the run to go on with.
func (f *runFlags) results(plan runner.Plan, run resultfile.Run) (w *resultfile.Writer, err error) {
	sel := plan.Selection
	if plan.Before != nil {
		return reopen(f.resume, run, sel)
	}
	_, err = timedFolder(f.out, run.Started, strings.Join(baseNames(sel.Names), "-"), func(dir string) error {
		w, err = resultfile.Create(dir, run)
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, text := range sel.Files {
		if err := w.PutScenario(name, text); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// maxSameSecond bounds the search for a folder's name.
const maxSameSecond = 99

// timedFolder has create make a folder in out that is named after the moment in
// which it began and what it holds. Nothing is overwritten: where another one
// began in the same second it gets a number, so that they still sort by their
// beginning.
func timedFolder(out string, began time.Time, what string, create func(dir string) error) (dir string, err error) {
	name := filepath.Join(out, began.Format("20060102T150405Z")+"-"+what)
	dir = name
	err = create(dir)
	for n := 2; errors.Is(err, fs.ErrExist) && n <= maxSameSecond; n++ {
		dir = fmt.Sprintf("%s-%d", name, n)
		err = create(dir)
	}
	return dir, err
}

// baseNames turns paths of scenario files into names.
func baseNames(names []string) []string {
	var base []string
	for _, n := range names {
		base = append(base, strings.TrimSuffix(filepath.Base(n), ".toml"))
	}
	return base
}
