//go:build hadoop

package hadooptest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

const (
	topic      = "clicks"
	brokers    = 2
	partitions = 2 // of the topic, at each broker
	splits     = brokers * partitions
)

// log names a partition of the topic.
type log struct{ broker, partition int32 }

func (l log) String() string { return fmt.Sprintf("broker %d, partition %d", l.broker, l.partition) }

// world is a cluster of brokers, and the place where its messages are loaded into.
type world struct {
	t        *testing.T
	place    place
	kafka    string // the binary
	zk       string
	brokers  []*kafkatest.Broker
	produced map[log][]string // the payloads, in their order
	marks    string           // folder of the mappers' marks
	out      string           // where the load goes
}

func newWorld(t *testing.T, p place) *world {
	t.Helper()
	w := &world{
		t: t, place: p, kafka: torture.Build(t),
		zk:       zktest.Start(t, zktest.Embedded).Direct(),
		produced: map[log][]string{}, marks: t.TempDir(), out: p.root + "/load",
	}
	for id := range int32(brokers) {
		b := kafkatest.Start(t, kafkatest.WithID(id), kafkatest.WithZooKeeper(w.zk))
		w.brokers = append(w.brokers, b)
		conn := w.dial(b)
		if err := conn.CreateTopic(t.Context(), topic, partitions); err != nil {
			t.Fatalf("create topic %s at broker %d: %v", topic, id, err)
		}
	}
	return w
}

func (w *world) dial(b *kafkatest.Broker) *client.Conn {
	w.t.Helper()
	conn, err := client.Dial(w.t.Context(), b.HostPort(), client.Config{})
	if err != nil {
		w.t.Fatalf("broker %d: %v", b.Config.ID, err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// produce appends so many messages to each partition. No two payloads are equal, of
// this call or another one.
func (w *world) produce(perPartition int) {
	w.t.Helper()
	for _, b := range w.brokers {
		conn := w.dial(b)
		for p := range int32(partitions) {
			at := log{b.Config.ID, p}
			var set []byte
			for range perPartition {
				i := len(w.produced[at])
				payload := fmt.Sprintf("message %d of %v: %s", i, at, strings.Repeat("x", i%400))
				w.produced[at] = append(w.produced[at], payload)
				set = message.Append(set, []byte(payload))
			}
			if _, err := conn.AckedProduce(w.t.Context(), topic, p, set, wire.AcksFlushed, time.Minute); err != nil {
				w.t.Fatalf("produce to %s, partition %d of broker %d: %v", topic, p, at.broker, err)
			}
		}
	}
}

// etl runs a command of "kafka etl".
func (w *world) etl(args ...string) (stdout string, err error) {
	out, _, err := run(w.t.Context(), w.t.TempDir(), w.place.program(), append([]string{w.kafka, "etl"}, args...)...)
	return out, err
}

// plan is what "kafka etl plan" tells.
type plan struct {
	Plan, Input, Output string
	Splits              int
}

func (w *world) plan() plan {
	w.t.Helper()
	out, err := w.etl("plan", "--zk-connect", w.zk, "--topic", topic, "--by", "arrival", "--out", w.out)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	var p plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		w.t.Fatalf("kafka etl plan printed %q: %v", out, err)
	}
	return p
}

// mustPlan plans so many splits.
func (w *world) mustPlan(splits int) plan {
	w.t.Helper()
	p := w.plan()
	if p.Splits != splits {
		w.t.Fatalf("the plan has %d splits, want %d: %+v", p.Splits, splits, p)
	}
	return p
}

// job is that of a plan, as a user would submit it.
func (w *world) job(p plan) job {
	return job{input: p.Input, output: p.Output, mapper: "kafka etl map", files: []string{w.kafka}, environment: maps.Clone(w.place.tools)}
}

// faulty is the same job with a mapper that does to its attempts what the faults say,
// in the words of mapper_test.go.
func (w *world) faulty(p plan, faults ...string) job {
	w.t.Helper()
	program, err := os.Executable()
	if err != nil {
		w.t.Fatalf("this program: %v", err)
	}
	j := w.job(p)
	j.mapper, j.files = program, nil
	j.environment[planVariable] = strings.Join(append(faults, noFaults), ",")
	j.environment[kafkaVariable] = w.kafka
	j.environment[marksVariable] = w.marks
	return j
}

// mustHappen fails the test if one of these faults did not come to pass.
func (w *world) mustHappen(faults ...string) {
	w.t.Helper()
	for _, f := range faults {
		if mark := strings.Replace(f, "=", ".", 1); !exists(filepath.Join(w.marks, mark)) {
			w.t.Errorf("%s has not happened; there are the marks %v", f, w.marked())
		}
	}
}

func (w *world) marked() []string {
	entries, err := os.ReadDir(w.marks)
	if err != nil {
		w.t.Errorf("marks: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// removeMarks forgets what the mappers of an earlier job have done.
func (w *world) removeMarks() {
	w.t.Helper()
	for _, name := range w.marked() {
		if err := os.Remove(filepath.Join(w.marks, name)); err != nil {
			w.t.Fatalf("marks: %v", err)
		}
	}
}

func (w *world) mustSubmit(j job) {
	w.t.Helper()
	start := time.Now()
	if _, err := w.place.submit(w.t, j); err != nil {
		w.t.Fatalf("%v", err)
	}
	w.t.Logf("the job took %v", time.Since(start).Round(100*time.Millisecond))
}

// mustFail runs a job that must not succeed.
func (w *world) mustFail(j job) {
	w.t.Helper()
	if log, err := w.place.submit(w.t, j); err == nil {
		w.t.Fatalf("the job has succeeded:\n%s", log)
	}
}

// mustNotCommit fails the test if this plan can be published. Nothing may be in the
// load of it afterwards, which check sees.
func (w *world) mustNotCommit(p plan) {
	w.t.Helper()
	if out, err := w.etl("commit", "--out", w.out, "--plan", p.Plan); err == nil {
		w.t.Fatalf("plan %s was published, though its job has not succeeded:\n%s", p.Plan, out)
	} else {
		w.t.Logf("as it should: %s", tail(err.Error(), 1))
	}
}

func (w *world) mustCommit(p plan) {
	w.t.Helper()
	if _, err := w.etl("commit", "--out", w.out, "--plan", p.Plan); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// check compares what was loaded with what was produced until now.
func (w *world) check() {
	w.t.Helper()
	for _, d := range differences(w.produced, w.loaded()) {
		w.t.Errorf("the load: %s", d)
	}
}

// mustBeEmpty fails the test if anything was published.
func (w *world) mustBeEmpty() {
	w.t.Helper()
	if loaded := w.loaded(); len(loaded) > 0 {
		w.t.Fatalf("messages of %d partitions were loaded, though no job has succeeded", len(loaded))
	}
}
