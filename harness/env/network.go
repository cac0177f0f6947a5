package env

import (
	"fmt"
	"strings"
)

// device is the network device that has the host's address, with its kind and
// rate as far as they are known.
func (s sections) device() string {
	name := s["device"]
	if name == "" {
		return ""
	}
	lines := strings.Split(s["link"], "\n")
	if len(lines) > 2 {
		// The third line begins with the kind of a virtual device.
		if f := strings.Fields(lines[2]); len(f) > 0 && (f[0] == "veth" || f[0] == "bridge" || f[0] == "vlan" || f[0] == "bond") {
			// What a veth claims as its rate, 10 Gb/s, is a constant.
			return name + " (" + f[0] + ")"
		}
	}
	if speed := s["speed"]; speed != "" && speed != "-1" {
		return fmt.Sprintf("%s, %s Mb/s", name, speed)
	}
	return name
}

// offloadNames are the offloads that decide how many packets a transfer costs.
var offloadNames = []struct{ long, short string }{
	{"tcp-segmentation-offload", "tso"},
	{"generic-segmentation-offload", "gso"},
	{"generic-receive-offload", "gro"},
	{"large-receive-offload", "lro"},
	{"tx-checksumming", "tx checksum"},
	{"rx-checksumming", "rx checksum"},
}

// offloads lists the offloads by ethtool, or else the size of the packets that
// the stack may hand to the device.
func (s sections) offloads() string {
	var out []string
	for _, o := range offloadNames {
		if state := firstWord(value(s["offloads"], o.long, ":")); state != "" {
			out = append(out, o.short+" "+state)
		}
	}
	if len(out) > 0 {
		return strings.Join(out, ", ")
	}
	if size := word(s["link"], "gso_max_size"); size != "" {
		return "packets of up to " + size + " bytes handed to the device (ethtool is not installed)"
	}
	return ""
}

func firstWord(text string) string {
	f := strings.Fields(text)
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

// queue is the root queueing discipline of the device: the shaper, on an
// emulated link.
func (s sections) queue() string {
	for line := range strings.Lines(s["qdisc"]) {
		f := strings.Fields(line) // "qdisc tbf 8001: root refcnt 3 rate …"
		if len(f) < 4 || f[3] != "root" {
			continue
		}
		out := f[1]
		for _, name := range []string{"rate", "burst", "lat"} {
			if v := word(line, name); v != "" && f[1] == "tbf" {
				out += " " + name + " " + v
			}
		}
		return out
	}
	return ""
}
