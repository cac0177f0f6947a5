package env

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"kafkalab/harness/host"
)

// The paper's two machines (NetDB'11 §5), as far as it describes them.
const (
	paperCores    = 8
	paperMHz      = 2000
	paperMemory   = 16_000_000_000
	paperDisks    = 6
	paperLinkMbps = 1000
)

// alike is how far two quantities may be apart, as a share, to be called
// alike: 16 GB of memory show as 15.6 GiB or less.
const alike = 0.1

// compared is a line of the comparison.
type compared struct {
	what, paper, here string
	same              bool
	why               string // what the difference does to a measurement
}

// paper sets a host beside the paper's machines, line by line. With two
// emulated hosts s is that of the machine which they share.
func (c checker) paper(name string, s sections) {
	for _, l := range []compared{c.paperCores(s), paperClock(s), c.paperMemory(s), paperRAID(s), c.paperLink(s)} {
		f := Finding{Host: name, Check: l.what, Status: OK, Detail: l.here, Paper: l.paper}
		if l.here == "" {
			f.Detail = notKnown
		}
		if !l.same {
			f.Status = Note
			if l.why != "" {
				f.Detail += ": " + l.why
			}
		}
		c.each(f)
	}
}

// shared says of what both emulated hosts have only once that it is shared.
func (c checker) shared(text string) string {
	if c.site.Kind == host.SSH || text == "" {
		return text
	}
	return text + ", shared by both hosts"
}

func (c checker) paperCores(s sections) compared {
	l := compared{what: "cores", paper: strconv.Itoa(paperCores), here: c.shared(s.cores())}
	n, err := strconv.Atoi(s.cores())
	l.same = err == nil && n == paperCores && c.site.Kind == host.SSH
	switch {
	case err != nil || l.same:
	case n < paperCores || c.site.Kind != host.SSH:
		l.why = "a system that uses several threads is at a disadvantage here"
	default:
		l.why = "a system that uses several threads is at an advantage here"
	}
	return l
}

func paperClock(s sections) compared {
	l := compared{what: "clock of a core", paper: fmt.Sprintf("%d MHz", paperMHz), here: s.clock()}
	mhz, err := strconv.ParseFloat(value(s["cpuinfo"], "cpu MHz", ":"), 64)
	l.same = err == nil && near(mhz, paperMHz)
	if err == nil && !l.same {
		l.why = "and a core of today does more in a cycle"
	}
	return l
}

func (c checker) paperMemory(s sections) compared {
	l := compared{what: "memory", paper: "16 GB", here: c.shared(s.memory())}
	kib, err := meminfo(s["meminfo"], "MemTotal")
	l.same = err == nil && near(float64(kib*1024), paperMemory) && c.site.Kind == host.SSH
	if err == nil && !l.same {
		l.why = "what the servers leave of it is the page cache"
	}
	return l
}

// tens are the words for RAID 10 of all that make one.
var tens = regexp.MustCompile(`(?i)raid[ -]?10\b|raid[ -]?1\(?(\+|1\+)0\)?`)

// ofDevices is how a RAID's description tells the number of its devices.
var ofDevices = regexp.MustCompile(`of (\d+) (devices|files)`)

func paperRAID(s sections) compared {
	d := s.disk()
	l := compared{what: "disks", paper: fmt.Sprintf("%d in RAID 10", paperDisks), here: strings.Join(nonEmpty(d.raid, d.device), ": ")}
	n := 0
	if m := ofDevices.FindStringSubmatch(d.raid); m != nil {
		n, _ = strconv.Atoi(m[1]) // digits
	}
	l.same = tens.MatchString(d.raid) && n == paperDisks && !strings.Contains(d.raid, "files")
	switch {
	case l.same:
	case tens.MatchString(d.raid) && strings.Contains(d.raid, "files"):
		l.why = "the array is one in its structure, not in its speed"
	case d.memory:
		l.why = "nothing said of a disk will be true"
	}
	return l
}

func (c checker) paperLink(s sections) compared {
	l := compared{what: "link", paper: "1 Gb/s"}
	switch c.site.Kind {
	case host.Namespace:
		l.here = "emulated, not held to a rate"
		if mbps := c.site.Link.RateMbps; mbps > 0 {
			l.here = fmt.Sprintf("%d Mb/s, emulated on one machine", mbps)
		}
		l.same = c.site.Link.RateMbps == paperLinkMbps
	case host.Local:
		l.here, l.why = "none", "client and broker share a machine without a link"
	default:
		l.here = s.device()
		if l.here == "" {
			// Whatever network it is on, it is not the one of the testbed file.
			l.here = "none: the address of the testbed file is not there"
			break
		}
		if mbps := s["speed"]; mbps != "" && !strings.HasPrefix(mbps, "-") {
			l.same = mbps == strconv.Itoa(paperLinkMbps)
		} else if mbps := c.site.Link.RateMbps; mbps > 0 {
			// A virtual device knows no rate; what the link gives is measured.
			l.here += fmt.Sprintf(", declared at %d Mb/s", mbps)
			l.same = mbps == paperLinkMbps
		}
	}
	return l
}

func near(a, b float64) bool { return math.Abs(a-b) <= alike*b }
