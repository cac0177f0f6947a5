package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
	"kafkalab/harness/raid"
)

// Status is how a finding is to be taken.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Note    Status = "note"    // worth knowing; a run is possible
	Missing Status = "missing" // a run cannot be complete without it
)

// Finding is one thing that was looked at.
type Finding struct {
	Host   string `json:"host"` // "here" is the machine that the testbed runs on
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`        // what there is, or is wrong
	Fix    string `json:"fix,omitempty"` // the command that mends it
	// Paper is what the paper's machine had, in the lines that compare a host
	// with it; "" in all others. There OK means alike, and Note another one.
	Paper string `json:"paper,omitempty"`
}

// Here is what findings call the machine that the testbed runs on.
const Here = "here"

// Site is a testbed to be checked.
type Site struct {
	Kind           host.Kind // of the testbed
	Client, Broker host.Config
	Link           link.Config
	NeedBytes      int64       // space wanted on the broker host's disk
	Limits         host.Limits // what every broker is to have
	// TestbedFlag is how the commands of the fixes name the testbed file:
	// "--testbed FILE", or "" for the built-in one.
	TestbedFlag string
	// Program is how those commands call the testbed; "" for "testbed".
	Program string
	// Array is the RAID 10 that "testbed up --raid10" makes for emulated hosts.
	Array raid.Config
}

// diskBytesPerMessage is what the greediest of the systems takes on disk for a
// message of 200 bytes: ActiveMQ's journal and index, with half as much again
// for what is written before the old is freed.
const diskBytesPerMessage = 1200

// diskBytesAlways is what servers want however few the messages: RabbitMQ
// stops taking any when 500 MB are left, ActiveMQ makes its files in advance.
const diskBytesAlways = 1 << 30

// NeedBytes is the disk space that a run of so many messages needs.
func NeedBytes(messages int64) int64 { return diskBytesAlways + messages*diskBytesPerMessage }

// checkWait bounds the questions to one host.
const checkWait = 60 * time.Second

// Check looks at everything that a run needs, and calls each with every
// finding as it comes. The error is that of ctx; whatever else goes wrong is a
// finding.
func Check(ctx context.Context, site Site, each func(Finding)) error {
	c := checker{site: site, each: each}
	c.programs(ctx)
	switch site.Kind {
	case host.Namespace:
		c.namespaces(ctx)
		c.array()
		// Both hosts share this machine, which can be asked without the link.
		c.host(ctx, c.here(site.Broker.Dir), true, nil)
	case host.Local:
		c.host(ctx, c.here(site.Broker.Dir), true, nil)
	default:
		clocks := map[string]time.Duration{}
		c.host(ctx, site.Client, false, clocks)
		c.host(ctx, site.Broker, true, clocks)
		c.clocks(clocks)
	}
	return ctx.Err()
}

type checker struct {
	site Site
	each func(Finding)
}

func (c checker) report(at, check string, status Status, detail, fix string) {
	c.each(Finding{Host: at, Check: check, Status: status, Detail: detail, Fix: fix})
}

func (c checker) here(dir string) host.Config {
	return host.Config{Name: Here, Kind: host.Local, Dir: dir, BinDir: c.site.Broker.BinDir}
}

// testbed writes a command of this program for a fix.
func (c checker) testbed(words string) string {
	program := c.site.Program
	if program == "" {
		program = "testbed"
	}
	return strings.TrimSpace(program + " " + words + " " + c.site.TestbedFlag)
}

// programs looks for the project's own programs.
func (c checker) programs(context.Context) {
	dir := c.site.Broker.BinDir
	if dir == "" {
		exe, err := os.Executable()
		if err != nil {
			c.report(Here, "own programs", Missing, err.Error(), "make build")
			return
		}
		dir = filepath.Dir(exe)
	}
	var missing []string
	for _, name := range []string{"kafka", "testbed"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		c.report(Here, "own programs", Missing, strings.Join(missing, " and ")+" not beside this program", "make build")
		return
	}
	c.report(Here, "own programs", OK, "kafka and testbed", "")
}

// namespaces looks whether the emulated hosts can be made, by making a pair of
// them under other names, and what is left of earlier ones.
func (c checker) namespaces(ctx context.Context) {
	if err := link.Rights(); err != nil {
		fix := "sudo " + c.testbed("doctor")
		if os.Geteuid() == 0 {
			fix = "make setup"
		}
		c.report(Here, "rights and tools", Missing, err.Error(), fix)
		return
	}
	c.report(Here, "rights and tools", OK, "root rights, ip and tc", "")
	c.trial(ctx)
	left, err := link.Leftovers(ctx, c.site.Link)
	if err != nil {
		c.report(Here, "namespaces", Missing, err.Error(), "")
		return
	}
	if len(left) == 0 {
		c.report(Here, "namespaces", OK, "none there yet: \""+c.testbed("up")+"\" makes them", "")
	}
	for _, l := range left {
		switch {
		case !l.Ours:
			c.report(Here, "namespaces", Missing, l.Namespace+" is there and was not made by testbed", "ip netns delete "+l.Namespace)
		case len(l.PIDs) > 0:
			c.report(Here, "namespaces", Note, fmt.Sprintf("%s is up, with %d processes in it: a run is going on, or one was interrupted", l.Namespace, len(l.PIDs)), c.testbed("down"))
		default:
			c.report(Here, "namespaces", OK, l.Namespace+" is up", "")
		}
	}
}

// array looks whether a RAID 10 is there, or could be made.
func (c checker) array() {
	there, err := raid.Exists(c.site.Array)
	if err == nil && there {
		c.report(Here, "RAID 10", OK, "is up in "+c.site.Array.Dir+": \"testbed run --raid10\" uses it", "")
		return
	}
	if left, leftErr := raid.Left(c.site.Array); err == nil && leftErr == nil && left {
		c.report(Here, "RAID 10", Note, "a part of one is in "+c.site.Array.Dir+", left by a call that was killed", c.testbed("down"))
		return
	}
	if err == nil {
		err = raid.Ready()
	}
	if err != nil {
		// Nobody needs it who does not ask for it.
		c.report(Here, "RAID 10", Note, "cannot be made of files here: "+err.Error(), "")
		return
	}
	c.report(Here, "RAID 10", OK, "none: \""+c.testbed("up --raid10")+"\" makes one of six files", "")
}

func (c checker) trial(ctx context.Context) {
	trial := c.site.Link
	id := fmt.Sprint(os.Getpid())
	trial.Client.Namespace, trial.Client.Device = "kafkalab-try-"+id+"-c", "kltc"+id
	trial.Broker.Namespace, trial.Broker.Device = "kafkalab-try-"+id+"-b", "kltb"+id
	var commands strings.Builder
	err := link.Up(ctx, trial, &commands)
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWait)
	defer cancel()
	if downErr := link.Down(dctx, trial, &commands); err == nil {
		err = downErr
	}
	if err != nil {
		c.report(Here, "emulated link", Missing, err.Error(), "use two machines: scenarios/testbed.example.toml")
		return
	}
	c.report(Here, "emulated link", OK, "namespaces, a pair of devices, shaper and "+trial.Congestion+" can be made", "")
}
