package rabbitmq_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kafkalab/compare/rabbitmq"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// TestSettingsContract: one running server says of each queue what is in it, and
// of its clients how they have asked to be served, whatever the driver was told.
// It is held to limits, of which it must know.
func TestSettingsContract(t *testing.T) {
	t.Parallel()
	const memory = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d := rabbitmq.New()
	s, held := drivertest.Held(t, d, hosttest.Local(t, ""), memory, nil)
	t.Run("limits", func(t *testing.T) { serverIsHeld(t, ctx, held, s, memory) })
	for i, c := range []struct {
		o        driver.Options
		work     resultfile.Work
		classes  map[string]string
		readBack []string
	}{
		{driver.Options{}, resultfile.Produce, map[string]string{
			driver.RowDurability: driver.Persistent, driver.RowFlush: driver.FlushOS, driver.RowProducerAck: driver.AckNone,
			driver.RowConsumerAck: driver.AckAutomatic, driver.RowPrefetch: "none",
		}, []string{driver.RowVersion, driver.RowQueue, driver.RowDurability, driver.RowProducerAck}},
		// The unfair setting that the contract is for.
		{driver.Options{"delivery": "transient"}, resultfile.Produce, map[string]string{driver.RowDurability: driver.Transient, driver.RowFlush: ""},
			[]string{driver.RowDurability}},
		{driver.Options{"confirms": "bulk"}, resultfile.Produce, map[string]string{
			driver.RowDurability: driver.Persistent, driver.RowFlush: driver.FlushEach, driver.RowProducerAck: driver.AckFlushed,
		}, []string{driver.RowDurability, driver.RowProducerAck}},
		{driver.Options{"queue": "quorum", "confirms": "bulk"}, resultfile.Produce, map[string]string{driver.RowDurability: driver.Persistent}, []string{driver.RowDurability}},
		{driver.Options{"ack": "manual", "prefetch": "500", "ack-every": "100"}, resultfile.Consume, map[string]string{
			driver.RowConsumerAck: driver.AckBulk, driver.RowPrefetch: "100000",
		}, []string{driver.RowDurability}},
	} {
		t.Run(fmt.Sprint(c.o), func(t *testing.T) {
			m := driver.Measurement{Work: c.work, Options: c.o, Queue: fmt.Sprintf("q%d", i), PayloadBytes: 200}
			rows := contractOf(t, ctx, d, s, m)
			for name, class := range c.classes {
				if rows[name].Class != class {
					t.Errorf("%s: %+v, class %q is wanted", name, rows[name], class)
				}
			}
			for _, name := range c.readBack {
				if !rows[name].ReadBack {
					t.Errorf("%s is not read back: %+v", name, rows[name])
				}
			}
		})
	}
}

// contractOf reads the contract while a client has sent some messages.
func contractOf(t *testing.T, ctx context.Context, d driver.Driver, s driver.Server, m driver.Measurement) map[string]resultfile.ContractRow {
	t.Helper()
	c := drivertest.Connect(t, d, s, m.Options)
	p, err := c.Producer(ctx, m.Queue)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 50
	for range messages {
		if err := p.Send(ctx, make([]byte, m.PayloadBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for n := int64(0); n < messages; {
		if n, err = c.Arrived(ctx, m.Queue); err != nil {
			t.Fatal(err)
		}
	}
	return drivertest.Contract(t, s, m)
}

// serverIsHeld: every process of the server is held to the limits, and its
// memory watermark is a share of its own memory, not of the machine's.
func serverIsHeld(t *testing.T, ctx context.Context, held *host.Confined, s driver.Server, memory int64) {
	var pids []int
	for _, p := range s.Processes() {
		pids = append(pids, p.PID())
	}
	running, err := held.Running(ctx, pids...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range running {
		if r.Cores != held.Limits().Cores || r.MemoryBytes != held.Limits().MemoryBytes {
			t.Errorf("process %+v", r)
		}
	}
	if len(running) < len(pids) {
		t.Errorf("%d processes of %d", len(running), len(pids))
	}
	hosttest.Root(t)
	rows := contractOf(t, ctx, rabbitmq.New(), s, driver.Measurement{Queue: "limits", PayloadBytes: 10})
	if want := fmt.Sprintf("memory watermark %d MiB", memory*60/100>>20); !strings.Contains(rows[driver.RowQueue].Value, want) {
		t.Errorf("%q, %s is wanted", rows[driver.RowQueue].Value, want)
	}
}
