package rabbitmq

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/streadway/amqp"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
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
	h, err := host.Open(t.Context(), host.Config{Name: "local", Kind: host.Local, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	tables := map[string]string{}
	table := func(o driver.Options) string {
		t.Helper()
		key := fmt.Sprint(o)
		if tables[key] == "" {
			rows, err := New().Settings(t.Context(), h, o)
			if err != nil {
				t.Fatal(err)
			}
			tables[key] = fmt.Sprint(rows)
		}
		return tables[key]
	}
	for _, test := range []struct{ before, after driver.Options }{
		{nil, driver.Options{"queue": "stream"}},
		{nil, driver.Options{"queue": "quorum"}},
		{nil, driver.Options{"delivery": "transient"}},
		{nil, driver.Options{"confirms": "each"}},
		{nil, driver.Options{"confirms": "bulk"}},
		{driver.Options{"confirms": "bulk"}, driver.Options{"confirms": "bulk", "window": "10"}},
		{driver.Options{"confirms": "bulk"}, driver.Options{"confirms": "bulk", "queue": "quorum"}},
		{nil, driver.Options{"socket": "plain"}},
		{nil, driver.Options{"ack": "manual"}},
		{driver.Options{"ack": "manual"}, driver.Options{"ack": "manual", "prefetch": "300"}},
		{driver.Options{"ack": "manual"}, driver.Options{"ack": "manual", "ack-every": "100"}},
		{nil, driver.Options{"memory-percent": "40"}},
	} {
		if table(test.before) == table(test.after) {
			t.Errorf("the table of %v is that of %v", test.after, test.before)
		}
	}
}
