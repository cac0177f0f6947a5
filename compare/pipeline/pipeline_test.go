package pipeline

import (
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
)

// What cannot be is refused before anything is started.
func TestRefused(t *testing.T) {
	p := New().(driver.Pipeliner)
	good := driver.Target{Addr: "127.0.0.1:1", Extra: map[string]string{liveKey: "127.0.0.1:1", replicaKey: "127.0.0.1:1"}}
	plan := driver.PipelinePlan{PayloadBytes: 200, Messages: 1, Rate: 1, Stall: time.Second}
	short := plan
	short.PayloadBytes = leastLine - 1
	for name, c := range map[string]struct {
		target driver.Target
		plan   driver.PipelinePlan
		o      driver.Options
		want   string
	}{
		"target":  {driver.Target{Addr: "127.0.0.1:1"}, plan, nil, "none of its own"},
		"payload": {good, short, nil, "messages of at least 39 bytes"},
		"options": {good, plan, driver.Options{"load-interval": "1ms"}, "load-interval = 1ms"},
		"nowhere": {good, driver.PipelinePlan{PayloadBytes: 200, Messages: 1, Rate: 1, Stall: time.Second, Program: "/nonexistent/kafka", Dir: t.TempDir(), Moved: func(int64, int64) {}}, nil, "/nonexistent/kafka"},
	} {
		if _, err := p.Pipeline(t.Context(), c.target, c.o, c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := New().Connect(t.Context(), good, nil); err == nil {
		t.Error("somebody could connect as to a single queue")
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    driver.Options
		want string
	}{
		{driver.Options{}, ""},
		{driver.Options{"linger": "0s", "fault": "broker", "acks": "flushed"}, ""},
		{driver.Options{"brokers": "1", "fault": "broker"}, "nowhere to go"},
		{driver.Options{"mirrors": "1", "fault": "mirror"}, "nobody would take over"},
		{driver.Options{"fault": "set", "acks": "appended"}, "would notice"},
		{driver.Options{"fault": "flood"}, `fault = "flood"`},
		{driver.Options{"partitions": "1", "replica-brokers": "3"}, "cannot be dealt evenly"},
		{driver.Options{"flush-interval": "0s"}, "nothing would become visible"},
		{driver.Options{"session-timeout": "1ms"}, "session-timeout = 1ms"},
		{driver.Options{"audit-window": "1ms"}, "audit-window = 1ms"},
		{driver.Options{"linger": "1us"}, "linger = 1µs"},
		{driver.Options{"mirror": "2"}, "mirror"},
	} {
		_, err := readOptions(c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.o, err, c.want)
		}
	}
	settings, err := New().Settings(t.Context(), nil, driver.Options{"fault": "set"})
	if err != nil || len(settings) != len(driver.SettingRows) {
		t.Fatalf("%+v, %v", settings, err)
	}
	for i, s := range settings {
		if s.Row != driver.SettingRows[i] || s.Value == "" {
			t.Errorf("%+v", s)
		}
	}
	if last := settings[len(settings)-1].Value; !strings.Contains(last, "a load every 10s") || !strings.Contains(last, "left out") {
		t.Errorf("%q", last)
	}
}

func TestParts(t *testing.T) {
	for n := range 3 {
		if got, err := partNumber(partName(n)); err != nil || got != n {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	for _, name := range []string{"", "live-broker-", "live-broker-x", "live-broker-01", "replica-broker-0"} {
		if _, err := partNumber(name); err == nil {
			t.Errorf("%q is a part", name)
		}
	}
	if _, err := (&server{}).KillPart(t.Context(), partName(0)); err == nil {
		t.Error("a broker that is none was killed")
	}
}

func TestBalancerConfig(t *testing.T) {
	got := string(balancerConfig("10.0.0.1:9000", []string{"10.0.0.1:1", "10.0.0.1:2"}))
	for _, want := range []string{"mode tcp", "bind 10.0.0.1:9000\n", "server broker0 10.0.0.1:1\n", "server broker1 10.0.0.1:2\n", "redispatch"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
