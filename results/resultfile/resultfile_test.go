package resultfile

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func testRun() Run {
	return Run{
		Schema: SchemaVersion, Started: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), Messages: 100, Repeat: 1,
		Scenarios: []Scenario{{
			Name: "fig4", Work: Produce, PayloadBytes: 200,
			Systems: []System{{ID: "kafka-1", Label: "Kafka", Driver: "kafka", Role: RoleSystem}},
		}},
	}
}

func testAttempt() Attempt {
	return Attempt{Scenario: "fig4", System: "kafka-1", Repetition: 1, Outcome: Valid, Messages: 100, PayloadBytes: 20000, Seconds: 1.5}
}

var testPoints = []Point{{0, 0, 0, 0}, {0.1, 50, 10000, 40}, {math.Nextafter(1.5, 2), 100, 20000, 100}}

var testSamples = []Sample{{Seconds: 1.0 / 3, Host: `b, "x"`, CPUSeconds: 1e-9, ProcessSeconds: 2, NetRxBytes: 1, NetTxBytes: 2, DiskReadBytes: 3, DiskWriteBytes: 4, MemoryFree: 5, RunQueue: 6, ProcessResidentBytes: 7, ProcessReadBytes: 8, ProcessWriteBytes: 9, ProcessSyscalls: 10, GCSeconds: 11.5}}

func create(t *testing.T) *Writer {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "runs", "first"), testRun())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	w := create(t)
	a, err := w.Begin(testAttempt())
	if err != nil {
		t.Fatal(err)
	}
	if a.ID != "fig4-kafka-1-1" {
		t.Errorf("ID %q", a.ID)
	}
	if err := w.PutAttempt(a, testPoints, testSamples); err != nil {
		t.Fatal(err)
	}
	if err := w.PutScenario("fig4", []byte("name = 1\n")); err != nil {
		t.Fatal(err)
	}
	run := w.Run()
	run.Ended = run.Started.Add(time.Minute)
	run.Attempts = nil // the writer's are kept
	if err := w.Update(run); err != nil {
		t.Fatal(err)
	}

	r, err := Read(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if r.Run.Name != "first" || !reflect.DeepEqual(r.Run, w.Run()) {
		t.Errorf("run differs:\n%+v\n%+v", r.Run, w.Run())
	}
	if !reflect.DeepEqual(r.Run.Attempts, []Attempt{a}) {
		t.Errorf("attempts %+v", r.Run.Attempts)
	}
	if !reflect.DeepEqual(r.Points(a.ID), testPoints) || !reflect.DeepEqual(r.Samples(a.ID), testSamples) {
		t.Errorf("series differ: %v %v", r.Points(a.ID), r.Samples(a.ID))
	}
	if b, err := os.ReadFile(w.Path("scenarios", "fig4.toml")); err != nil || string(b) != "name = 1\n" {
		t.Errorf("scenario: %q, %v", b, err)
	}
	left, err := filepath.Glob(w.Path("*", ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestCreateRefusesAnExistingFolder(t *testing.T) {
	w := create(t)
	if _, err := Create(w.Dir(), testRun()); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("error %v", err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	w := create(t)
	if _, err := Open(w.Dir()); err == nil || !strings.Contains(err.Error(), "another testbed") {
		t.Errorf("error %v", err)
	}
}

// What another writer still changes is not read: it would be written back over
// what that one puts later.
func TestOpenReadsUnderTheLock(t *testing.T) {
	w := create(t)
	if err := os.WriteFile(w.Path("run.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(w.Dir()); err == nil || !strings.Contains(err.Error(), "another testbed") {
		t.Errorf("error %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first has let go of it
		if _, err := Open(w.Dir()); err == nil || !strings.Contains(err.Error(), "run.json: line 1") {
			t.Errorf("a damaged run.json: %v", err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("no folder: %v", err)
	}
}

// An attempt in which the testbed dies stays listed, and the next try of the
// same repetition stands beside it.
func TestResumeKeepsEveryAttempt(t *testing.T) {
	w := create(t)
	first, err := w.Begin(testAttempt())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	w, err = Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if a := w.Run().Attempts[0]; a.Outcome != Interrupted || a.Reason == "" {
		t.Errorf("attempt that was cut off: %+v", a)
	}
	if err := w.PutAttempt(first, testPoints, nil); err == nil {
		t.Error("the record of an earlier attempt could be changed")
	}
	again, err := w.Begin(testAttempt())
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != first.ID+"-again2" {
		t.Errorf("ID %q", again.ID)
	}
	if err := w.PutAttempt(again, testPoints, nil); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(w.Dir()); err != nil || len(r.Run.Attempts) != 2 || len(r.Points(first.ID)) != 0 {
		t.Errorf("read %+v, %v", r, err)
	}
}

func TestBrokenPointsMakeAnAttemptInvalid(t *testing.T) {
	w := create(t)
	a := testAttempt()
	a.ID = "a"
	err := w.PutAttempt(a, []Point{{1, 10, 1000, 10}, {2, 9, 1000, 10}}, nil)
	if err == nil || !strings.Contains(err.Error(), "point 2: broken series: messages goes back from 10 to 9") {
		t.Errorf("error %v", err)
	}
	r, err := Read(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Run.Attempts[0]; got.Outcome != Invalid || !strings.Contains(got.Reason, "goes back") {
		t.Errorf("attempt %+v", got)
	}
	if b, err := os.ReadFile(w.Path("points", "a.broken.csv")); err != nil || !strings.Contains(string(b), "2,9,1000,10") {
		t.Errorf("points %q, %v", b, err)
	}
}

func TestReadIsStrict(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new string
		want                 string
	}{
		{"schema", "run.json", `"schema": 2`, `"schema": 7`, "run.json: schema 7: this program reads schema 1 and 2"},
		{"unknown key", "run.json", `"seed"`, `"sead"`, `unknown field "sead"`},
		{"wrong type", "run.json", `"repeat": 1`, `"repeat": "x"`, "line 24: json: cannot unmarshal string"},
		{"not JSON", "run.json", `"repeat": 1,`, `"repeat": 1`, "line 25: invalid character"},
		{"outcome", "run.json", `"valid"`, `"good"`, `attempt "fig4-kafka-1-1": outcome "good"`},
		{"role", "run.json", `"role": "system"`, `"role": "x"`, `system "kafka-1": role "x"`},
		{"system", "run.json", `"system": "kafka-1"`, `"system": "k"`, `no system "k" in a scenario "fig4"`},
		{"path as ID", "run.json", `"id": "fig4-kafka-1-1"`, `"id": "../x"`, `name "../x"`},
		{"negative", "run.json", `"lost": 0`, `"lost": -1`, "lost is -1"},
		{"points", "points/fig4-kafka-1-1.csv", "0.1,50", "0.1,5x", `points/fig4-kafka-1-1.csv: line 3: messages is "5x"`},
		{"going back", "points/fig4-kafka-1-1.csv", "0.1,50,10000,40", "0.1,50,10000,400", "line 4: broken series: arrived goes back from 400 to 100"},
		{"not a number", "points/fig4-kafka-1-1.csv", "0.1,50", "NaN,50", "line 3: broken series: seconds is NaN"},
		{"columns", "points/fig4-kafka-1-1.csv", "messages", "records", `column 2 is "records": "messages" is wanted`},
		{"fields", "samples/fig4-kafka-1-1.csv", ",11.5\n", "\n", "wrong number of fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := create(t)
			a, err := w.Begin(testAttempt())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.PutAttempt(a, testPoints, testSamples); err != nil {
				t.Fatal(err)
			}
			path := w.Path(c.file)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			after := bytes.Replace(before, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(before, after) {
				t.Fatalf("%q is not in\n%s", c.old, before)
			}
			if err := os.WriteFile(path, after, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(w.Dir()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A damaged file of one attempt takes the others not down: the attempt is
// invalid and says why, in words that do not depend on where the folder is.
func TestSalvageKeepsTheRest(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new string
		outcome              Outcome
		want                 string // in the reason, or in the only note
	}{
		{"points", "points/fig4-kafka-1-1.csv", "0.1,50", "0.1,5x", Invalid, `its points cannot be read: points/fig4-kafka-1-1.csv: line 3: messages is "5x"`},
		{"half a line", "points/fig4-kafka-1-1.csv", ",40\n", "", Invalid, "its points cannot be read: points/fig4-kafka-1-1.csv: record on line 3"},
		{"samples", "samples/fig4-kafka-1-1.csv", ",11.5\n", "\n", Valid, "its samples cannot be read: samples/fig4-kafka-1-1.csv: record on line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := create(t)
			for repetition := 1; repetition <= 2; repetition++ {
				a := testAttempt()
				a.Repetition = repetition
				a, err := w.Begin(a)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.PutAttempt(a, testPoints, testSamples); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.ReadFile(w.Path(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(w.Path(c.file), bytes.Replace(before, []byte(c.old), []byte(c.new), 1), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Salvage(w.Dir())
			if err != nil {
				t.Fatal(err)
			}
			bad, good := r.Run.Attempts[0], r.Run.Attempts[1]
			if said := bad.Reason + strings.Join(bad.Notes, ""); bad.Outcome != c.outcome || !strings.HasPrefix(said, c.want) {
				t.Errorf("the damaged attempt is %s: %s", bad.Outcome, said)
			}
			if good.Outcome != Valid || len(r.Points(good.ID)) == 0 || len(r.Samples(good.ID)) == 0 || len(good.Notes) > 0 {
				t.Errorf("the other attempt is %+v", good)
			}
			if faults := r.Faults(); len(faults) != 1 || !strings.Contains(faults[0].Error(), c.file) {
				t.Errorf("faults %v", faults)
			}
		})
	}
}

func TestReadOfAnEmptyFolder(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("error %v", err)
	}
}

func TestValidNeedsPoints(t *testing.T) {
	w := create(t)
	a := testAttempt()
	a.ID = "a"
	if err := w.PutAttempt(a, testPoints, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.Path("points", "a.csv")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(w.Dir()); err == nil || !strings.Contains(err.Error(), "has no points") {
		t.Errorf("error %v", err)
	}
}

func TestRateMustBeANumber(t *testing.T) {
	a := testAttempt()
	a.ID, a.Seconds = "a", 1e-320
	if err := a.Check(); err == nil || !strings.Contains(err.Error(), "that is no rate") {
		t.Errorf("error %v", err)
	}
}

func FuzzReadPoints(f *testing.F) {
	f.Add("seconds,messages,bytes,arrived\n0,0,0,0\n0.1,1,200,1\n")
	f.Add("seconds,messages,bytes,arrived\n1e300,9223372036854775807,0,0\n")
	f.Add("seconds,messages,bytes,arrived\n\"0\",0,0,0\r\n\n0.5,-1,0,0")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		points, err := ReadPoints(strings.NewReader(text))
		if err != nil {
			return
		}
		if err := CheckPoints(points); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WritePoints(&b, points); err != nil {
			t.Fatal(err)
		}
		again, err := ReadPoints(&b)
		if err != nil || !reflect.DeepEqual(points, again) {
			t.Fatalf("%v became %v, %v", points, again, err)
		}
	})
}

func FuzzReadSamples(f *testing.F) {
	f.Add(strings.Join(sampleColumns, ",") + "\n0.25,broker,1.5,1,2,3,4,5,6,7,8,9,10,11,12\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := ReadSamples(strings.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteSamples(&b, samples); err != nil {
			t.Fatal(err)
		}
		again, err := ReadSamples(&b)
		if err != nil || !reflect.DeepEqual(samples, again) {
			t.Fatalf("%v became %v, %v", samples, again, err)
		}
	})
}

func TestValidAttempt(t *testing.T) {
	r := Run{Attempts: []Attempt{
		{ID: "s-x-1", Scenario: "s", System: "x", Repetition: 1, Outcome: Valid},
		{ID: "s-x-1-again2", Scenario: "s", System: "x", Repetition: 1, Outcome: Valid},
		{ID: "s-x-1-again3", Scenario: "s", System: "x", Repetition: 1, Outcome: Failed},
		{ID: "s-x-2", Scenario: "s", System: "x", Repetition: 2, Outcome: Invalid},
	}}
	if a, ok := r.ValidAttempt("s", "x", 1); !ok || a.ID != "s-x-1-again2" {
		t.Errorf("%q, %v: the last valid one is wanted", a.ID, ok)
	}
	for _, c := range []struct {
		scenario, system string
		repetition       int
	}{{"s", "x", 2}, {"s", "x", 3}, {"s", "y", 1}, {"t", "x", 1}} {
		if a, ok := r.ValidAttempt(c.scenario, c.system, c.repetition); ok {
			t.Errorf("%v: %q", c, a.ID)
		}
	}
}

// Version 1 had fewer keys and fewer columns of samples; what it had means the
// same.
func TestVersion1IsRead(t *testing.T) {
	w := create(t)
	a, err := w.Begin(testAttempt())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.PutAttempt(a, testPoints, nil); err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile(w.Path("run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.Path("run.json"), bytes.Replace(run, []byte(`"schema": 2`), []byte(`"schema": 1`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	old := strings.Join(sampleColumns[:oldSampleColumns], ",") + "\n0.5,broker,1,2,3,4,5,6,7,8\n"
	if err := os.WriteFile(w.Path("samples", a.ID+".csv"), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Read(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{{Seconds: 0.5, Host: "broker", CPUSeconds: 1, ProcessSeconds: 2, NetRxBytes: 3, NetTxBytes: 4, DiskReadBytes: 5, DiskWriteBytes: 6, MemoryFree: 7, RunQueue: 8}}
	if got := r.Samples(a.ID); !reflect.DeepEqual(got, want) || r.Run.Schema != SchemaVersion {
		t.Errorf("schema %d, samples %+v", r.Run.Schema, got)
	}
}

// A pipe in the place of a file is refused at once: nobody ever writes to it.
func TestAPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "run.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
