package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/results/resultfile"
)

// Library is a set of scenario files.
type Library struct{ files fs.FS }

// NewLibrary returns the library of the scenario files (*.toml) in the root of
// files. Files whose name begins with "testbed" describe hosts and are left
// out.
func NewLibrary(files fs.FS) Library { return Library{files} }

// Names lists the scenarios, sorted.
func (l Library) Names() ([]string, error) {
	found, err := fs.Glob(l.files, "*.toml")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range found {
		if !strings.HasPrefix(f, "testbed") {
			names = append(names, strings.TrimSuffix(f, ".toml"))
		}
	}
	slices.Sort(names) // without the ending, so that "backlog" stands before "backlog-consume"
	return names, nil
}

// Entry is a scenario as a list shows it.
type Entry struct {
	Name    string          `json:"name"`
	Title   string          `json:"title"`
	Purpose string          `json:"purpose"`
	Limit   string          `json:"limit,omitempty"` // what the hardware allows, with its arithmetic
	Work    resultfile.Work `json:"work,omitempty"`
	Include []string        `json:"include,omitempty"` // the scenarios that it runs
	Systems []EntrySystem   `json:"systems,omitempty"`
}

// EntrySystem is a system as a list shows it.
type EntrySystem struct {
	ID        string `json:"id"`
	Label     string `json:"label"`
	Role      string `json:"role"`
	OnRequest bool   `json:"on_request,omitempty"` // not measured unless it is named
}

// List describes every scenario of the library.
func (l Library) List() ([]Entry, error) {
	names, err := l.Names()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, name := range names {
		e, err := l.Describe(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Describe describes one scenario, by its name or by the path of its file.
func (l Library) Describe(name string) (Entry, error) {
	f, _, err := l.read(name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Name: f.Name, Title: f.Title, Purpose: f.Purpose, Limit: f.Limit, Work: resultfile.Work(f.Work), Include: f.Include}
	for _, s := range f.Systems {
		e.Systems = append(e.Systems, EntrySystem{ID: s.ID, Label: s.Label, Role: s.Role, OnRequest: s.OnRequest})
	}
	return e, nil
}

// read reads the scenario of that name from the library, or from a path if it
// looks like one.
func (l Library) read(name string) (file, []byte, error) {
	var text []byte
	var err error
	base := name
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".toml") {
		base = strings.TrimSuffix(filepath.Base(name), ".toml")
		text, err = os.ReadFile(name)
	} else {
		text, err = fs.ReadFile(l.files, name+".toml")
	}
	if errors.Is(err, fs.ErrNotExist) {
		names, listErr := l.Names()
		if listErr != nil {
			return file{}, nil, listErr
		}
		return file{}, nil, fmt.Errorf("no scenario %q%s (a path to a .toml file is taken too)", name, suggest(name, names))
	}
	if err != nil {
		return file{}, nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	f, err := parse(base+".toml", text)
	if err == nil && f.Name != base {
		err = fmt.Errorf("%s.toml: name = %q: the name of the file, %q, is wanted", base, f.Name, base)
	}
	return f, text, err
}
