package link

import (
	"strings"
	"testing"

	"kafkalab/harness/host"
)

func TestDefaultIsGood(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	// What a real gigabit wire gives TCP, and what it takes for that.
	if got := GoodputMbps(c.RateMbps); got < 941 || got > 942 {
		t.Errorf("goodput of a gigabit wire: %v", got)
	}
	if got := c.ShaperMbps(); got != 984 {
		t.Errorf("shaper for a gigabit wire: %v", got)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Client.Namespace = "a b" }, `"a b"`},
		{func(c *Config) { c.Client.Namespace = "../x" }, `"../x"`},
		{func(c *Config) { c.Broker.Device = "much-too-long-for-a-device" }, "15 at most"},
		{func(c *Config) { c.Broker.Device = c.Client.Device }, "both ends have the device"},
		{func(c *Config) { c.Broker.Namespace = c.Client.Namespace }, "both ends are in the namespace"},
		{func(c *Config) { c.Client.Addr = "10.1" }, `"10.1"`},
		{func(c *Config) { c.Client.Addr = "fe80::1" }, "IPv4"},
		{func(c *Config) { c.Client.Addr = c.Broker.Addr }, "both ends have the address"},
		{func(c *Config) { c.Client.Addr = "10.1.1.1" }, "not in one network"},
		{func(c *Config) { c.PrefixBits = 31 }, "31 bits"},
		{func(c *Config) { c.RateMbps = -1 }, "-1"},
		{func(c *Config) { c.Congestion = "$(id)" }, `"$(id)"`},
	} {
		config := Default()
		c.change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int{"1gbit": 1000, "2500mbit": 2500, "1mbit": 1, "none": 0, "1000gbit": 1_000_000} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "gbit", "0gbit", "-1gbit", "1.5gbit", "1 gbit", "1Gbit", "1001gbit", "9999999999mbit", "None"} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("%q was read as %d, %v", text, got, err)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		mbps float64
		rate int
		kind host.Kind
		want string
	}{
		{941, 1000, host.Namespace, ""}, {895, 1000, host.SSH, ""}, {988, 1000, host.SSH, ""}, {3, 0, host.SSH, ""},
		{890, 1000, host.SSH, "890"}, {993, 1000, host.SSH, "does not go over that network"}, {0, 1000, host.SSH, "other load"},
		{938, 10_000, host.SSH, `put rate = "1000mbit" into [link]`}, {9400, 1000, host.SSH, `put rate = "10000mbit" into [link]`},
		{993, 1000, host.Namespace, "does not go over the emulated link"}, {747, 1000, host.Namespace, "both ends are this machine, which is too busy"},
	} {
		err := judge(c.mbps, c.rate, c.kind)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v at %d: %v, want %q", c.mbps, c.rate, err, c.want)
		}
	}
	for _, c := range []struct {
		mbps float64
		kind host.Kind
		want int
	}{{747, host.Namespace, emulatedTries}, {100, host.Namespace, measureTries}, {1200, host.Namespace, measureTries}, {747, host.SSH, measureTries}} {
		if got := tries(c.mbps, 1000, c.kind); got != c.want {
			t.Errorf("%v on %s: %d tries, want %d", c.mbps, c.kind, got, c.want)
		}
	}
}
