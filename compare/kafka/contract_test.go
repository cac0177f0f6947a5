package kafka

import (
	"strings"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

// A broker says what it runs with, whatever its driver was told.
func TestSettingsContract(t *testing.T) {
	s := startServer(t, openHost(t), driver.Options{"flush-interval": "250ms", "flush-messages": "500", "sendfile": "off"})
	rows := drivertest.Contract(t, s, driver.Measurement{Options: driver.Options{"acks": "appended", "fetch-bytes": "1048576"}, PayloadBytes: 200})
	for name, class := range map[string]string{
		driver.RowDurability: driver.Persistent, driver.RowFlush: "interval 250ms, count 500",
		driver.RowProducerAck: driver.AckAppended, driver.RowConsumerAck: driver.AckNone, driver.RowPrefetch: "1000000",
	} {
		if rows[name].Class != class {
			t.Errorf("%s: %+v, class %q is wanted", name, rows[name], class)
		}
	}
	for _, name := range []string{driver.RowVersion, driver.RowDurability, driver.RowFlush, driver.RowQueue} {
		if !rows[name].ReadBack {
			t.Errorf("%s is not read back", name)
		}
	}
	if rows[driver.RowProducerAck].ReadBack {
		t.Error("the broker is said to know what its clients wait for")
	}
	if v := rows[driver.RowQueue].Value; !strings.Contains(v, "1024 MiB") || !strings.Contains(v, "copied") {
		t.Errorf("queue %q", v)
	}
	if v := rows[driver.RowFlush].Value; v != "fsync every 250ms or 500 messages" {
		t.Errorf("flush %q", v)
	}
	if v := rows[driver.RowVersion].Value; !strings.Contains(v, "kafkalab") {
		t.Errorf("version %q", v)
	}
}
