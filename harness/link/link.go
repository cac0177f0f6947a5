package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The shaper's burst is one millisecond at 1 Gb/s. Below 64 kB it would cut
// the large packets of segmentation offload, which costs processor time and
// rate; the latency is the length of the queue.
const (
	shaperBurst   = "128kb"
	shaperLatency = "20ms"
)

// Up makes the link, or repairs what an interrupted call or run has left of
// it. On a link that is whole it changes nothing. Each command that changes
// something is printed to out. If it fails, what it made is removed.
func Up(ctx context.Context, c Config, out io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := Rights(); err != nil {
		return err
	}
	t := tool{out}
	ends := []End{c.Client, c.Broker}
	states := make([]namespaceState, len(ends))
	for i, e := range ends {
		s, err := inspect(ctx, e.Namespace)
		if err != nil {
			return err
		}
		if s.exists && !s.ours {
			return fmt.Errorf("the network namespace %s is there but was not made by testbed: remove it (\"ip netns delete %s\") or give the testbed file another name", e.Namespace, e.Namespace)
		}
		states[i] = s
	}
	err := t.make(ctx, c, states)
	if err == nil {
		return nil
	}
	// Half a link is no use; the cause is what matters. What was there may be in
	// use.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWait)
	defer cancel()
	for i, e := range ends {
		if !states[i].exists {
			err = errors.Join(err, t.remove(dctx, e.Namespace))
		}
	}
	return err
}

func (t tool) make(ctx context.Context, c Config, states []namespaceState) error {
	ends := []End{c.Client, c.Broker}
	for i, e := range ends {
		if !states[i].exists {
			if err := t.change(ctx, "ip", "netns", "add", e.Namespace); err != nil {
				return err
			}
		}
		lo, _ := states[i].device("lo")
		if lo.Alias != ourAlias {
			if err := t.change(ctx, "ip", "-netns", e.Namespace, "link", "set", "dev", "lo", "alias", ourAlias); err != nil {
				return err
			}
		}
		if !lo.up() {
			if err := t.change(ctx, "ip", "-netns", e.Namespace, "link", "set", "dev", "lo", "up"); err != nil {
				return err
			}
		}
	}
	if err := t.makePair(ctx, c, states); err != nil {
		return err
	}
	for _, e := range ends {
		if err := t.setUp(ctx, c, e); err != nil {
			return err
		}
	}
	return nil
}

// makePair makes the pair of devices, each at once in its namespace, so that
// nothing is left outside of them whenever this is interrupted.
func (t tool) makePair(ctx context.Context, c Config, states []namespaceState) error {
	_, client := states[0].device(c.Client.Device)
	_, broker := states[1].device(c.Broker.Device)
	if client && broker {
		return nil
	}
	// One end without the other is no pair of this link.
	for i, e := range []End{c.Client, c.Broker} {
		if _, ok := states[i].device(e.Device); ok {
			err := t.change(ctx, "ip", "-netns", e.Namespace, "link", "delete", "dev", e.Device)
			// The kernel may have been about to remove it, after its other end.
			if err != nil && !strings.Contains(err.Error(), "Cannot find device") {
				return err
			}
		}
	}
	err := t.change(ctx, "ip", "link", "add", c.Client.Device, "netns", c.Client.Namespace,
		"type", "veth", "peer", "name", c.Broker.Device, "netns", c.Broker.Namespace)
	if err != nil && (strings.Contains(err.Error(), "Unknown device type") || strings.Contains(err.Error(), "not supported")) {
		return fmt.Errorf("this kernel has no virtual Ethernet pairs: load the module (\"modprobe veth\"), or use two machines (scenarios/testbed.example.toml): %w", err)
	}
	return err
}

// setUp brings one end into the wanted state, and changes only what differs: a
// run may be using the link.
func (t tool) setUp(ctx context.Context, c Config, e End) error {
	s, err := inspect(ctx, e.Namespace)
	if err != nil {
		return err
	}
	d, ok := s.device(e.Device)
	if !ok {
		return fmt.Errorf("the device %s is not in the namespace %s", e.Device, e.Namespace)
	}
	found := false
	for _, a := range d.Addresses {
		if a.Family != "inet" {
			continue
		}
		if a.Local == e.Addr && a.Prefix == c.PrefixBits {
			found = true
			continue
		}
		if err := t.change(ctx, "ip", "-netns", e.Namespace, "address", "delete", fmt.Sprintf("%s/%d", a.Local, a.Prefix), "dev", e.Device); err != nil {
			return err
		}
	}
	if !found {
		if err := t.change(ctx, "ip", "-netns", e.Namespace, "address", "add", fmt.Sprintf("%s/%d", e.Addr, c.PrefixBits), "dev", e.Device); err != nil {
			return err
		}
	}
	if !d.up() {
		if err := t.change(ctx, "ip", "-netns", e.Namespace, "link", "set", "dev", e.Device, "up"); err != nil {
			return err
		}
	}
	if err := t.shape(ctx, c, e); err != nil {
		return err
	}
	return t.setCongestion(ctx, c, e)
}

// Lift takes the rate off a link that is up, at both ends, so that it is as fast
// as the machine makes it; [Hold] puts it back. Nothing else of the link
// changes: connections that are open go on. Each command that changes something
// is printed to out. What fails may leave one end lifted: Hold mends that.
func Lift(ctx context.Context, c Config, out io.Writer) error {
	c.RateMbps = 0
	return Hold(ctx, c, out)
}

// Hold holds a link that is up to its rate, at both ends, whatever was done to
// it before. Where it is held already nothing is changed.
func Hold(ctx context.Context, c Config, out io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := Rights(); err != nil {
		return err
	}
	t := tool{out}
	var errs []error
	for _, e := range []End{c.Client, c.Broker} {
		if err := t.shape(ctx, c, e); err != nil {
			errs = append(errs, fmt.Errorf("rate of the link in the namespace %s: %w", e.Namespace, err))
		}
	}
	return errors.Join(errs...)
}

// shape holds the end to its rate.
func (t tool) shape(ctx context.Context, c Config, e End) error {
	var queues []struct {
		Kind    string `json:"kind"`
		Root    bool   `json:"root"`
		Options struct {
			BytesPerSecond int64 `json:"rate"`
		} `json:"options"`
	}
	if err := query(ctx, &queues, "tc", "-netns", e.Namespace, "-json", "qdisc", "show", "dev", e.Device); err != nil {
		return err
	}
	want := int64(c.ShaperMbps()) * 1e6 / 8
	shaped := false
	for _, q := range queues {
		if q.Root && q.Kind == "tbf" {
			if c.RateMbps > 0 && q.Options.BytesPerSecond == want {
				return nil
			}
			shaped = true
		}
	}
	if c.RateMbps == 0 {
		if !shaped {
			return nil
		}
		return t.change(ctx, "tc", "-netns", e.Namespace, "qdisc", "delete", "dev", e.Device, "root")
	}
	err := t.change(ctx, "tc", "-netns", e.Namespace, "qdisc", "replace", "dev", e.Device, "root",
		"tbf", "rate", strconv.Itoa(c.ShaperMbps())+"mbit", "burst", shaperBurst, "latency", shaperLatency)
	if err != nil && strings.Contains(err.Error(), "Specified qdisc") {
		return fmt.Errorf("this kernel has no token bucket shaper: load the module (\"modprobe sch_tbf\"): %w", err)
	}
	return err
}

// downWait bounds the removal of a link.
const downWait = 20 * time.Second

// Down removes the namespaces, with the link and every process in them. What
// is not there is no error; what is not ours is one.
func Down(ctx context.Context, c Config, out io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	// Without the namespaces there is nothing to do, nor any right needed.
	if !namespaceExists(c.Client.Namespace) && !namespaceExists(c.Broker.Namespace) {
		return nil
	}
	if err := Rights(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downWait)
	defer cancel()
	t := tool{out}
	var errs []error
	for _, e := range []End{c.Client, c.Broker} {
		errs = append(errs, t.remove(ctx, e.Namespace))
	}
	return errors.Join(errs...)
}

func (t tool) remove(ctx context.Context, name string) error {
	s, err := inspect(ctx, name)
	if err != nil || !s.exists {
		return err
	}
	if !s.ours {
		return fmt.Errorf("the network namespace %s was not made by testbed and is left alone: \"ip netns delete %s\" removes it", name, name)
	}
	if err := t.killAll(ctx, name); err != nil {
		return err
	}
	return t.change(ctx, "ip", "netns", "delete", name)
}

// killAll kills every process in the namespace, until there is none: a
// namespace with a process in it would live on without a name.
func (t tool) killAll(ctx context.Context, name string) error {
	printed := map[string]bool{}
	for {
		out, err := run(ctx, "ip", "netns", "pids", name)
		if err != nil {
			return err
		}
		pids := strings.Fields(string(out))
		if len(pids) == 0 {
			return nil
		}
		for _, p := range pids {
			pid, err := strconv.Atoi(p)
			if err != nil {
				return fmt.Errorf("ip netns pids %s: %w", name, err)
			}
			if !printed[p] {
				printed[p] = true
				fmt.Fprintln(t.out, "kill -KILL", pid)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("ending process %d in the namespace %s: %w", pid, name, err)
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the processes %s in the namespace %s do not end: %w", strings.Join(pids, ", "), name, ctx.Err())
		}
	}
}
