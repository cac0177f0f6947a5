package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// syntheticRun makes a result folder of invented numbers.
func syntheticRun(t *testing.T, name string, rate float64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	system := func(driver string) resultfile.System {
		return resultfile.System{ID: driver, Label: "Synthetic " + driver, Driver: driver, Role: resultfile.RoleSystem}
	}
	w, err := resultfile.Create(dir, resultfile.Run{
		Started: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Messages: 1000, Repeat: 1,
		Scenarios: []resultfile.Scenario{{Name: "made-up", Title: "Synthetic", Work: resultfile.Produce, PayloadBytes: 200,
			Systems: []resultfile.System{system("kafka"), system("rabbitmq")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, driver := range []string{"kafka", "rabbitmq"} {
		seconds := 1000 / rate * float64(1+9*i)
		a := resultfile.Attempt{ID: driver, Scenario: "made-up", System: driver, Repetition: 1, Order: i + 1, Outcome: resultfile.Valid,
			Messages: 1000, PayloadBytes: 200_000, StoredBytes: 209_000, Seconds: seconds}
		points := []resultfile.Point{{}, {Seconds: seconds / 2, Messages: 500, Bytes: 100_000, Arrived: 500}, {Seconds: seconds, Messages: 1000, Bytes: 200_000, Arrived: 1000}}
		if err := w.PutAttempt(a, points, nil); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func call(run func(context.Context, []string, stdio) error, args ...string) (out string, err error) {
	var b bytes.Buffer
	err = run(context.Background(), args, stdio{Out: &b, Err: &b})
	return b.String(), err
}

func TestPlotWritesBesideTheResults(t *testing.T) {
	dir := syntheticRun(t, "one", 1000)
	out, err := call(runPlot, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made-up.png", "made-up.svg", "made-up.pdf", "made-up-log.png", "tables.md"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil || !strings.Contains(out, path+"\n") {
			t.Errorf("%s: %v; output %s", name, err, out)
		}
	}
}

func TestPlotOfSeveralRuns(t *testing.T) {
	to := filepath.Join(t.TempDir(), "to")
	if _, err := call(runPlot, syntheticRun(t, "one", 1000), syntheticRun(t, "two", 900), "--out", to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one/made-up.svg", "two/made-up.svg"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
}

// breakPoints damages the points of an attempt of a synthetic run.
func breakPoints(t *testing.T, dir, attempt string) {
	t.Helper()
	path := filepath.Join(dir, "points", attempt+".csv")
	if err := os.WriteFile(path, []byte("seconds,messages,bytes,arrived\n0,0,0,0\n1,no"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// One damaged file takes neither the rest of its run down nor other runs.
func TestDamagedRunsAreNamed(t *testing.T) {
	damaged, whole := syntheticRun(t, "damaged", 1000), syntheticRun(t, "whole", 900)
	breakPoints(t, damaged, "rabbitmq")
	out, err := call(runPlot, damaged)
	if err != nil || !strings.Contains(out, "damaged, and so left out: ") || !strings.Contains(out, "made-up.svg") {
		t.Errorf("plot: %v\n%s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(damaged, "tables.md"))
	if err != nil || !strings.Contains(string(page), "its points cannot be read: points/rabbitmq.csv") {
		t.Errorf("tables.md does not name it, %v:\n%s", err, page)
	}
	out, err = call(runCompare, damaged, whole)
	if err != nil || !strings.Contains(out, "0.90") || !strings.Contains(out, "measured in one only") {
		t.Errorf("compare: %v\n%s", err, out)
	}
	to := t.TempDir()
	if _, err := call(runPlot, filepath.Join(to, "none"), whole, "--out", to); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("a folder that is none: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "whole", "made-up.svg")); err != nil {
		t.Errorf("the other run: %v", err)
	}
}

func TestCompare(t *testing.T) {
	a, b := syntheticRun(t, "one", 1000), syntheticRun(t, "two", 900)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{a}, "10.0\n"},
		{[]string{a}, "Run one: 1,000 messages asked for in each attempt, 1 repetition, no cap, commit unknown\n"},
		{[]string{a, "--markdown"}, "| Synthetic kafka | 10.0 |"},
		{[]string{a, b}, "0.90"},
		{[]string{a, b, "--markdown"}, "## First: one; second: two"},
	} {
		out, err := call(runCompare, c.args...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v, output lacks %q:\n%s", c.args, err, c.want, out)
		}
	}
	out, err := call(runCompare, a, "--json")
	var rates []plots.Rates
	if err != nil || json.Unmarshal([]byte(out), &rates) != nil || rates[0].Systems[0].Against[0].Ratio.Median != 10 {
		t.Errorf("JSON: %v\n%s", err, out)
	}
}

func TestPlotAndCompareUsage(t *testing.T) {
	for _, c := range []struct {
		run   func(context.Context, []string, stdio) error
		args  []string
		usage bool
		want  string
	}{
		{runPlot, nil, true, "name the folder of a run"},
		{runPlot, []string{"--outt", "x"}, true, "unknown flag"},
		{runPlot, []string{filepath.Join(t.TempDir(), "none")}, false, "holds no run"},
		{runCompare, nil, true, "one or two folders"},
		{runCompare, []string{"a", "b", "c"}, true, "not 3"},
		{runCompare, []string{"a", "--json", "--markdown"}, true, "exclude each other"},
		{runCompare, []string{t.TempDir()}, false, "holds no run"},
	} {
		_, err := call(c.run, c.args...)
		var u usageError
		if err == nil || errors.As(err, &u) != c.usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// A folder that was made of a live cluster is drawn as one of a run is.
func TestPlotOfDrawings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "drawings")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	topology := plots.Topology{Schema: plots.DrawingsSchema, Taken: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Note: "Synthetic.", Clusters: []plots.Cluster{{
		Name: "made up", ZooKeeper: "none", Brokers: []plots.ClusterBroker{{Address: "127.0.0.1:9092", Partitions: []plots.BrokerPartition{{Topic: "t", Segments: 1}}}},
	}}}
	if err := plots.WriteDrawings(dir, &topology, nil); err != nil {
		t.Fatal(err)
	}
	out, err := call(runPlot, dir, syntheticRun(t, "one", 1000))
	if err != nil || !strings.Contains(out, filepath.Join(dir, "fig1-cluster.svg")) || !strings.Contains(out, "made-up.svg") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Two runs of a scenario with other quantities are compared in those too.
func TestCompareOfOtherQuantities(t *testing.T) {
	run := func(name string, restart float64) string {
		dir := filepath.Join(t.TempDir(), name)
		w, err := resultfile.Create(dir, resultfile.Run{Messages: 1000, Repeat: 4, Scenarios: []resultfile.Scenario{{
			Name: "crash", Title: "Synthetic", Work: resultfile.Crash, PayloadBytes: 200, Chart: resultfile.Bars, Shows: []string{"restart time", "lost promised"},
			Systems: []resultfile.System{{ID: "kafka", Label: "Synthetic kafka", Driver: "kafka", Role: resultfile.RoleSystem}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for i := range 4 {
			a := resultfile.Attempt{Scenario: "crash", System: "kafka", Repetition: i + 1, Order: i + 1, Outcome: resultfile.Valid, Messages: 1000, PayloadBytes: 200_000, Seconds: 1,
				Measures: map[string]float64{"restart_seconds": restart + float64(i)/100, "crash_lost_promised": 0}}
			if a, err = w.Begin(a); err != nil {
				t.Fatal(err)
			}
			if err := w.PutAttempt(a, []resultfile.Point{{}, {Seconds: 1, Messages: 1000, Bytes: 200_000, Arrived: 1000}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	out, err := call(runCompare, run("one", 0.25), run("two", 2))
	said := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"crash Synthetic kafka restart time 265 ms 2.01 s 7.60 (7.14 .. 8.12) differs", "crash Synthetic kafka lost promised, messages 0 0 – no difference beyond noise"} {
		if err != nil || !strings.Contains(said, want) {
			t.Errorf("%v, output lacks %q:\n%s", err, want, out)
		}
	}
}
