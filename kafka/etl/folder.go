package etl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Folder is an output folder, see the package's comment. Its methods may be called
// by several processes at once, and those that change a local folder return
// [ErrBusy] to all but one.
type Folder struct {
	store store
	now   func() time.Time
	// keepRuns is how many published runs keep their manifests.
	keepRuns  int
	maxSplits int // of a plan
	// laid is the plan of the run that this process knows to be laid out for good. Not its
	// number: a folder that its user has removed begins anew.
	laid atomic.Pointer[string]
}

// keepRuns is enough to see what happened lately; only the newest run is needed.
const keepRuns = 100

// OpenFolder returns the output folder that is named: a path, or "hdfs://…", which is
// used by the command in [HDFSCommandVariable]. Nothing is made or read yet.
func OpenFolder(out string) (*Folder, error) {
	s, err := openStore(out)
	if err != nil {
		return nil, err
	}
	return newFolder(s), nil
}

func newFolder(s store) *Folder {
	return &Folder{store: s, now: time.Now, keepRuns: keepRuns, maxSplits: maxSplits}
}

// Input returns where a plan's splits are, one a line: the input of its job.
func (f *Folder) Input(plan string) string {
	return f.store.url(plansFolder + "/" + plan + "/" + splitsFile)
}

// Output returns the folder that the job of a plan is to make, and no one before it.
func (f *Folder) Output(plan string) string { return f.store.url(planOutput(plan)) }

// Bounds of what is read whole, in bytes.
const (
	maxStateBytes  = 256 << 20 // a plan, manifest or list of offsets
	maxResultBytes = 256 << 20 // of all tasks of a job
)

// readJSON reads a file that this package has written.
func (f *Folder) readJSON(ctx context.Context, name string, v any) error {
	b, err := f.store.read(ctx, maxStateBytes, name)
	if err != nil {
		return err
	}
	if err := parseStrictly(b, v); err != nil {
		return fmt.Errorf("%s: %w", f.store.url(name), err)
	}
	return nil
}

// jsonFile returns the file of a value.
func jsonFile(name string, v any) (content, error) {
	b, err := json.MarshalIndent(v, "", " ")
	return content{name, append(b, '\n')}, err
}

// newest returns the number of the last run that was published, 0 if there is none,
// and the numbers of all that are still there, growing.
func (f *Folder) newest(ctx context.Context) (run int64, all []int64, err error) {
	names, err := f.store.folders(ctx, runsFolder)
	if err != nil {
		return 0, nil, fmt.Errorf("look for published runs in %s: %w", f.store.url(runsFolder), err)
	}
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 && runFolder(n) == runsFolder+"/"+name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0, nil, nil
	}
	return all[len(all)-1], all, nil
}

// manifest returns the manifest of a run.
func (f *Folder) manifest(ctx context.Context, run int64) (*Manifest, error) {
	var m Manifest
	err := f.readJSON(ctx, runFolder(run)+"/"+manifestFile, &m)
	if err == nil {
		err = m.check(run)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest of run %d in %s: %w", run, f.store.url(runFolder(run)), err)
	}
	return &m, nil
}

// offsetsAt is the content of the file of offsets.
type offsetsAt struct {
	Run     int64    `json:"run"`
	Offsets []Offset `json:"offsets"`
}

// Offsets returns up to where each partition is loaded, by the last run that was
// published, sorted, and the number of that run: 0 and none before the first.
func (f *Folder) Offsets(ctx context.Context) (run int64, offsets []Offset, err error) {
	run, _, err = f.newest(ctx)
	if err != nil || run == 0 {
		return 0, nil, err
	}
	offsets, err = f.offsets(ctx, run)
	return run, offsets, err
}

func (f *Folder) offsets(ctx context.Context, run int64) ([]Offset, error) {
	if run == 0 {
		return nil, nil
	}
	var at offsetsAt
	err := f.readJSON(ctx, runFolder(run)+"/"+offsetsFile, &at)
	if err == nil && at.Run != run {
		err = fmt.Errorf("they are those of run %d", at.Run)
	}
	for _, o := range at.Offsets {
		if err == nil && o.Next < 0 {
			err = fmt.Errorf("%v at offset %d", o.Partition, o.Next)
		}
		if err == nil {
			err = o.Partition.check()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("offsets of run %d in %s: %w", run, f.store.url(runFolder(run)), err)
	}
	return at.Offsets, nil
}

// locked calls back with the number of the last run, which is laid out, while nobody
// else works in the folder.
func (f *Folder) locked(ctx context.Context, do func(run int64) error) (err error) {
	lock, err := f.store.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	run, err := f.recover(ctx)
	if err != nil {
		return err
	}
	return do(run)
}

// recover finishes what the last run may have left undone, as its process has died, and
// returns its number.
func (f *Folder) recover(ctx context.Context) (int64, error) {
	run, _, err := f.newest(ctx)
	if err != nil || run == 0 {
		return 0, err
	}
	m, err := f.manifest(ctx, run)
	if err != nil {
		return 0, err
	}
	return run, f.lay(ctx, m)
}

// lay makes the publication of a run safe, and moves its files to their places, those
// that are not there yet.
func (f *Folder) lay(ctx context.Context, m *Manifest) error {
	if done := f.laid.Load(); done != nil && *done == m.Plan {
		return nil
	}
	// Who has renamed the folder may not have come to sync that.
	if err := f.store.keep(ctx, []string{runsFolder}); err != nil {
		return fmt.Errorf("make safe that run %d is published: %w", m.Run, err)
	}
	if err := f.layOut(ctx, m); err != nil {
		return fmt.Errorf("lay out the files of run %d, which is published: %w (the next load goes on with it)", m.Run, err)
	}
	f.laid.Store(&m.Plan)
	return nil
}

func (f *Folder) layOut(ctx context.Context, m *Manifest) error {
	left, err := f.store.tree(ctx, runFolder(m.Run))
	if err != nil {
		return err
	}
	var moves []move
	var names, folders []string
	for _, p := range m.Files {
		names, folders = append(names, p.Name), append(folders, path.Dir(p.Name))
		from := runFolder(m.Run) + "/" + p.From
		length, found := left[from]
		switch {
		case !found: // it has been moved
		case length != p.Bytes:
			return fmt.Errorf("%s has %d bytes, and %d were published", f.store.url(from), length, p.Bytes)
		default:
			moves = append(moves, move{from, p.Name})
		}
	}
	if err := f.store.move(ctx, moves); err != nil {
		return err
	}
	slices.Sort(folders)
	// All of them: who has moved the others may have died before they were safe.
	if err := f.store.keep(ctx, slices.Compact(folders)); err != nil {
		return err
	}
	if len(moves) == 0 {
		return nil // what became of the files since they were laid out is their owner's business
	}
	there, err := f.store.lengths(ctx, names)
	if err != nil {
		return err
	}
	for _, p := range m.Files {
		if there[p.Name] != p.Bytes {
			return fmt.Errorf("%s has %d bytes, and %d were published", f.store.url(p.Name), there[p.Name], p.Bytes)
		}
	}
	return nil
}

// tidy removes plans and their output that can never be published any more, since their
// number is taken, and what is left of old runs. With mine, also that of loads on one
// machine that have died; the caller holds the lock.
func (f *Folder) tidy(ctx context.Context, mine bool) error {
	run, all, err := f.newest(ctx)
	if err != nil {
		return err
	}
	var old []string
	for _, folder := range []string{plansFolder, outputFolder} {
		names, err := f.store.folders(ctx, folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			n, err := planNumber(name)
			if err == nil && (n <= run || mine && isLocal(name)) {
				old = append(old, folder+"/"+name)
			}
		}
	}
	for _, n := range all {
		if n <= run-int64(f.keepRuns) {
			old = append(old, runFolder(n))
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := f.store.remove(ctx, old...); err != nil {
		return fmt.Errorf("remove what is out of date: %w", err)
	}
	return nil
}

// ErrOvertaken says that a plan goes on from offsets that are no longer the last
// published: another plan was published instead.
var ErrOvertaken = errors.New("another load was published since this plan was made: plan anew, nothing is lost")
