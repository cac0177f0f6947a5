package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"kafkalab/compare/nats"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

// The server says what the stream and its consumer are, while a client has
// them.
func TestSettingsContract(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := driver.Options{"acks": "each", "ack": "all", "prefetch": "500"}
	c, err := nats.New().Connect(ctx, s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, end := range []func() error{
		func() error { _, err := c.Producer(ctx, "bench"); return err },
		func() error { _, err := c.Consumer(ctx, "bench"); return err },
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	rows := drivertest.Contract(t, s, driver.Measurement{Options: o, Queue: "bench", PayloadBytes: 200})
	for name, class := range map[string]string{
		driver.RowDurability: driver.Persistent, driver.RowFlush: "interval 2m",
		driver.RowProducerAck: driver.AckAppended, driver.RowConsumerAck: driver.AckBulk, driver.RowPrefetch: "100000",
	} {
		if rows[name].Class != class {
			t.Errorf("%s: %+v, class %q is wanted", name, rows[name], class)
		}
	}
	for _, name := range []string{driver.RowVersion, driver.RowDurability, driver.RowConsumerAck, driver.RowQueue} {
		if !rows[name].ReadBack {
			t.Errorf("%s is not read back: %+v", name, rows[name])
		}
	}
	if v := rows[driver.RowVersion].Value; !strings.HasPrefix(v, "NATS 2.") {
		t.Errorf("version %q", v)
	}
	// A stream that is not there is said to be missing, and the client's rows are
	// there all the same.
	said, err := s.(driver.ContractReader).Contract(ctx, driver.Measurement{Options: o, Queue: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), "not found") || len(said) < 4 {
		t.Errorf("%+v, %v", said, err)
	}
}
