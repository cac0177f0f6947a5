package etl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// jobEnded is what Hadoop's committer makes last, in the folder of a job.
const jobEnded = "_SUCCESS"

// Commit publishes what the tasks of a plan have made, see the package's comment. The
// results are read from the files part-* of the folder that the job has made. It
// refuses them unless the job has ended well, each split has exactly one, which covers
// exactly its offsets, and each file is there with its length. It may be repeated at any time, also after
// it was killed: of a plan that is published it lays out what is left, and returns
// its manifest again. [ErrOvertaken] means that the plan can never be published.
func (f *Folder) Commit(ctx context.Context, planID string) (m *Manifest, err error) {
	n, err := planNumber(planID)
	if err != nil {
		return nil, err
	}
	err = f.locked(ctx, func(run int64) error {
		if m, err = f.published(ctx, planID, n, run); err == nil && m == nil {
			m, err = f.commitJob(ctx, planID)
		}
		return err
	})
	return m, err
}

// commitJob publishes what the job of a plan has made. The caller holds the lock.
func (f *Folder) commitJob(ctx context.Context, planID string) (*Manifest, error) {
	var plan Plan
	if err := f.readJSON(ctx, plansFolder+"/"+planID+"/"+planFile, &plan); err != nil {
		return nil, fmt.Errorf("read plan %s: %w", planID, err)
	}
	if plan.ID != planID {
		return nil, fmt.Errorf("plan %s: the file is that of plan %.100q", planID, plan.ID)
	}
	made, err := f.store.tree(ctx, planOutput(planID))
	if err != nil {
		return nil, fmt.Errorf("look for what the tasks of plan %s have made: %w", planID, err)
	}
	if _, ended := made[planOutput(planID)+"/"+jobEnded]; !ended {
		return nil, fmt.Errorf("plan %s is not published: %s has no file %s, so its job has not ended well. Remove that folder and run the job again, or plan anew", planID, f.Output(planID), jobEnded)
	}
	results, err := f.jobResults(ctx, planID, made)
	if err != nil {
		return nil, err
	}
	m, err := f.commit(ctx, &plan, results, made)
	if err != nil {
		return nil, err
	}
	return m, f.tidy(ctx, false)
}

// published returns the manifest of a plan that has been published as run n, or nil if
// it can be behind the last run. It returns [ErrOvertaken] if it can not.
func (f *Folder) published(ctx context.Context, planID string, n, run int64) (*Manifest, error) {
	switch {
	case run == n-1:
		return nil, nil
	case run < n-1:
		return nil, fmt.Errorf("plan %s goes on from run %d, and the last one that is published in %s is %d", planID, n-1, f.store.url(""), run)
	}
	m, err := f.manifest(ctx, n)
	if errors.Is(err, errMissing) || err == nil && m.Plan != planID {
		return nil, fmt.Errorf("plan %s: %w", planID, ErrOvertaken)
	}
	return m, err
}

// result is a result and the folder below the plan's output which holds its files.
type result struct {
	Result
	folder string
}

// jobResults reads what the tasks of a job have printed.
func (f *Folder) jobResults(ctx context.Context, planID string, made map[string]int64) ([]result, error) {
	var parts []string
	for name := range made {
		folder, base := path.Split(name)
		if folder != planOutput(planID)+"/" || !strings.HasPrefix(base, "part-") {
			continue
		}
		if strings.Contains(base, ".") {
			return nil, fmt.Errorf("results of plan %s: %s is compressed: run the job with -D mapreduce.output.fileoutputformat.compress=false", planID, f.store.url(name))
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return nil, nil // each split will be missed
	}
	slices.Sort(parts)
	var results []result
	text, err := f.store.read(ctx, maxResultBytes, parts...)
	if err != nil {
		return nil, fmt.Errorf("read the results of plan %s: %w", planID, err)
	}
	lines, err := parseResults(text)
	if err != nil {
		return nil, fmt.Errorf("results of plan %s: %w", planID, err)
	}
	for _, r := range lines {
		results = append(results, result{r, filesFolder})
	}
	return results, nil
}

// commit checks the results of a plan, publishes them, and lays them out. made are the
// files that the tasks have made, with their lengths. The caller holds the lock and
// has finished the run before.
func (f *Folder) commit(ctx context.Context, plan *Plan, results []result, made map[string]int64) (*Manifest, error) {
	run, err := planNumber(plan.ID)
	if err != nil {
		return nil, err
	}
	base, err := f.offsets(ctx, run-1)
	if err != nil {
		return nil, err
	}
	if err := plan.check(base); err != nil {
		return nil, err
	}
	m := &Manifest{Run: run, Plan: plan.ID, MadeMs: f.now().UnixMilli(), Files: []Published{}, Problems: plan.Problems, Splits: len(plan.Splits)}
	m.Gaps = append(m.Gaps, plan.Gaps...)
	output := planOutput(plan.ID)
	if err := m.gather(plan, results, func(from string) (int64, bool) {
		length, found := made[output+"/"+from]
		return length, found
	}); err != nil {
		return nil, fmt.Errorf("plan %s is not published: %w", plan.ID, err)
	}
	if err := f.publish(ctx, output, m, plan.Offsets); err != nil {
		return nil, fmt.Errorf("publish run %d of plan %s: %w", run, plan.ID, err)
	}
	return m, f.lay(ctx, m)
}

// gather puts the files of the results together, which must be one for each split.
// made returns the length of a file below the plan's output.
func (m *Manifest) gather(plan *Plan, results []result, made func(from string) (int64, bool)) error {
	of := make([]*result, len(plan.Splits))
	for i := range results {
		r := &results[i]
		if r.Number < 0 || r.Number >= len(of) {
			return fmt.Errorf("there is a result of split %d, and the plan has %d", r.Number, len(of))
		}
		if of[r.Number] != nil {
			return fmt.Errorf("%v has more than one result: the job kept the output of two attempts", plan.Splits[r.Number])
		}
		of[r.Number] = r
	}
	for i, r := range of {
		s := plan.Splits[i]
		if r == nil {
			return fmt.Errorf("%v has no result: the job has not ended well", s)
		}
		if err := r.covers(s); err != nil {
			return err
		}
		for _, file := range r.Files {
			from := path.Join(r.folder, file.Name)
			if length, found := made(from); !found || length != file.Bytes {
				return fmt.Errorf("%v: file %s has %d bytes, and its task tells of %d", s, from, length, file.Bytes)
			}
			m.Files = append(m.Files, Published{From: from, Made: file})
		}
		m.Gaps = append(m.Gaps, r.Gaps...)
		m.Counts.add(r.Counts)
	}
	return nil
}

// publish writes manifest and offsets beside the files and gives the folder its name.
func (f *Folder) publish(ctx context.Context, output string, m *Manifest, offsets []Offset) error {
	manifest, err := jsonFile(manifestFile, m)
	if err != nil {
		return err
	}
	next, err := jsonFile(offsetsFile, offsetsAt{m.Run, offsets})
	if err != nil {
		return err
	}
	if err := f.store.write(ctx, output, manifest, next); err != nil {
		return err
	}
	if err := f.store.settle(ctx, output); err != nil {
		return err
	}
	if err := f.store.publish(ctx, output, runFolder(m.Run)); err != nil {
		// It may have happened all the same, or another one was faster.
		return errors.Join(err, f.isPublished(ctx, m))
	}
	return f.isPublished(ctx, m)
}

// isPublished returns nil if a run is that of a manifest.
func (f *Folder) isPublished(ctx context.Context, m *Manifest) error {
	there, err := f.manifest(ctx, m.Run)
	if err == nil && there.Plan != m.Plan {
		err = fmt.Errorf("plan %s: %w", m.Plan, ErrOvertaken)
	}
	return err
}
