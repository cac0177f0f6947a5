package paper

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

// invented is a run of invented numbers. What is shown of it says that it is
// synthetic.
type invented struct {
	name     string
	messages int64
	repeat   int
	real     bool               // two machines, not emulated hosts
	rates    map[string]float64 // by system ID: messages per second; 0 leaves it out
	change   func(a *resultfile.Attempt)
}

// asMeasured are rates in the order of magnitude of real ones.
func asMeasured() map[string]float64 {
	return map[string]float64{
		"limit": 563_000, "kafka-b1": 509_000, "kafka-b50": 560_000, "kafka-b1-plain": 118_000, "rabbitmq": 44_600, "rabbitmq-plain": 43_500,
		"activemq": 23_400, "activemq-receipt": 5_030, "kafka": 562_700,
	}
}

var drivers = map[string]string{
	"limit": "rawlimit", "kafka-b1": "kafka", "kafka-b50": "kafka", "kafka-b1-plain": "kafka", "kafka": "kafka",
	"rabbitmq": "rabbitmq", "rabbitmq-plain": "rabbitmq", "activemq": "activemq", "activemq-receipt": "activemq",
}

// Bytes for a message in the store, and on the wire.
var (
	inStore = map[string]int64{"kafka": 209, "rabbitmq": 401, "activemq": 797, "rawlimit": 0}
	onWire  = map[string]int64{"kafka": 210, "rabbitmq": 304, "activemq": 440, "rawlimit": 209}
)

// write makes the run's folder in dir, and returns its path.
func (v invented) write(t testing.TB, dir string) string {
	t.Helper()
	scenarios := []resultfile.Scenario{
		{Name: "fig4-producer", Title: "Producer performance (synthetic)", Work: resultfile.Produce, PayloadBytes: 200, Limit: "invented <limit>", Purpose: "synthetic"},
		{Name: "fig5-consumer", Title: "Consumer performance (synthetic)", Work: resultfile.Consume, PayloadBytes: 200, Limit: "invented"},
	}
	ids := [][]string{
		{"limit", "kafka-b1", "kafka-b50", "rabbitmq", "activemq-receipt", "activemq", "kafka-b1-plain", "rabbitmq-plain"},
		{"limit", "kafka", "rabbitmq", "activemq"},
	}
	for i := range scenarios {
		for _, id := range ids[i] {
			if v.rates[id] > 0 {
				scenarios[i].Systems = append(scenarios[i].Systems, system(id))
			}
		}
	}
	facts := inventedFacts()
	started := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return writeRun(t, filepath.Join(dir, v.name), resultfile.Run{
		Started: started, Ended: started.Add(time.Hour), Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)", Seed: 7,
		Testbed: resultfile.Testbed{
			Kind: "netns", Emulated: !v.real, ClientHost: resultfile.Host{Name: "client", Facts: facts}, BrokerHost: resultfile.Host{Name: "broker", Facts: facts},
			LinkGoodputMbps: 941, LinkReverseGoodputMbps: 941, LinkNote: "invented | link",
		},
		Messages: v.messages, Repeat: v.repeat, Scenarios: scenarios,
	}, v.put)
}

// inventedFacts are those of a host.
func inventedFacts() []resultfile.Fact {
	return []resultfile.Fact{{Name: "processor", Value: "Invented 9000"}, {Name: "cores", Value: "2"}}
}

// writeRun makes the folder of a run in which put writes the attempts, and
// returns its path.
func writeRun(t testing.TB, path string, run resultfile.Run, put func(t testing.TB, w *resultfile.Writer, s resultfile.Scenario, y resultfile.System, repetition, order int)) string {
	t.Helper()
	w, err := resultfile.Create(path, run)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	order := 0
	for repetition := 1; repetition <= run.Repeat; repetition++ {
		for _, s := range run.Scenarios {
			for _, y := range s.Systems {
				order++
				put(t, w, s, y, repetition, order)
			}
		}
	}
	return path
}

func system(id string) resultfile.System {
	y := resultfile.System{ID: id, Label: "Synthetic " + id, Driver: drivers[id], Role: resultfile.RoleSystem, Settings: []resultfile.Setting{
		{Row: "version", Value: "synthetic " + drivers[id] + " 1.0"}, {Row: "persistence", Value: "invented | <b>numbers</b>"},
	}}
	switch id {
	case "limit":
		y.Role = resultfile.RoleLimit
	case "kafka-b1-plain", "rabbitmq-plain":
		y.Role = resultfile.RoleExtra
	}
	return y
}

// put writes one attempt. Repetitions differ by one in a hundred.
func (v invented) put(t testing.TB, w *resultfile.Writer, s resultfile.Scenario, y resultfile.System, repetition, order int) {
	t.Helper()
	n := v.messages
	rate := v.rates[y.ID] * (1 + 0.01*float64(repetition-1))
	seconds := float64(n) / rate
	a := resultfile.Attempt{
		Scenario: s.Name, System: y.ID, Repetition: repetition, Order: order, Outcome: resultfile.Valid,
		Messages: n, PayloadBytes: n * 200, Seconds: seconds, ClientMessages: n, ClientSeconds: seconds, Verified: true,
		BrokerCPUSeconds: seconds * 0.9, ClientCPUSeconds: seconds * 0.3, BrokerResidentBytes: n * 2, BrokerDiskWriteBytes: n * inStore[y.Driver],
	}
	if y.Driver == "kafka" || y.Driver == "rawlimit" {
		a.StoredBytes = n * 209
	}
	sender := "client"
	if s.Work == resultfile.Consume {
		sender = "broker"
		a.BrokerDiskWriteBytes = map[string]int64{"rabbitmq": n, "activemq": n * 1000}[y.Driver]
	} else {
		a.StoreBytesAfter = n * inStore[y.Driver]
	}
	if v.change != nil {
		v.change(&a)
	}
	a, err := w.Begin(a)
	if err != nil {
		t.Fatal(err)
	}
	points := []resultfile.Point{{}}
	for i := int64(1); i <= 40; i++ {
		points = append(points, resultfile.Point{Seconds: seconds * float64(i) / 40, Messages: n * i / 40, Bytes: n * i / 40 * 200, Arrived: n * i / 40})
	}
	samples := []resultfile.Sample{{Host: "client"}, {Host: "broker"}, {Seconds: seconds, Host: sender, NetTxBytes: n * onWire[y.Driver]}}
	if err := w.PutAttempt(a, points, samples); err != nil {
		t.Fatal(err)
	}
}

// read reads a run's folder whole.
func read(t testing.TB, dir string) *resultfile.Result {
	t.Helper()
	r, err := resultfile.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// damage cuts a file of a run's folder off in the middle of a number.
func damage(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, text[:len(text)-12], 0o644)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("damaging %s: %w", path, err))
	}
}
