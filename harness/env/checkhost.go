package env

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/host"
)

// pack is a package and how it is known to be there: programs on the PATH or
// files.
type pack struct {
	name, what string
	files      []string
}

// serverPackages are what the broker host needs to run the systems compared.
var serverPackages = []pack{
	{"rabbitmq-server", "RabbitMQ", []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "erl", "epmd"}},
	{"activemq", "ActiveMQ", []string{"/usr/share/java/activemq-run.jar", "java"}},
	{"nats-server", "NATS", []string{"nats-server"}},
	{"haproxy", "haproxy", []string{"haproxy"}},
	{"bash", "bash", []string{"bash"}}, // asks them whether they take requests
}

// basePackages are what the testbed itself uses on a host, which common
// systems have.
var basePackages = []pack{
	{"iproute2", "iproute2", []string{"ip"}},
	{"util-linux", "util-linux", []string{"setsid"}},
	{"tar", "tar", []string{"tar"}},
	{"coreutils", "coreutils", []string{"sha256sum", "du", "df", "mktemp"}},
}

// minMemoryBytes is what ActiveMQ's 2 GiB heap and a client beside it need.
const minMemoryBytes = 3 << 30

// host looks at one host. clocks takes how far its clock is from this
// machine's.
func (c checker) host(ctx context.Context, cfg host.Config, broker bool, clocks map[string]time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	h, err := host.Open(ctx, cfg)
	if err != nil {
		fix := ""
		if cfg.Kind == host.SSH {
			fix = sshFix(cfg.SSH)
		}
		c.report(cfg.Name, "reachable", Missing, err.Error(), fix)
		return
	}
	defer func() {
		if err := h.Close(ctx); err != nil {
			c.report(cfg.Name, "cleaning up", Note, err.Error(), "")
		}
	}()
	if cfg.Kind == host.SSH {
		c.report(cfg.Name, "reachable", OK, "by ssh", "")
	}
	s, err := collect(ctx, h)
	if err != nil {
		c.report(cfg.Name, "description", Missing, err.Error(), "")
		return
	}
	packages := basePackages
	if broker {
		packages = append(packages[:len(packages):len(packages)], serverPackages...)
	}
	c.packages(ctx, h, packages)
	if broker {
		c.space(ctx, h)
		c.disk(h, s)
		c.diskRate(ctx, h)
		c.limits(ctx, h)
		c.ports(ctx, h)
	}
	c.memory(h, s)
	c.congestion(h, s)
	if cfg.Kind == host.SSH {
		c.copies(ctx, h)
	}
	if clocks != nil {
		c.address(h, s, broker)
		if d, err := clockOffset(ctx, h); err == nil {
			clocks[h.Name()] = d
		} else {
			c.report(h.Name(), "clock", Note, err.Error(), "")
		}
	}
	if cfg.Kind == host.SSH || c.site.Kind == host.SSH {
		c.paper(h.Name(), s)
		return
	}
	for _, name := range []string{c.site.Client.Name, c.site.Broker.Name} {
		c.paper(name, s)
	}
}

// sshFix is what makes ssh work without a question: the host's key accepted
// once, and a key of the user's own there.
func sshFix(s host.SSHConfig) string {
	var options string
	if s.ConfigFile != "" {
		options += " -F " + s.ConfigFile
	}
	if s.Port != 0 {
		options += fmt.Sprintf(" -p %d", s.Port)
	}
	if s.Identity != "" {
		options += " -i " + s.Identity
	}
	return fmt.Sprintf("is the host up, and its name or address right? then \"ssh-copy-id%[1]s %[2]s\", until \"ssh -o BatchMode=yes%[1]s %[2]s true\" asks nothing", options, s.Target)
}

func (c checker) packages(ctx context.Context, h host.Host, packages []pack) {
	var files, there []string
	for _, p := range packages {
		files = append(files, p.files...)
	}
	all, err := host.Missing(ctx, h, files...)
	if err != nil {
		c.report(h.Name(), "packages", Missing, err.Error(), "")
		return
	}
	for _, p := range packages {
		var missing []string
		for _, f := range p.files {
			if slices.Contains(all, f) {
				missing = append(missing, f)
			}
		}
		if len(missing) > 0 {
			fix := "make setup"
			if h.Kind() == host.SSH {
				fix = "on " + h.Name() + ": sudo apt-get install --no-install-recommends " + p.name
			}
			c.report(h.Name(), p.what, Missing, strings.Join(missing, ", ")+" of the package "+p.name+" not there", fix)
			continue
		}
		there = append(there, p.what)
	}
	if len(there) > 0 {
		c.report(h.Name(), "packages", OK, strings.Join(there, ", "), "")
	}
}

func (c checker) space(ctx context.Context, h host.Host) {
	free, err := h.FreeBytes(ctx, h.Dir())
	switch {
	case err != nil:
		c.report(h.Name(), "disk space", Missing, err.Error(), "")
	case free < c.site.NeedBytes:
		c.report(h.Name(), "disk space", Missing, fmt.Sprintf("%s free, %s needed", gib(free), gib(c.site.NeedBytes)),
			"free some, send fewer messages (MESSAGES=N make bench), or name another dir in the testbed file")
	default:
		c.report(h.Name(), "disk space", OK, fmt.Sprintf("%s free, %s needed", gib(free), gib(c.site.NeedBytes)), "")
	}
}

func (c checker) disk(h host.Host, s sections) {
	d := s.disk()
	switch {
	case d.memory:
		c.report(h.Name(), "disk", Note, "the folder is in memory ("+d.fileSystem+"): nothing said of a disk will be true", "name another dir in the testbed file")
	case d.raid == noRAID:
		// Said, not refused: the paper's six disks in RAID 10 are rare.
		c.report(h.Name(), "disk", Note, d.device+", "+noRAID+" (the paper had six disks in RAID 10); "+d.fileSystem, "")
	default:
		c.report(h.Name(), "disk", OK, strings.Join(nonEmpty(d.device, d.raid, d.fileSystem), ", "), "")
	}
}

func (c checker) diskRate(ctx context.Context, h host.Host) {
	rate, err := AskDiskRate(ctx, h, DiskRateTime)
	if err != nil {
		c.report(h.Name(), "disk rate", Note, err.Error(), "")
		return
	}
	f := rate.Facts()
	c.report(h.Name(), "disk rate", OK, fmt.Sprintf("writes %s, reads %s", f[0].Value, f[1].Value), "")
}

func nonEmpty(words ...string) (out []string) {
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

func (c checker) ports(ctx context.Context, h host.Host) {
	port, err := h.FreePort(ctx)
	if err != nil {
		c.report(h.Name(), "ports", Missing, err.Error(), "ss -tlnp")
		return
	}
	c.report(h.Name(), "ports", OK, fmt.Sprintf("free ones are found, such as %d", port), "")
}

func (c checker) memory(h host.Host, s sections) {
	kib, err := meminfo(s["meminfo"], "MemAvailable")
	switch {
	case err != nil:
		c.report(h.Name(), "memory", Note, "how much is available is not known: "+err.Error(), "")
	case kib*1024 < minMemoryBytes:
		c.report(h.Name(), "memory", Note, fmt.Sprintf("%s available; ActiveMQ alone may take 2 GiB, and what is left is the page cache", gib(kib*1024)), "end other programs")
	default:
		c.report(h.Name(), "memory", OK, gib(kib*1024)+" available", "")
	}
}

// congestion matters between real hosts; on an emulated link up sets it.
func (c checker) congestion(h host.Host, s sections) {
	want := c.site.Link.Congestion
	switch got := s["congestion"]; {
	case c.site.Kind != host.SSH:
	case got == want:
		c.report(h.Name(), "congestion control", OK, got, "")
	default:
		c.report(h.Name(), "congestion control", Note, got+"; the emulated link has "+want+", and both hosts should have the same",
			"on "+h.Name()+": sudo sysctl -w net.ipv4.tcp_congestion_control="+want)
	}
}

// copies looks whether the project's programs can be brought to the host.
func (c checker) copies(ctx context.Context, h host.Host) {
	path, err := h.Binary(ctx, "testbed")
	if err == nil {
		_, err = h.Run(ctx, path, "--help")
	}
	if err != nil {
		c.report(h.Name(), "own programs", Missing, err.Error(), "make build")
		return
	}
	c.report(h.Name(), "own programs", OK, "can be copied there and run", "")
}

func (c checker) address(h host.Host, s sections, broker bool) {
	if s["device"] == "" {
		table := "[client]"
		if broker {
			table = "[broker]"
		}
		c.report(h.Name(), "address", Missing, h.Addr()+" is no address of this host",
			"on "+h.Name()+": ip address show; and put the one on the network to be measured as address into "+table+" of the testbed file")
		return
	}
	c.report(h.Name(), "address", OK, h.Addr()+" on "+s.device(), "")
}

// clockOffset is how far the host's clock is ahead of this machine's, to
// within half the time of the question.
func clockOffset(ctx context.Context, h host.Host) (time.Duration, error) {
	before := time.Now()
	out, err := h.Run(ctx, "date", "+%s.%N")
	if err != nil {
		return 0, err
	}
	middle := before.Add(time.Since(before) / 2)
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return 0, fmt.Errorf("date on %s said %q", h.Name(), out)
	}
	return time.Duration(seconds*float64(time.Second)) - time.Duration(middle.UnixNano()), nil
}

// maxClockOffset is far above what a question over ssh takes. Rates are taken
// from one clock each; only logs are hard to read when clocks differ.
const maxClockOffset = time.Second

func (c checker) clocks(offsets map[string]time.Duration) {
	names := make([]string, 0, len(offsets))
	for name := range offsets {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		d := offsets[name]
		text := fmt.Sprintf("%.1f s from this machine's", d.Seconds())
		if d.Abs() > maxClockOffset {
			c.report(name, "clock", Note, text+": the times in logs will not fit together", "on "+name+": sudo timedatectl set-ntp true")
			continue
		}
		c.report(name, "clock", OK, text, "")
	}
}
