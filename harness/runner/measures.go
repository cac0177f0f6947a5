package runner

import (
	"context"
	"fmt"
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

// storeParts is the space that the parts of the server's store take on disk, by
// name; nil if the server does not say what its files are for.
func (a *attempt) storeParts(ctx context.Context) (map[string]int64, error) {
	splitter, ok := a.server.(driver.StoreSplitter)
	if !ok {
		return nil, nil
	}
	// A file that vanishes meanwhile is not counted.
	listed, err := a.Broker.Run(ctx, "/bin/sh", "-c", `find "$1" -type f -printf '%b %P\0' 2>/dev/null || :`, "find", a.server.StoreDir())
	if err != nil {
		return nil, fmt.Errorf("files of the store: %w", err)
	}
	return splitStore(string(listed), splitter.StoreParts())
}

// blockBytes is the unit in which find tells what a file takes.
const blockBytes = 512

// splitStore adds up files, each told as "<blocks> <path>" with a zero byte
// behind it, by the part of the store that they belong to. A file belongs to the
// first part with a pattern that matches it.
func splitStore(listed string, parts []driver.StorePart) (map[string]int64, error) {
	sum := map[string]int64{}
	for _, p := range parts {
		sum[p.Name] = 0
	}
	for file := range strings.SplitSeq(listed, "\x00") {
		if file == "" {
			continue
		}
		blocks, name, _ := strings.Cut(file, " ")
		n, err := strconv.ParseInt(blocks, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("files of the store: %q: a number of blocks and a path are wanted", file)
		}
		part, err := partOf(name, parts)
		if err != nil {
			return nil, err
		}
		if part != "" {
			sum[part] += n * blockBytes
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
// grown besides as "other".
func (a *attempt) measureStore(after map[string]int64) {
	if after == nil || a.partsBefore == nil {
		return
	}
	other := a.trial.attempt.StoreBytesAfter - a.trial.attempt.StoreBytesBefore
	for name, bytes := range after {
		grown := bytes - a.partsBefore[name]
		other -= grown
		a.trial.measure("store_"+name+"_bytes", float64(grown))
	}
	a.trial.measure("store_other_bytes", float64(other))
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
