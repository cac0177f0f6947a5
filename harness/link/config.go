// Package link makes the two emulated hosts: two network namespaces of this
// machine, joined by a pair of virtual devices that is held to the rate of a
// real wire both ways. It also measures what a link, emulated or real, gives
// TCP: a testbed whose link is not what it claims to be measures something
// else than the paper did (a 1 Gb network, NetDB'11 §5).
package link

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// End is one end of an emulated link: a namespace and what is in it.
type End struct {
	Namespace string
	Device    string // at most 15 bytes
	Addr      string
}

// Config describes an emulated link.
type Config struct {
	Client, Broker End
	// PrefixBits is the length of the network's prefix, in which both
	// addresses lie.
	PrefixBits int
	// RateMbps is the rate of the wire that is emulated, in 10^6 bits a
	// second; 0 leaves the link as fast as it is.
	RateMbps int
	// Congestion is the TCP congestion control on both ends.
	Congestion string
}

// Default returns the built-in link: 1 Gb/s between kafkalab-client and
// kafkalab-broker.
func Default() Config {
	return Config{
		Client:     End{Namespace: "kafkalab-client", Device: "kl-client", Addr: "10.193.7.1"},
		Broker:     End{Namespace: "kafkalab-broker", Device: "kl-broker", Addr: "10.193.7.2"},
		PrefixBits: 24,
		RateMbps:   1000,
		Congestion: "cubic",
	}
}

// maxRateMbps is far above what a virtual link does.
const maxRateMbps = 1_000_000

var (
	namespacePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	devicePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)
	congestionPattern = regexp.MustCompile(`^[a-z0-9_]{1,15}$`)
)

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.PrefixBits < 8 || c.PrefixBits > 30 {
		bad("prefix of %d bits: 8 to 30 are wanted", c.PrefixBits)
	}
	var addrs [2]netip.Addr
	for i, e := range []End{c.Client, c.Broker} {
		if !namespacePattern.MatchString(e.Namespace) {
			bad("namespace %q: letters, digits, '.', '_' and '-' are wanted, 63 at most", e.Namespace)
		}
		if !devicePattern.MatchString(e.Device) {
			bad("device %q: letters, digits, '.', '_' and '-' are wanted, 15 at most", e.Device)
		}
		a, err := netip.ParseAddr(e.Addr)
		if err != nil || !a.Is4() {
			bad("address %q: an IPv4 address is wanted, such as 10.193.7.1", e.Addr)
		}
		addrs[i] = a
	}
	if c.Client.Namespace == c.Broker.Namespace {
		bad("both ends are in the namespace %q: two are wanted", c.Client.Namespace)
	}
	if c.Client.Device == c.Broker.Device {
		bad("both ends have the device %q: two names are wanted", c.Client.Device)
	}
	if addrs[0] == addrs[1] && addrs[0].IsValid() {
		bad("both ends have the address %s: two are wanted", addrs[0])
	} else if addrs[0].IsValid() && addrs[1].IsValid() && c.PrefixBits >= 8 && c.PrefixBits <= 30 {
		if !netip.PrefixFrom(addrs[0], c.PrefixBits).Masked().Contains(addrs[1]) {
			bad("the addresses %s and %s are not in one network of %d bits", addrs[0], addrs[1], c.PrefixBits)
		}
	}
	if c.RateMbps < 0 || c.RateMbps > maxRateMbps {
		bad("rate of %d Mbit/s: 1 to %d is wanted, or none", c.RateMbps, maxRateMbps)
	}
	if !congestionPattern.MatchString(c.Congestion) {
		bad("congestion control %q: a name such as cubic is wanted", c.Congestion)
	}
	if len(errs) > 0 {
		return fmt.Errorf("link: %w", errors.Join(errs...))
	}
	return nil
}

// ParseRate reads the rate of a wire in Mbit/s from text such as "1gbit",
// "2500mbit" or "none", which is 0.
func ParseRate(text string) (mbps int, err error) {
	if text == "none" {
		return 0, nil
	}
	factor := 1
	digits, ok := strings.CutSuffix(text, "mbit")
	if !ok {
		factor = 1000
		digits, ok = strings.CutSuffix(text, "gbit")
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || n == 0 || n > maxRateMbps/uint64(factor) {
		return 0, fmt.Errorf("rate %q: a rate such as \"1gbit\" or \"2500mbit\" is wanted, or \"none\"", text)
	}
	return int(n) * factor, nil
}

// A full frame at an MTU of 1500 takes 1538 bytes of a wire (preamble 8,
// Ethernet header 14, checksum 4, gap 12), of which 1448 are TCP payload (the
// IP header takes 20, the TCP header 20 and its timestamps 12). The shaper
// counts 1514 bytes for it: the packet and the Ethernet header.
const (
	frameWireBytes    = 1538
	frameCountedBytes = 1514
	framePayloadBytes = 1448
)

// ShaperMbps is the rate to which each end is held so that TCP gets what a
// wire of c.RateMbps would give it: 984 for 1000.
func (c Config) ShaperMbps() int { return c.RateMbps * frameCountedBytes / frameWireBytes }

// GoodputMbps is what TCP gets on a wire of that rate at an MTU of 1500: 941
// for 1000.
func GoodputMbps(rateMbps int) float64 {
	return float64(rateMbps) * framePayloadBytes / frameWireBytes
}

// Note describes how the link is made, for results.
func (c Config) Note() string {
	shaped := "not held to a rate"
	if c.RateMbps > 0 {
		shaped = fmt.Sprintf("each end held to %d Mbit/s of frames (tbf, burst %s, latency %s), as a %d Mb/s wire at an MTU of 1500", c.ShaperMbps(), shaperBurst, shaperLatency, c.RateMbps)
	}
	return fmt.Sprintf("veth pair between two network namespaces of one machine, %s; TCP congestion control %s", shaped, c.Congestion)
}
