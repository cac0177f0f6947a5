package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
	c := connect(t, s, o)
	if _, err := c.Producer(ctx, "bench"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Consumer(ctx, "bench"); err != nil {
		t.Fatal(err)
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
