package resultfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Writer keeps a run's folder. Whatever happens, the folder can be read: every
// file is replaced as a whole, and run.json only after what it speaks of. Its
// methods may be called at once by several goroutines.
type Writer struct {
	dir  string
	lock *os.File // the folder itself, locked against a second writer

	mu   sync.Mutex
	run  Run
	open map[string]bool // begun by this writer and not yet put
}

// Create makes the folder of a new run. A folder that exists is refused, for
// nothing that was measured is ever overwritten. An empty run.Name becomes the
// folder's.
func Create(dir string, run Run) (*Writer, error) {
	run.Schema = SchemaVersion
	if run.Name == "" {
		run.Name = filepath.Base(dir)
	}
	if err := run.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists: a run is never written over another; choose another folder, or go on with the run in it by --resume (%w)", dir, fs.ErrExist)
		}
		return nil, err
	}
	w, err := newWriter(dir, run)
	if err != nil {
		return nil, err
	}
	if err := w.save(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Open opens the folder of a run to go on with it. It is read under the lock: what
// another writer has put meanwhile would else be written over.
func Open(dir string) (*Writer, error) {
	w, err := newWriter(dir, Run{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no run: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	r, err := Read(dir)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.run = r.Run
	return w, nil
}

func newWriter(dir string, run Run) (*Writer, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another testbed is writing to it: %w", dir, err), lock.Close())
	}
	return &Writer{dir: dir, lock: lock, run: run, open: map[string]bool{}}, nil
}

// Close lets go of the folder. It is idempotent; everything was written before.
func (w *Writer) Close() error {
	if err := w.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Dir is the run's folder.
func (w *Writer) Dir() string { return w.dir }

// Run returns the run as it stands.
func (w *Writer) Run() Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.run
	run.Attempts = slices.Clone(run.Attempts)
	return run
}

// Update replaces what the run says of itself: its end, its testbed, its
// scenarios. The attempts stay as they are, whatever run.Attempts holds.
func (w *Writer) Update(run Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.Schema, run.Name, run.Attempts = SchemaVersion, w.run.Name, w.run.Attempts
	return w.replace(run)
}

// Begin enters an attempt that is about to run, and returns it with the ID to
// use: <scenario>-<system>-<repetition>, and -again2, -again3, … behind it
// when this repetition was tried before. Until it is put, the run lists it as
// interrupted, so that an attempt stays on record even when the testbed or the
// machine dies in it.
func (w *Writer) Begin(a Attempt) (Attempt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := fmt.Sprintf("%s-%s-%d", a.Scenario, a.System, a.Repetition)
	a.ID = base
	for n := 2; w.index(a.ID) >= 0; n++ {
		a.ID = fmt.Sprintf("%s-again%d", base, n)
	}
	entry := a
	entry.Outcome, entry.Reason = Interrupted, "the testbed ended while it ran"
	if err := w.put(entry); err != nil {
		return a, err
	}
	w.open[a.ID] = true
	return a, nil
}

// PutAttempt writes an attempt that has ended, with its points and samples:
// one that was begun, or one that could not begin and has a new ID. The entry
// of an attempt that was put before is never changed.
//
// Points that go back make the attempt invalid: it is kept, with the points
// as they are in points/<attempt>.broken.csv, and the error says so too.
func (w *Writer) PutAttempt(a Attempt, points []Point, samples []Sample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := CheckName(a.ID); err != nil {
		return err
	}
	if w.index(a.ID) >= 0 && !w.open[a.ID] {
		return fmt.Errorf("attempt %q is in %s already: begin another one", a.ID, w.dir)
	}
	path := pointsPath(w.dir, a.ID)
	broken := CheckPoints(points)
	if broken == nil && a.Outcome == Valid && len(points) == 0 {
		broken = fmt.Errorf("%w: there is no point", errBroken)
	}
	if broken != nil {
		path = brokenPath(w.dir, a.ID)
		broken = fmt.Errorf("attempt %q: %w", a.ID, broken)
		if a.Outcome == Valid {
			a.Outcome, a.Reason = Invalid, broken.Error()
		} else {
			a.Notes = append(slices.Clone(a.Notes), broken.Error())
		}
	}
	if err := writeSeries(path, points, WritePoints); err != nil {
		return err
	}
	if err := writeSeries(samplesPath(w.dir, a.ID), samples, WriteSamples); err != nil {
		return err
	}
	if err := w.put(a); err != nil {
		return err
	}
	delete(w.open, a.ID)
	return broken
}

// PutScenario keeps a scenario's file as it was read.
func (w *Writer) PutScenario(name string, toml []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return ReplaceFile(filepath.Join(w.dir, "scenarios", name+".toml"), toml)
}

// LogDir is the folder for the logs of an attempt. It is made.
func (w *Writer) LogDir(attemptID string) (string, error) {
	if err := CheckName(attemptID); err != nil {
		return "", err
	}
	dir := filepath.Join(w.dir, "logs", attemptID)
	return dir, os.MkdirAll(dir, 0o755)
}

// Path is the path of a file or folder in the run's folder.
func (w *Writer) Path(elements ...string) string {
	return filepath.Join(append([]string{w.dir}, elements...)...)
}

// index is the attempt's place in the run, or -1. The caller holds w.mu, as
// for the methods below.
func (w *Writer) index(id string) int {
	return slices.IndexFunc(w.run.Attempts, func(a Attempt) bool { return a.ID == id })
}

func (w *Writer) put(a Attempt) error {
	run := w.run
	run.Attempts = slices.Clone(run.Attempts)
	if i := w.index(a.ID); i >= 0 {
		run.Attempts[i] = a
	} else {
		run.Attempts = append(run.Attempts, a)
	}
	return w.replace(run)
}

// replace makes run the writer's, but only if it is right and was written.
func (w *Writer) replace(run Run) error {
	if err := run.Check(); err != nil {
		return err
	}
	before := w.run
	w.run = run
	if err := w.save(); err != nil {
		w.run = before
		return err
	}
	return nil
}

func (w *Writer) save() error {
	data, err := json.MarshalIndent(w.run, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(runPath(w.dir), append(data, '\n'))
}

func writeSeries[T any](path string, series []T, write func(io.Writer, []T) error) error {
	var b bytes.Buffer
	if err := write(&b, series); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return ReplaceFile(path, b.Bytes())
}

func runPath(dir string) string { return filepath.Join(dir, "run.json") }

func pointsPath(dir, id string) string { return filepath.Join(dir, "points", id+".csv") }

func brokenPath(dir, id string) string { return filepath.Join(dir, "points", id+".broken.csv") }

func samplesPath(dir, id string) string { return filepath.Join(dir, "samples", id+".csv") }
