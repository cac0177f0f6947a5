package link

import (
	"strings"
	"testing"
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
		want string
	}{
		{941, 1000, ""}, {895, 1000, ""}, {988, 1000, ""}, {3, 0, ""},
		{890, 1000, "890"}, {993, 1000, "does not go over the declared link"}, {0, 1000, "other load"},
	} {
		err := judge(c.mbps, c.rate)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v at %d: %v, want %q", c.mbps, c.rate, err, c.want)
		}
	}
}
