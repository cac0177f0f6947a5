package rabbitmq

import (
	"strings"
	"testing"

	"github.com/streadway/amqp"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host/hosttest"
)

func TestOptions(t *testing.T) {
	opt, err := readOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	if opt.queue != "lazy" || opt.confirms != "none" || opt.mode() != amqp.Persistent || !opt.coalesced || opt.manualAck || opt.memory != 60 {
		t.Errorf("the defaults are %+v", opt)
	}
	opt, err = readOptions(driver.Options{"ack": "manual", "prefetch": "10"})
	if err != nil || opt.ackEvery != 3 {
		t.Errorf("with a small prefetch: ack-every %d, %v", opt.ackEvery, err)
	}
	opt, err = readOptions(driver.Options{"queue": "stream", "confirms": "each", "prefetch": "100"})
	if err != nil || !opt.manualAck || opt.ackEvery != 25 || opt.window != 1 || opt.consuming()["x-stream-offset"] != "first" {
		t.Errorf("a stream: %+v, %v", opt, err)
	}
	if opt, err := readOptions(driver.Options{"delivery": "transient"}); err != nil || opt.mode() != amqp.Transient {
		t.Errorf("transient: %+v, %v", opt, err)
	}
	for _, test := range []struct {
		o    driver.Options
		want string
	}{
		{driver.Options{"queue": "priority"}, `queue = "priority"`},
		{driver.Options{"queue": "stream", "ack": "auto"}, "ack = auto"},
		{driver.Options{"queue": "stream", "delivery": "transient"}, "delivery = transient does nothing with queue = stream"},
		{driver.Options{"window": "10"}, "window does nothing without confirms = bulk"},
		{driver.Options{"confirms": "each", "window": "10"}, "window does nothing without confirms = bulk"},
		{driver.Options{"prefetch": "10"}, "prefetch does nothing without ack = manual"},
		{driver.Options{"ack-every": "10"}, "ack-every does nothing without ack = manual"},
		{driver.Options{"ack": "manual", "prefetch": "10", "ack-every": "11"}, "ack-every = 11"},
		{driver.Options{"memory-percent": "95"}, `memory-percent = "95"`},
		{driver.Options{"heap": "1"}, `unknown option "heap"`},
	} {
		if _, err := readOptions(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v does not say %q", test.o, err, test.want)
		}
	}
}

// The table must show what an option changes.
func TestSettingsFollowOptions(t *testing.T) {
	drivertest.SettingsFollow(t, New(), hosttest.Local(t, ""), [][2]driver.Options{
		{nil, {"queue": "stream"}},
		{nil, {"queue": "quorum"}},
		{nil, {"delivery": "transient"}},
		{nil, {"confirms": "each"}},
		{nil, {"confirms": "bulk"}},
		{{"confirms": "bulk"}, {"confirms": "bulk", "window": "10"}},
		{{"confirms": "bulk"}, {"confirms": "bulk", "queue": "quorum"}},
		{nil, {"socket": "plain"}},
		{nil, {"ack": "manual"}},
		{{"ack": "manual"}, {"ack": "manual", "prefetch": "300"}},
		{{"ack": "manual"}, {"ack": "manual", "ack-every": "100"}},
		{nil, {"memory-percent": "40"}},
	})
}
