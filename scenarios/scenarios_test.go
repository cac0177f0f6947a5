package scenarios_test

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"kafkalab/compare/activemq"
	"kafkalab/compare/kafka"
	"kafkalab/compare/nats"
	"kafkalab/compare/pipeline"
	"kafkalab/compare/rabbitmq"
	"kafkalab/compare/rawlimit"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/plots"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

// wanted are the scenarios that the paper's claims ask for, by what they do; an
// empty work is a list of others.
var wanted = map[string]resultfile.Work{
	"fig4-producer": resultfile.Produce, "fig5-consumer": resultfile.Consume,
	"overhead": resultfile.Produce, "overhead-consume": resultfile.Consume,
	"batch-sweep": resultfile.Produce, "fan-out": resultfile.Consume,
	"backlog": resultfile.Produce, "backlog-consume": resultfile.Consume,
	"acks": resultfile.Produce, "sendfile": resultfile.Consume, "flush": resultfile.Produce,
	"message-size": resultfile.Produce, "fetch-size": resultfile.Consume,
	"data-size": "", "data-size-produce": resultfile.Produce, "data-size-consume": resultfile.Consume,
	"restart-cache": resultfile.Consume, "footprint": resultfile.Produce, "tailing": resultfile.Stream,
	"consume-writes": resultfile.Consume, "latency": resultfile.Stream, "rebalance": resultfile.Rebalance,
	"loss-budget": resultfile.Crash, "soak": resultfile.Stream, "pipeline": resultfile.Pipeline,
	"smoke": "", "smoke-all": "",
	"ceilings": "", "ceilings-produce": resultfile.Produce, "ceilings-consume": resultfile.Consume, "ceilings-wire": resultfile.Produce,
	"ceilings-wire-consume": resultfile.Consume, "ceilings-both": resultfile.Produce, "latency-unshaped": resultfile.Stream,
	"ceilings-large": "", "ceilings-large-produce": resultfile.Produce, "ceilings-large-consume": resultfile.Consume,
	"scale": "", "scale-partitions": resultfile.Produce, "scale-producers": resultfile.Produce,
	"scale-consumers": resultfile.Consume, "scale-cores": resultfile.Produce,
}

func library() scenario.Library { return scenario.NewLibrary(scenarios.Files) }

func drivers() *driver.Table {
	return driver.NewTable(kafka.New(), pipeline.New(), rabbitmq.New(), activemq.New(), nats.New(), rawlimit.New(), driver.NewNull())
}

func TestEveryScenarioIsThere(t *testing.T) {
	entries, err := library().List()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]resultfile.Work{}
	for _, e := range entries {
		there[e.Name] = e.Work
	}
	if !maps.Equal(there, wanted) {
		t.Errorf("there are %v, want %v", there, wanted)
	}
}

// everySystem selects a scenario with all its systems.
func everySystem(t *testing.T, name string) scenario.Selection {
	t.Helper()
	entries, err := library().List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		for _, s := range e.Systems {
			if e.Name == name {
				ids = append(ids, s.ID)
			}
		}
	}
	sel, err := library().Select([]string{name}, ids)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

// brokerHost is a host that has this project's programs, by name.
func brokerHost(t *testing.T) host.Host {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"kafka", "testbed"} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return hosttest.Local(t, bin)
}

// Options are checked when a run begins; a file with one that no driver takes
// must not get so far.
func TestDriversTakeTheOptionsOfEveryScenario(t *testing.T) {
	h, all := brokerHost(t), drivers()
	for name, work := range wanted {
		if work == "" {
			continue
		}
		for _, s := range everySystem(t, name).Scenarios {
			for _, sys := range s.Systems {
				d, err := all.Find(sys.Driver)
				if err != nil {
					t.Errorf("%s, %s: %v", s.Name, sys.ID, err)
					continue
				}
				fill := maps.Clone(sys.Options)
				maps.Copy(fill, sys.FillOptions)
				for _, o := range []driver.Options{sys.Options, fill} {
					if err := d.Check(t.Context(), h, o); err != nil && !errors.Is(err, driver.ErrNotInstalled) {
						t.Errorf("%s, %s: %v", s.Name, sys.ID, err)
					}
				}
			}
		}
	}
}

// What a figure shows must be something that is known, and what it is held
// against a limit that was measured in the same run.
func TestFiguresOfEveryScenario(t *testing.T) {
	for name, work := range wanted {
		if work == "" {
			continue
		}
		sel := everySystem(t, name)
		for _, s := range sel.Scenarios {
			if s.Name != name {
				continue // a backlog's
			}
			for _, q := range s.Shows {
				if !plots.Quantity(q).Known() {
					t.Errorf("%s shows %q, which plots do not know", name, q)
				}
			}
			limits := 0
			for _, sys := range s.Systems {
				if sys.Role == scenario.RoleLimit {
					limits++
				}
				if len(sys.Label) > 90 || strings.Contains(sys.Label, "00000") {
					t.Errorf("%s, %s: label %q is not for people", name, sys.ID, sys.Label)
				}
				if rival := sys.Driver == "rabbitmq" || sys.Driver == "activemq"; !rival && sys.View != "" {
					t.Errorf("%s, %s: view = %q is for rivals", name, sys.ID, sys.View)
				}
			}
			// No limit of the hardware is in the way of a rebalance, nor does one
			// tell how many messages a crash may lose, nor in that of a pipeline, which
			// its periods bound.
			if limits == 0 && work != resultfile.Rebalance && work != resultfile.Crash && work != resultfile.Pipeline {
				t.Errorf("%s has no limit to be held against", name)
			}
		}
	}
}

var claimID = regexp.MustCompile(`\bC([0-9]+)\b`)

// A scenario says which claims it decides, and those must be there.
func TestClaimsNamedInScenariosExist(t *testing.T) {
	var claims struct {
		Claim []struct {
			ID string `toml:"id"`
		} `toml:"claim"`
	}
	if _, err := toml.DecodeFile("../paper/claims.toml", &claims); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range claims.Claim {
		ids[c.ID] = true
	}
	for name, work := range wanted {
		text, err := fs.ReadFile(scenarios.Files, name+".toml")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, id := range claimID.FindAllString(string(text), -1) {
			if !ids[id] {
				t.Errorf("%s.toml names the claim %s, which paper/claims.toml does not have", name, id)
			}
		}
		if work != "" && !strings.Contains(string(text), "NetDB'11") && !strings.Contains(string(text), "the paper") {
			t.Errorf("%s.toml does not say what of the paper it is about", name)
		}
	}
}

// appendixMinutes finds a scenario and its minutes in the appendix' table.
var appendixMinutes = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| .* \\| ([0-9]+) minutes[^|]*\\|$")

// Nobody waits for hours for a figure, but where what is asked needs them.
func TestScenariosTakeMinutes(t *testing.T) {
	const longest = 25 * time.Minute
	// Those, the paper's own figures, whose messages are a million, and one that warms
	// a Java server up for each of many short attempts.
	long := []string{"data-size", "data-size-produce", "data-size-consume", "soak", "smoke-all", "fig4-producer", "fig5-consumer",
		"ceilings-large", "ceilings-large-produce", "ceilings-large-consume", "ceilings", "scale", "message-size"}
	text, err := os.ReadFile("../paper/appendix.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, m := range appendixMinutes.FindAllStringSubmatch(string(text), -1) {
		stated[m[1]] = m[2]
	}
	if len(stated) < 30 {
		t.Errorf("paper/appendix.md says of %d scenarios how many minutes they take", len(stated))
	}
	for name := range wanted {
		sel, err := library().Select([]string{name}, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		plan := runner.Plan{Selection: sel, Drivers: drivers()}
		d, err := plan.Estimate()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%-18s %5.1f minutes, %d repetitions", name, d.Minutes(), sel.Repeat)
		if said, ok := stated[name]; ok && said != strconv.Itoa(int(math.Ceil(d.Minutes()))) {
			t.Errorf("paper/appendix.md says that %s takes %s minutes, and the plan %.1f", name, said, d.Minutes())
		}
		if d > longest && !slices.Contains(long, name) {
			t.Errorf("%s takes %v with %d repetitions, at most %v is wanted", name, d.Round(time.Second), sel.Repeat, longest)
		}
	}
}

// All goals can be measured in one run.
func TestCeilingsAndScaleInOneRun(t *testing.T) {
	sel, err := library().Select([]string{"ceilings", "ceilings-large", "scale"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(sel.Scenarios) != 12 || sel.Repeat < 6 {
		t.Errorf("%d scenarios, %d repetitions", len(sel.Scenarios), sel.Repeat)
	}
	for _, s := range sel.Scenarios {
		if onWire := strings.HasPrefix(s.Name, "ceilings-wire"); s.Unshaped == onWire {
			t.Errorf("%s: without a rate: %v", s.Name, s.Unshaped)
		}
	}
}

func TestSmokeAllHasEveryScenario(t *testing.T) {
	sel, err := library().Select([]string{"smoke-all"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, s := range sel.Scenarios {
		have = append(have, s.Name)
		for _, sys := range s.Systems {
			if n := sel.MessagesOf(s, sys) + sel.FillOf(s, sys); n > 2_000_000 {
				t.Errorf("%s, %s: %d messages are no smoke test", s.Name, sys.ID, n)
			}
		}
	}
	for name, work := range wanted {
		if work != "" && !slices.Contains(have, name) {
			t.Errorf("smoke-all leaves out %s", name)
		}
	}
}
