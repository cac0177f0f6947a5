package nats

import (
	"strings"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host/hosttest"
)

func TestOptions(t *testing.T) {
	opt, err := readOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	// NetDB'11 §5: at most 1,000 messages, about 200 KB.
	if opt.acks != "async" || opt.window != 4000 || opt.ackAll || opt.prefetch != 1000 || opt.prefetchBytes != 204_800 {
		t.Errorf("the defaults are %+v", opt)
	}
	for _, test := range []struct {
		o    driver.Options
		want string
	}{
		{driver.Options{"acks": "all"}, `acks = "all"`},
		{driver.Options{"acks": "each", "window": "10"}, "window does nothing without acks = async"},
		{driver.Options{"acks": "none", "window": "10"}, "window does nothing without acks = async"},
		{driver.Options{"ack-every": "10"}, "ack-every does nothing without ack = all"},
		{driver.Options{"window": "0"}, `window = "0"`},
		{driver.Options{"prefetch": "0"}, `prefetch = "0"`},
		{driver.Options{"prefetch-bytes": "1000"}, `prefetch-bytes = "1000"`},
		{driver.Options{"batch": "1"}, `unknown option "batch"`},
	} {
		if _, err := readOptions(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v does not say %q", test.o, err, test.want)
		}
	}
}

// The table must show what an option changes.
func TestSettingsFollowOptions(t *testing.T) {
	drivertest.SettingsFollow(t, New(), hosttest.Local(t, ""), [][2]driver.Options{
		{nil, {"acks": "none"}},
		{nil, {"acks": "each"}},
		{nil, {"window": "10"}},
		{nil, {"ack": "all"}},
		{{"ack": "all"}, {"ack": "all", "ack-every": "10"}},
		{nil, {"prefetch": "10"}},
		{nil, {"prefetch-bytes": "2048"}},
	})
}
