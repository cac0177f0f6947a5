package runner

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// measure keeps a number of an attempt by its name, whose end says the unit.
func (t *trial) measure(name string, value float64) {
	if t.attempt.Measures == nil {
		t.attempt.Measures = map[string]float64{}
	}
	t.attempt.Measures[name] = value
}

// storedFiles is the space that each file of the server's store takes on disk, by its
// path below the store.
func (a *attempt) storedFiles(ctx context.Context) (map[string]int64, error) {
	// A file that vanishes meanwhile is not counted.
	listed, err := a.Broker.Run(ctx, "/bin/sh", "-c", `find "$1" -type f -printf '%b %P\0' 2>/dev/null || :`, "find", a.server.StoreDir())
	if err != nil {
		return nil, fmt.Errorf("files of the store: %w", err)
	}
	return parseFiles(string(listed))
}

// blockBytes is the unit in which find tells what a file takes.
const blockBytes = 512

// parseFiles reads files, each told as "<blocks> <path>" with a zero byte behind it.
func parseFiles(listed string) (map[string]int64, error) {
	files := map[string]int64{}
	for file := range strings.SplitSeq(listed, "\x00") {
		if file == "" {
			continue
		}
		blocks, name, _ := strings.Cut(file, " ")
		n, err := strconv.ParseInt(blocks, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("files of the store: %q: a number of blocks and a path are wanted", file)
		}
		files[name] = n * blockBytes
	}
	return files, nil
}

// growth is by how much each file has grown. One that has become smaller, or is
// gone, has lost what was there before: kept apart, that is removed, else it has
// grown by less than nothing.
func growth(before, after map[string]int64, apart bool) (grown map[string]int64, removed int64) {
	grown = maps.Clone(after)
	for name, bytes := range before {
		grown[name] -= bytes
		if apart && grown[name] < 0 {
			removed -= grown[name]
			delete(grown, name)
		}
	}
	return grown, removed
}

// splitStore adds up files by the part of the store that they belong to: the first
// one with a pattern that matches.
func splitStore(files map[string]int64, parts []driver.StorePart) (map[string]int64, error) {
	sum := map[string]int64{}
	for _, p := range parts {
		sum[p.Name] = 0
	}
	for name, bytes := range files {
		part, err := partOf(name, parts)
		if err != nil {
			return nil, err
		}
		if part != "" {
			sum[part] += bytes
		}
	}
	return sum, nil
}

func partOf(file string, parts []driver.StorePart) (string, error) {
	for _, p := range parts {
		for _, glob := range p.Globs {
			ok, err := path.Match(glob, file)
			if err != nil {
				return "", fmt.Errorf("part %q of the store: pattern %q: %w", p.Name, glob, err)
			}
			if ok {
				return p.Name, nil
			}
		}
	}
	return "", nil
}

// measureStore keeps by how much each part of the store has grown, and what has
// grown besides as "other", if the server says what its files are for. Of an attempt
// that produces it keeps apart what was removed meanwhile: a broker may do that with
// what it had for the warm-up, long after, and would seem to need less for what is
// measured.
func (a *attempt) measureStore(after map[string]int64) error {
	grown, removed := growth(a.filesBefore, after, a.spec.Work == resultfile.Produce)
	if removed > 0 {
		a.trial.measure("store_removed_bytes", float64(removed))
	}
	splitter, ok := a.server.(driver.StoreSplitter)
	if !ok {
		return nil
	}
	parts, err := splitStore(grown, splitter.StoreParts())
	if err != nil {
		return err
	}
	other := a.trial.attempt.StoreBytesAfter - a.trial.attempt.StoreBytesBefore + removed
	for name, bytes := range parts {
		other -= bytes
		a.trial.measure("store_"+name+"_bytes", float64(bytes))
	}
	a.trial.measure("store_other_bytes", float64(other))
	return nil
}

// measureSamples keeps what only the samples of the broker's host can tell.
// What no sampler saw is left out.
func (a *attempt) measureSamples() {
	var of []resultfile.Sample
	for _, s := range a.trial.samples {
		if s.Host == a.Broker.Name() {
			of = append(of, s)
		}
	}
	if len(of) == 0 || len(a.server.Processes()) == 0 {
		return
	}
	var peak int64
	for _, s := range of {
		peak = max(peak, s.ProcessResidentBytes)
	}
	if peak > 0 {
		a.trial.measure("broker_resident_peak_bytes", float64(peak))
	}
	if a.metricsURL() != "" {
		a.trial.measure("broker_gc_seconds", of[len(of)-1].GCSeconds-of[0].GCSeconds)
	}
}

// metricsURL is where the server shows the metrics of its own runtime, "" if it
// does not.
func (a *attempt) metricsURL() string {
	if m, ok := a.server.(driver.MetricsServer); ok {
		return m.MetricsURL()
	}
	return ""
}
