package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/link"
)

func up(t *testing.T, c link.Config) (commands string) {
	t.Helper()
	var out bytes.Buffer
	if err := link.Up(t.Context(), c, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// whole checks the link from outside, with ip and tc.
func whole(t *testing.T, c link.Config) {
	t.Helper()
	for _, e := range []link.End{c.Client, c.Broker} {
		addresses := ip(t, "-netns", e.Namespace, "-o", "address", "show", "dev", e.Device)
		if want := fmt.Sprintf("inet %s/%d ", e.Addr, c.PrefixBits); strings.Count(addresses, "inet ") != 1 || !strings.Contains(addresses, want) {
			t.Errorf("addresses of %s: %s", e.Device, addresses)
		}
		for _, device := range []string{"lo", e.Device} {
			if link := ip(t, "-netns", e.Namespace, "-o", "link", "show", "dev", device); !strings.Contains(link, ",UP") {
				t.Errorf("%s is not up: %s", device, link)
			}
		}
		congestion := ip(t, "netns", "exec", e.Namespace, "cat", "/proc/sys/net/ipv4/tcp_congestion_control")
		if congestion != c.Congestion+"\n" {
			t.Errorf("congestion control of %s: %s", e.Namespace, congestion)
		}
		shaper, err := exec.Command("tc", "-netns", e.Namespace, "qdisc", "show", "dev", e.Device).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("rate %dMbit burst 1", c.ShaperMbps()); c.RateMbps > 0 && (!strings.Contains(string(shaper), want) || !strings.Contains(string(shaper), "lat 20ms")) {
			t.Errorf("shaper of %s: %s", e.Device, shaper)
		}
		if c.RateMbps == 0 && strings.Contains(string(shaper), "tbf") {
			t.Errorf("%s is shaped: %s", e.Device, shaper)
		}
	}
}

func exists(t *testing.T, c link.Config) bool {
	t.Helper()
	ok, err := link.Exists(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestUpAndDown(t *testing.T) {
	c := hosttest.LinkConfig(t)
	if exists(t, c) {
		t.Fatal("there before it was made")
	}
	commands := up(t, c)
	for _, want := range []string{"ip netns add " + c.Client.Namespace, "type veth", "tbf rate 984mbit burst 128kb latency 20ms"} {
		if !strings.Contains(commands, want) {
			t.Errorf("%q was not printed:\n%s", want, commands)
		}
	}
	whole(t, c)
	if !exists(t, c) {
		t.Error("not there")
	}
	if again := up(t, c); again != "" {
		t.Errorf("up on a whole link changed something:\n%s", again)
	}
	// The rate alone is taken off and put back, once each, and however often that
	// is asked for.
	free := c
	free.RateMbps = 0
	for _, step := range []struct {
		do      func(context.Context, link.Config, io.Writer) error
		want    link.Config
		changes int
	}{{link.Lift, free, 2}, {link.Lift, free, 0}, {link.Hold, c, 2}, {link.Hold, c, 0}} {
		var out bytes.Buffer
		if err := step.do(t.Context(), c, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "tc -netns"); n != step.changes || strings.Count(out.String(), "\n") != n {
			t.Errorf("%d changes, want %d:\n%s", n, step.changes, &out)
		}
		whole(t, step.want)
	}
	other := c
	other.RateMbps, other.Client.Addr, other.Broker.Addr, other.Congestion = 0, "10.193.8.1", "10.193.8.2", "reno"
	up(t, other)
	whole(t, other)

	sleeper := exec.Command("ip", "netns", "exec", c.Broker.Namespace, "sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	waitInside(t, c.Broker.Namespace)
	var out bytes.Buffer
	for range 2 {
		if err := link.Down(t.Context(), c, &out); err != nil {
			t.Fatal(err)
		}
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("a process outlived the namespace")
	}
	if strings.Count(out.String(), "ip netns delete") != 2 || !strings.Contains(out.String(), "kill -KILL") {
		t.Errorf("printed:\n%s", &out)
	}
	if exists(t, c) || strings.Contains(ip(t, "netns", "list"), c.Client.Namespace) {
		t.Error("there after down")
	}
}

func waitInside(t *testing.T, namespace string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ip(t, "netns", "pids", namespace) != "" {
			return
		}
	}
	t.Fatal("no process came into the namespace")
}

// What an interrupted call leaves, at whatever point, is taken up again.
func TestUpRepairs(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, c link.Config)
	}{
		{"a namespace not yet marked", func(t *testing.T, c link.Config) {
			ip(t, "netns", "add", c.Client.Namespace)
		}},
		{"no devices", func(t *testing.T, c link.Config) {
			up(t, c)
			ip(t, "-netns", c.Client.Namespace, "link", "delete", "dev", c.Client.Device)
		}},
		{"one namespace lost", func(t *testing.T, c link.Config) {
			up(t, c)
			ip(t, "netns", "delete", c.Broker.Namespace)
		}},
		{"one end without the other", func(t *testing.T, c link.Config) {
			up(t, c)
			ip(t, "-netns", c.Client.Namespace, "link", "delete", "dev", c.Client.Device)
			ip(t, "-netns", c.Client.Namespace, "link", "add", c.Client.Device, "type", "veth", "peer", "name", "other")
		}},
		{"down, without addresses", func(t *testing.T, c link.Config) {
			up(t, c)
			ip(t, "-netns", c.Broker.Namespace, "link", "set", "dev", c.Broker.Device, "down")
			ip(t, "-netns", c.Broker.Namespace, "link", "set", "dev", "lo", "down")
			ip(t, "-netns", c.Client.Namespace, "address", "flush", "dev", c.Client.Device)
		}},
		{"other rate", func(t *testing.T, c link.Config) {
			c.RateMbps = 100
			up(t, c)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := hosttest.LinkConfig(t)
			c.damage(t, config)
			up(t, config)
			whole(t, config)
		})
	}
}

func TestForeignNamespaceIsLeftAlone(t *testing.T) {
	c := hosttest.LinkConfig(t)
	ip(t, "netns", "add", c.Broker.Namespace)
	ip(t, "-netns", c.Broker.Namespace, "link", "set", "dev", "lo", "up")
	for what, err := range map[string]error{
		"up": link.Up(t.Context(), c, io.Discard), "down": link.Down(t.Context(), c, io.Discard),
	} {
		if err == nil || !strings.Contains(err.Error(), c.Broker.Namespace) || !strings.Contains(err.Error(), "ip netns delete") {
			t.Errorf("%s: %v", what, err)
		}
	}
	list := ip(t, "netns", "list")
	if !strings.Contains(list, c.Broker.Namespace) || strings.Contains(list, c.Client.Namespace) {
		t.Errorf("namespaces: %s", list)
	}
	left, err := link.Leftovers(t.Context(), c)
	if err != nil || len(left) != 1 || left[0].Ours || left[0].Namespace != c.Broker.Namespace {
		t.Errorf("left over: %+v, %v", left, err)
	}
	ip(t, "netns", "delete", c.Broker.Namespace)
}

func TestFailedUpLeavesNothing(t *testing.T) {
	c := hosttest.LinkConfig(t)
	c.Congestion = "nosuch"
	err := link.Up(t.Context(), c, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "nosuch") || !strings.Contains(err.Error(), "modprobe") {
		t.Errorf("got %v", err)
	}
	if list := ip(t, "netns", "list"); strings.Contains(list, c.Client.Namespace) || strings.Contains(list, c.Broker.Namespace) {
		t.Errorf("left: %s", list)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := link.Up(ended, hosttest.LinkConfig(t), io.Discard); err == nil {
		t.Error("up with an ended context")
	}
}

// A namespace that was there stays when up fails, with what runs in it.
func TestFailedUpLeavesWhatWasThere(t *testing.T) {
	c := hosttest.LinkConfig(t)
	ip(t, "netns", "add", c.Client.Namespace)
	c.Congestion = "nosuch"
	var out bytes.Buffer
	if err := link.Up(t.Context(), c, &out); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("got %v", err)
	}
	if list := ip(t, "netns", "list"); !strings.Contains(list, c.Client.Namespace) || strings.Contains(list, c.Broker.Namespace) {
		t.Errorf("namespaces: %s\n%s", list, &out)
	}
}

func TestReceiveCounts(t *testing.T) {
	sent := make(chan error, 1)
	got, err := link.Receive(t.Context(), "127.0.0.1:0", 100*time.Millisecond, func(a net.Addr) error {
		go func() { sent <- link.Send(t.Context(), a.String(), time.Minute) }()
		return nil
	})
	if err != nil || got.Bytes == 0 || got.Seconds < 0.1 || got.Mbps() <= 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := <-sent; err != nil {
		t.Errorf("sender: %v", err)
	}
}

func TestReceiveRefusesAShortTransfer(t *testing.T) {
	_, err := link.Receive(t.Context(), "127.0.0.1:0", time.Minute, func(a net.Addr) error {
		conn, err := net.Dial("tcp", a.String())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err == nil || !strings.Contains(err.Error(), "too early") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = link.Receive(ctx, "127.0.0.1:0", time.Minute, func(net.Addr) error { cancel(); return nil })
	if err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
}

// The link is held to its rate: the measured goodput is below what the
// machine does without. Whether it is exactly that of a wire depends on what
// else the machine does, and is for Measure to refuse, not for a test.
func TestGoodputIsHeldToTheRate(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	c := hosttest.LinkConfig(t)
	c.RateMbps = 50
	up(t, c)
	clientConfig, brokerConfig := hosttest.NamespaceConfigs(t, c, bin)
	client, broker := hosttest.Open(t, clientConfig), hosttest.Open(t, brokerConfig)
	var out bytes.Buffer
	if err := link.Measure(t.Context(), client, broker, 0, 500*time.Millisecond, &out); err != nil {
		t.Fatal(err)
	}
	// What a queue held when the machine stood still comes in one go.
	limit := link.GoodputMbps(c.RateMbps) * 1.5
	for _, way := range [][2]host.Host{{client, broker}, {broker, client}} {
		mbps, err := link.Goodput(t.Context(), way[0], way[1], time.Second)
		if err != nil || mbps <= 0 || mbps > limit {
			t.Errorf("measured %v, %v at %d Mbit/s", mbps, err, c.RateMbps)
		}
	}
	if strings.Count(out.String(), "Mbit/s") != 2 {
		t.Errorf("printed %q", &out)
	}
	// A testbed file that claims more than there is.
	err := link.Measure(t.Context(), client, broker, 1000, 500*time.Millisecond, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "a wire of 1000 Mbit/s gives 941") {
		t.Errorf("got %v", err)
	}
}

func TestGoodputOverSSH(t *testing.T) {
	tb := hosttest.SSH(t, hosttest.Programs(t, "testbed"))
	client, broker := hosttest.Open(t, tb.Client), hosttest.Open(t, tb.Broker)
	mbps, err := link.Goodput(t.Context(), client, broker, 500*time.Millisecond)
	if err != nil || mbps <= 0 || mbps > 1.5*link.GoodputMbps(1000) {
		t.Errorf("%v Mbit/s, %v", mbps, err)
	}
}

func TestGoodputSaysWhatFailed(t *testing.T) {
	h := hosttest.Local(t, t.TempDir())
	if _, err := link.Goodput(t.Context(), h, h, time.Second); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("got %v", err)
	}
}

// The two ends agree on what the receiver prints.
func TestTransferIsJSON(t *testing.T) {
	text, err := json.Marshal(link.Transfer{Bytes: 1250000, Seconds: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	var back link.Transfer
	if err := json.Unmarshal(text, &back); err != nil || back.Mbps() != 1000 {
		t.Errorf("%s became %v, %v", text, back, err)
	}
}
