package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// unfairScenario has RabbitMQ keep its messages in memory, and says nothing of
// that.
const unfairScenario = `
name    = "unfair"
title   = "Producer performance"
purpose = "One producer, as fast as the broker takes it."
limit   = "none"
work    = "produce"
payload_bytes = 200
queue    = "bench"
messages = 1_000
repeat   = 1

[[system]]
id     = "kafka"
label  = "Kafka"
driver = "kafka"
warm_up = 100
expected_rate = 100_000
stored_bytes  = 209

[[system]]
id     = "rabbitmq"
label  = "RabbitMQ"
driver = "rabbitmq"
warm_up = 100
expected_rate = 10_000
stored_bytes  = 800
options = { delivery = "transient" }
`

// A setting that favours a system is found in the running server and named at
// the end of the run and below its figure.
func TestUnfairSettingIsFlagged(t *testing.T) {
	dir := t.TempDir()
	scenario, testbed, out := filepath.Join(dir, "unfair.toml"), filepath.Join(dir, "testbed.toml"), filepath.Join(dir, "out")
	for path, text := range map[string]string{
		scenario: unfairScenario,
		testbed:  "kind = \"local\"\n[broker]\nmemory = \"2GiB\"\n[client]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, testbed, hosttest.Programs(t, "testbed", "kafka"))
	got := startTestbed(t, s, "run", "--testbed", testbed, "--scenario", scenario, "--out", out, "--figures").wantStatus(2*time.Minute, 0)
	const words = "RabbitMQ keeps messages in memory only (transient) where Kafka stores messages on the disk (persistent)."
	if !strings.Contains(got.out, words) {
		t.Errorf("the end of the run does not say: %s\n%s", words, got.out)
	}
	if !strings.Contains(got.err, "Each broker: cores ") {
		t.Errorf("the limits are not told:\n%s", got.err)
	}
	r := theRun(t, out)
	for _, sys := range r.Run.Scenarios[0].Systems {
		checkContract(t, r.Run, sys)
	}
	svg := string(mustRead(t, filepath.Join(r.Dir, "unfair.svg")))
	if !strings.Contains(svg, "in memory only") {
		t.Error("the figure's caption does not name it")
	}
}

// checkContract wants every row of a system's contract, and brokers that were
// held to what the run says that they were.
func checkContract(t *testing.T, run resultfile.Run, sys resultfile.System) {
	t.Helper()
	rows := map[string]resultfile.ContractRow{}
	var names []string
	for _, row := range sys.Contract {
		rows[row.Row] = row
		if row.Value != "" {
			names = append(names, row.Row)
		}
	}
	if strings.Join(names, "|") != strings.Join(driver.ContractRows, "|") {
		t.Errorf("%s: the rows of the contract are %v", sys.ID, names)
	}
	limits := run.Testbed.BrokerLimits
	if limits == nil || limits.Cores == "" || limits.Note == "" {
		t.Fatalf("limits of the brokers: %+v", limits)
	}
	if c := rows[driver.RowCores]; c.Class != limits.Cores || !c.ReadBack {
		t.Errorf("%s: cores %+v, limits %+v", sys.ID, c, limits)
	}
	held := "none"
	if limits.MemoryBytes > 0 {
		held = strconv.FormatInt(limits.MemoryBytes, 10)
	}
	if m := rows[driver.RowMemory]; m.Class != held || !m.ReadBack {
		t.Errorf("%s: memory %+v, limits %+v", sys.ID, m, limits)
	}
	// What a reader of the figure takes for granted is said by the server.
	if d := rows[driver.RowDurability]; !d.ReadBack {
		t.Errorf("%s: durability is not read back: %+v", sys.ID, d)
	}
}
