package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ourAlias is set on the loopback device of each namespace as the first thing
// after it was made, so that one which an interrupted run left behind is
// recognised as ours, and nobody else's is touched.
const ourAlias = "kafkalab"

// device is what "ip -json -details address show" says of a device.
type device struct {
	Name      string   `json:"ifname"`
	Alias     string   `json:"ifalias"`
	Flags     []string `json:"flags"`
	Addresses []struct {
		Family string `json:"family"`
		Local  string `json:"local"`
		Prefix int    `json:"prefixlen"`
	} `json:"addr_info"`
}

func (d device) up() bool { return slices.Contains(d.Flags, "UP") }

// namespaceState is what a namespace of that name is.
type namespaceState struct {
	exists  bool
	ours    bool // made by us, or so fresh that it may be
	devices []device
	pids    []string // of the processes in it
}

func (s namespaceState) device(name string) (device, bool) {
	for _, d := range s.devices {
		if d.Name == name {
			return d, true
		}
	}
	return device{}, false
}

// namespaceExists looks where ip keeps the names.
func namespaceExists(name string) bool {
	for _, dir := range []string{"/run/netns", "/var/run/netns"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func inspect(ctx context.Context, name string) (namespaceState, error) {
	s := namespaceState{exists: namespaceExists(name)}
	if !s.exists {
		return s, nil
	}
	if err := query(ctx, &s.devices, "ip", "-netns", name, "-json", "-details", "address", "show"); err != nil {
		return s, fmt.Errorf("the namespace %s is there but broken, \"ip netns delete %s\" removes it: %w", name, name, err)
	}
	pids, err := run(ctx, "ip", "netns", "pids", name)
	if err != nil {
		return s, err
	}
	s.pids = strings.Fields(string(pids))
	lo, _ := s.device("lo")
	// Interrupted between its making and its marking, a namespace is empty.
	fresh := len(s.devices) == 1 && lo.Name == "lo" && !lo.up() && len(s.pids) == 0
	s.ours = lo.Alias == ourAlias || fresh
	return s, nil
}

// Exists reports whether both namespaces are there and are ours; whether the
// link between them is whole is for Up to see.
func Exists(ctx context.Context, c Config) (bool, error) {
	if err := c.Validate(); err != nil {
		return false, err
	}
	if !namespaceExists(c.Client.Namespace) || !namespaceExists(c.Broker.Namespace) {
		return false, nil
	}
	if err := Rights(); err != nil {
		return false, err
	}
	for _, e := range []End{c.Client, c.Broker} {
		s, err := inspect(ctx, e.Namespace)
		if err != nil || !s.ours {
			return false, err
		}
		if _, ok := s.device(e.Device); !ok {
			return false, nil
		}
	}
	return true, nil
}

// Left is a namespace of the link that is there.
type Left struct {
	Namespace string
	Ours      bool
	PIDs      []string
}

// Leftovers lists the namespaces of the link that are there.
func Leftovers(ctx context.Context, c Config) ([]Left, error) {
	var left []Left
	for _, e := range []End{c.Client, c.Broker} {
		s, err := inspect(ctx, e.Namespace)
		if err != nil {
			return left, err
		}
		if s.exists {
			left = append(left, Left{Namespace: e.Namespace, Ours: s.ours, PIDs: s.pids})
		}
	}
	return left, nil
}
