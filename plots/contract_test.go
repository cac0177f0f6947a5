package plots

import (
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// fair is a system whose contract is that of the others but for what rows say,
// as "row=class".
func fair(label, driver, role string, rows ...string) resultfile.System {
	y := resultfile.System{ID: strings.ToLower(label), Label: label, Driver: driver, Role: role}
	classes := map[string]string{"durability": "persistent", "flush": "os", "producer acknowledgement": "none", "consumer acknowledgement": "automatic",
		"prefetch bytes": "200000", "connections": "2", "cores": "0-1", "memory limit": "17179869184", "disk": "/dev/sda, ext4"}
	for _, r := range rows {
		name, class, _ := strings.Cut(r, "=")
		classes[name] = class
	}
	for _, row := range comparedRows {
		y.Contract = append(y.Contract, resultfile.ContractRow{Row: row.name, Value: classes[row.name] + " it is", Class: classes[row.name], ReadBack: row.name != "flush"})
	}
	y.Contract = append(y.Contract, resultfile.ContractRow{Row: "threads", Value: label, ReadBack: true}, resultfile.ContractRow{Row: "version", Value: driver})
	return y
}

// inLine is a system of a line of a sweep.
func inLine(series, label string, rows ...string) resultfile.System {
	y := fair(label, "kafka", resultfile.RoleSystem, rows...)
	y.Series = series
	return y
}

func TestContractDifferences(t *testing.T) {
	kafka1 := fair("Kafka, batch 1", "kafka", resultfile.RoleSystem)
	kafka50 := fair("Kafka, batch 50", "kafka", resultfile.RoleSystem)
	active := fair("ActiveMQ", "activemq", resultfile.RoleSystem)
	limit := fair("Physical limit", "rawlimit", resultfile.RoleLimit, "durability=transient", "connections=1")
	for name, c := range map[string]struct {
		systems []resultfile.System
		work    resultfile.Work
		want    []string
	}{
		"all alike": {[]resultfile.System{kafka1, kafka50, active, limit}, resultfile.Produce, nil},
		"one keeps its messages in memory": {
			[]resultfile.System{kafka1, kafka50, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem, "durability=transient"), active, fair("NATS", "nats", resultfile.RoleAlso)}, resultfile.Produce,
			[]string{"RabbitMQ keeps messages in memory only (transient) where the others store messages on the disk (persistent)."}},
		"variants of one are no majority": {
			[]resultfile.System{fair("Kafka, batch 1", "kafka", resultfile.RoleSystem, "flush=interval 1s"), fair("Kafka, batch 50", "kafka", resultfile.RoleSystem, "flush=interval 1s"),
				fair("Kafka, batch 9", "kafka", resultfile.RoleSystem, "flush=interval 1s"), active, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem)}, resultfile.Produce,
			[]string{"Kafka flushes every 1s where ActiveMQ and RabbitMQ leave flushing to the kernel."}},
		"a variant that differs from its own": {
			[]resultfile.System{fair("ActiveMQ, receipt", "activemq", resultfile.RoleSystem, "producer acknowledgement=appended"), fair("ActiveMQ, no receipt", "activemq", resultfile.RoleSystem), kafka1}, resultfile.Produce,
			[]string{"ActiveMQ, receipt acknowledges messages when they were written where ActiveMQ, no receipt and Kafka acknowledge nothing to the producer."}},
		"labels with settings in them": {
			[]resultfile.System{kafka1, active, fair("RabbitMQ at its best (stream, confirms)", "rabbitmq", resultfile.RoleExtra, "flush=each"), fair("NATS", "nats", resultfile.RoleAlso)}, resultfile.Produce,
			[]string{"RabbitMQ at its best flushes for every message, or for all that gathered meanwhile where the others leave flushing to the kernel."}},
		"a line of a sweep is named once": {
			[]resultfile.System{inLine("K, each", "K, each 10/s", "flush=each"), inLine("K, each", "K, each 99/s", "flush=each"), inLine("K, never", "K, never 10/s"), inLine("K, never", "K, never 99/s"), active}, resultfile.Produce,
			[]string{"K, each flushes for every message, or for all that gathered meanwhile where K, never and ActiveMQ leave flushing to the kernel."}},
		"two alike differ": {
			[]resultfile.System{kafka1, active, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem), fair("A", "a", resultfile.RoleAlso, "flush=interval 1s, count 500"), fair("B", "b", resultfile.RoleAlso, "flush=interval 1s, count 500")}, resultfile.Produce,
			[]string{"A and B flush every 1s or every 500 messages where the others leave flushing to the kernel."}},
		"what does not matter for the work": {
			[]resultfile.System{kafka1, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem, "prefetch bytes=none", "consumer acknowledgement=bulk")}, resultfile.Produce, nil},
		"what matters for the work": {
			[]resultfile.System{kafka1, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem, "prefetch bytes=none", "producer acknowledgement=flushed")}, resultfile.Consume,
			[]string{"RabbitMQ sends ahead without a bound but TCP's where Kafka sends up to 200,000 B ahead."}},
		"the limit has the machine's rows": {
			[]resultfile.System{kafka1, active, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem), fair("Physical limit", "rawlimit", resultfile.RoleLimit, "memory limit=none", "flush=each")}, resultfile.Produce,
			[]string{"Physical limit is held to no memory where the others are held to 16 GiB of memory."}},
		"a row that the figure is about": {
			[]resultfile.System{kafka1, fair("B", "b", resultfile.RoleSystem, "flush=each"), fair("C", "c", resultfile.RoleSystem, "flush=count 100"), fair("D", "d", resultfile.RoleSystem, "flush=interval 1s")}, resultfile.Produce,
			[]string{"Flush, in 4 ways: Kafka leaves flushing to the kernel; B flushes for every message, or for all that gathered meanwhile; C flushes every 100 messages; D flushes every 1s."}},
		"not read": {[]resultfile.System{kafka1, {ID: "x", Label: "X", Driver: "x", Role: resultfile.RoleSystem}}, resultfile.Produce, nil},
	} {
		s := resultfile.Scenario{Name: "s", Work: c.work, Systems: c.systems}
		if got := contractDifferences(s); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestContractTable(t *testing.T) {
	s := resultfile.Scenario{Systems: []resultfile.System{
		fair("Kafka, batch 1", "kafka", resultfile.RoleSystem), fair("Kafka, batch 50", "kafka", resultfile.RoleSystem),
		fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem, "durability=transient"),
		{ID: "x", Label: "X", Driver: "x"},
	}}
	table := contractTable(s)
	if want := []string{"setting", "Kafka, batch 1; Kafka, batch 50", "RabbitMQ", "X"}; !slices.Equal(table.Head, want) {
		t.Errorf("head %q", table.Head)
	}
	if want := []string{"durability", "persistent it is ✓", "transient it is ✓", "not read"}; !slices.Equal(table.Rows[0], want) {
		t.Errorf("row %q", table.Rows[0])
	}
	if want := []string{"flush", "os it is", "os it is", "not read"}; !slices.Equal(table.Rows[1], want) {
		t.Errorf("row %q", table.Rows[1])
	}
	if contractTable(resultfile.Scenario{Systems: []resultfile.System{{ID: "x", Label: "X"}}}) != nil {
		t.Error("a table of nothing")
	}
}

// The closing words of a run name what differs, and say nothing of what does
// not.
func TestContractDifferencesOfRun(t *testing.T) {
	kafka := fair("Kafka", "kafka", resultfile.RoleSystem)
	r := &resultfile.Result{Run: resultfile.Run{Scenarios: []resultfile.Scenario{
		{Name: "even", Work: resultfile.Produce, Systems: []resultfile.System{kafka}},
		{Name: "odd", Work: resultfile.Produce, Systems: []resultfile.System{kafka, fair("RabbitMQ", "rabbitmq", resultfile.RoleSystem, "durability=transient")}},
	}}}
	var b strings.Builder
	if err := ContractDifferences(&b, r); err != nil {
		t.Fatal(err)
	}
	if want := "\nodd: the systems differ in their settings:\n  RabbitMQ keeps messages in memory only (transient) where Kafka stores messages on the disk (persistent).\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
