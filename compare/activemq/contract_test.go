package activemq_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"kafkalab/compare/activemq"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// TestSettingsContract: what a running broker was started with is read from it,
// and not from what its driver was told. It is held to limits meanwhile.
func TestSettingsContract(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	h, d := hosttest.Local(t, ""), activemq.New()
	s, held := drivertest.Held(t, d, h, 1<<30, driver.Options{"sync": "periodic", "heap-mb": "300", "memory-mb": "64"})
	running, err := held.Running(ctx, s.Processes()[0].PID())
	if err != nil || len(running) == 0 || running[0].Cores != held.Limits().Cores || running[0].MemoryBytes != held.Limits().MemoryBytes {
		t.Errorf("the broker is not held: %+v, %v", running, err)
	}
	o := driver.Options{"receipt": "every", "ack": "client", "ack-every": "50", "prefetch": "500"}
	m := driver.Measurement{Work: resultfile.Produce, Options: o, Queue: "bench", PayloadBytes: 200}
	c := drivertest.Connect(t, d, s, o)
	p, err := c.Producer(ctx, m.Queue)
	if err != nil {
		t.Fatal(err)
	}
	if r := drivertest.Contract(t, s, m)[driver.RowDurability]; r.ReadBack {
		t.Errorf("nothing was sent, and the journal is said to have it: %+v", r)
	}
	if err := errors.Join(p.Send(ctx, make([]byte, 200)), p.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	rows := drivertest.Contract(t, s, m)
	for name, class := range map[string]string{
		driver.RowDurability: driver.Persistent, driver.RowFlush: "interval 1s", driver.RowProducerAck: driver.AckReceived,
		driver.RowConsumerAck: driver.AckBulk, driver.RowPrefetch: "100000",
	} {
		if rows[name].Class != class {
			t.Errorf("%s: %+v, class %q is wanted", name, rows[name], class)
		}
	}
	for _, name := range []string{driver.RowVersion, driver.RowDurability, driver.RowFlush, driver.RowQueue} {
		if !rows[name].ReadBack {
			t.Errorf("%s is not read back: %+v", name, rows[name])
		}
	}
	if q, v := rows[driver.RowQueue].Value, rows[driver.RowVersion].Value; q != "queue; Java heap 300m, memoryUsage 64 mb" || !strings.HasPrefix(v, "ActiveMQ 5.") {
		t.Errorf("queue %q, version %q", q, v)
	}

	// A file that was changed behind the broker's back says nothing of it.
	conf := h.Dir() + "/server/conf/activemq.xml"
	text, err := os.ReadFile(conf)
	if err == nil {
		err = os.WriteFile(conf, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := s.(driver.ContractReader).Contract(ctx, m); err == nil || !strings.Contains(err.Error(), "changed") || len(rows) != 5 {
		t.Errorf("%+v, %v", rows, err)
	}
}
