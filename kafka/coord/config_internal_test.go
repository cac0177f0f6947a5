package coord

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseServers(t *testing.T) {
	for _, c := range []struct {
		servers string
		addrs   []string
		chroot  string
	}{
		{"localhost:2181", []string{"localhost:2181"}, ""},
		{"localhost:2181/", []string{"localhost:2181"}, ""},
		{"a:1,b:65535/kafka/one", []string{"a:1", "b:65535"}, "/kafka/one"},
		{" a:1 , b:2 ", []string{"a:1", "b:2"}, ""},
		{"a", []string{"a:2181"}, ""},
		{"a,b/c", []string{"a:2181", "b:2181"}, "/c"},
		{"[::1]:2182,[fe80::1%eth0]/k", []string{"[::1]:2182", "[fe80::1%eth0]:2181"}, "/k"},
		{"127.0.0.1:02181", []string{"127.0.0.1:02181"}, ""},
	} {
		addrs, chroot, err := parseServers(c.servers)
		if err != nil || !slices.Equal(addrs, c.addrs) || chroot != c.chroot {
			t.Errorf("%q: %q, %q, %v", c.servers, addrs, chroot, err)
		}
	}
}

// TestBadConfig: what is wrong is named, with the way out.
func TestBadConfig(t *testing.T) {
	for servers, want := range map[string]string{
		"":                 "no server is named",
		"  ":               "no server is named",
		"/kafka":           "no server is named",
		"zk://a:1/k":       "without zk:// before it",
		"a:1,":             "has no host",
		"a:1,,b:1":         "has no host",
		":2181":            "has no host",
		"a b:1":            "has no host",
		"::1":              "brackets",
		"fe80::1:2181":     "brackets",
		"[::1":             "want host:port",
		"[::1]2181":        "want host:port",
		"[localhost]:2181": "not an IPv6 address",
		"a:":               "not a number from 1 to 65535",
		"a:x":              "not a number from 1 to 65535",
		"a:0":              "not a number from 1 to 65535",
		"a:65536":          "not a number from 1 to 65535",
		"a:-1":             "not a number from 1 to 65535",
		"a:1/k,b:1/k":      "once, after the last server",
		"a:1/k/":           `a name ""`,
		"a:1//k":           `a name ""`,
		"a:1/k/..":         `a name ".."`,
		"a:1/\x00":         "U+0000",
	} {
		err := Config{Servers: servers}.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", servers, err, want)
		}
	}
	for _, c := range []Config{
		{SessionTimeout: -time.Second},
		{SessionTimeout: time.Millisecond},
		{SessionTimeout: MaxSessionTimeout + 1},
		{ConnectTimeout: -1},
		{RequestTimeout: -1},
	} {
		c.Servers = "a:1"
		if err := c.Check(); err == nil {
			t.Errorf("%+v passes", c)
		}
		if _, err := Connect(t.Context(), c); err == nil {
			t.Errorf("connect with %+v", c)
		}
	}
}

func TestDefaults(t *testing.T) {
	cfg, _, _, err := Config{Servers: "a:1", SessionTimeout: 3 * time.Second}.parse()
	if err != nil || cfg.ConnectTimeout != 3*time.Second || cfg.RequestTimeout != 3*time.Second || cfg.Logger == nil {
		t.Errorf("%+v, %v", cfg, err)
	}
	if cfg, _, _, _ = (Config{Servers: "a:1"}).parse(); cfg.SessionTimeout != 6*time.Second {
		t.Errorf("session time-out %v", cfg.SessionTimeout)
	}
}

func TestCheckPath(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b-c_d.e", "/é/ü", "/...", "/.a", "/a b"} {
		if err := checkPath(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/\x00", "/\n", "/\x7f", "/\u0085", "/\ue000/\uf8ff", "/\xff", "/\ufff0"} {
		if err := checkPath(path); !errors.Is(err, ErrArgument) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := checkRequest("/a", make([]byte, maxRequestBytes)); !errors.Is(err, ErrArgument) {
		t.Errorf("large value: %v", err)
	}
	for path, want := range map[string]string{"/a": "/", "/a/b": "/a", "/a/b/c": "/a/b"} {
		if got := parent(path); got != want {
			t.Errorf("parent of %s: %s", path, got)
		}
	}
}
