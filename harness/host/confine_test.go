package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

// confine holds a host to core 0 and 256 MiB, of which the kernel must be able
// to hold the memory too.
func confine(t *testing.T, h host.Host) *host.Confined {
	t.Helper()
	hosttest.Root(t)
	c, err := host.Confine(t.Context(), h, host.Limits{Cores: "0", MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Release(context.Background()); err != nil {
			t.Error(err)
		}
		if left := groups(t, h); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	})
	return c
}

// groups lists the control groups that were made for a host.
func groups(t *testing.T, h host.Host) (found []string) {
	t.Helper()
	run := filepath.Base(filepath.Dir(h.Dir()))
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "kafkalab-"+run+"-") {
			found = append(found, path)
		}
		return nil // groups of others come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestConfinedHostIsAHost(t *testing.T) {
	contract(t, func(t *testing.T) host.Host { return confine(t, hosttest.Local(t, "")) })
}

// What a confined host starts, and what that starts, is held, on every kind of
// host, and the kernel says so.
func TestConfined(t *testing.T) {
	hosttest.Root(t)
	_, broker := hosttest.NamespaceConfigs(t, hosttest.Link(t), "")
	for _, open := range []func(t *testing.T) host.Host{
		func(t *testing.T) host.Host { return hosttest.Local(t, "") },
		func(t *testing.T) host.Host { return hosttest.Open(t, broker) },
		func(t *testing.T) host.Host { return hosttest.Open(t, hosttest.SSH(t, "").Broker) },
	} {
		h := open(t)
		t.Run(string(h.Kind()), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			c := confine(t, h)
			limits := c.Limits()
			if limits.Cores != "0" || limits.MemoryBytes != 256<<20 || !strings.Contains(limits.Note, "page cache") {
				t.Fatalf("limits %+v", limits)
			}
			if host.MemoryLimit(c) != 256<<20 || host.MemoryLimit(h) != 0 {
				t.Error("the memory limit is not told")
			}
			if len(groups(t, h)) != 1 {
				t.Errorf("control groups: %v", groups(t, h))
			}
			p, pids := startFamily(t, ctx, c, family)
			running, err := c.Running(ctx, p.PID())
			if err != nil {
				t.Fatal(err)
			}
			held := map[string]host.Running{}
			for _, r := range running {
				if r.Cores != "0" || r.MemoryBytes != 256<<20 || r.Threads < 1 || r.Name == "" {
					t.Errorf("process %+v", r)
				}
				held[fmt.Sprint(r.PID)] = r
			}
			for _, pid := range pids {
				if held[pid].PID == 0 {
					t.Errorf("process %s is not held: %+v", pid, running)
				}
			}
			// What is started past it is not held.
			free := start(t, ctx, h, nil, "sleep", "1000")
			running, err = c.Running(ctx, free.PID())
			for _, r := range running {
				if r.PID == free.PID() && r.MemoryBytes != 0 {
					t.Errorf("a program of the host itself: %+v", r)
				}
			}
			if err != nil {
				t.Error(err)
			}
			// Release ends what is left, also twice and with an ended context.
			ended, end := context.WithCancel(ctx)
			end()
			for range 2 {
				if err := c.Release(ended); err != nil {
					t.Error(err)
				}
			}
			for _, pid := range pids {
				waitGone(t, pid)
			}
		})
	}
}

// A program that needs more memory than the limit is killed by the kernel, and
// that can be told from any other end.
func TestConfinedOutOfMemory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	hosttest.Root(t)
	c, err := host.Confine(ctx, hosttest.Local(t, ""), host.Limits{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release(ctx)
	if n, err := c.OutOfMemory(ctx); n != 0 || err != nil {
		t.Errorf("before: %d, %v", n, err)
	}
	// A line without end, of which tail must keep all.
	p := start(t, ctx, c, nil, "sh", "-c", "exec tail -n 1 /dev/zero")
	if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("ended with %v", err)
	}
	if n, err := c.OutOfMemory(ctx); n != 1 || err != nil {
		t.Errorf("after: %d, %v", n, err)
	}
	// The page cache counts and gives way: writing much more than the limit is
	// no reason to be killed.
	if err := start(t, ctx, c, nil, "dd", "if=/dev/zero", "of="+c.Dir()+"/file", "bs=1M", "count=128").Wait(ctx); err != nil {
		t.Error(err)
	}
}

func TestConfineRefuses(t *testing.T) {
	h := hosttest.Local(t, "")
	for want, l := range map[string]host.Limits{
		`"x"`:        {Cores: "x"},
		"backwards":  {Cores: "3-1"},
		"64MiB":      {MemoryBytes: 1 << 20},
		"cores 4095": {Cores: "4095"},
		"has the":    {Cores: "0,4095"},
	} {
		if _, err := host.Confine(t.Context(), h, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", l, err, want)
		}
	}
}

// Cores are written as the kernel writes them, by whom they are read back.
func TestCoresAsTheKernelHasThem(t *testing.T) {
	c, err := host.Confine(t.Context(), hosttest.Local(t, ""), host.Limits{Cores: "0,0-0"})
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Limits(); l.Cores != "0" {
		t.Errorf("limits %+v", l)
	}
}

func TestDefaultLimits(t *testing.T) {
	h := hosttest.Local(t, "")
	l, err := host.Limits{}.WithDefaults(t.Context(), h)
	if err != nil || l.Cores == "" || l.MemoryBytes <= 0 || l.MemoryBytes > host.PaperMemoryBytes {
		t.Fatalf("%+v, %v", l, err)
	}
	asked := host.Limits{Cores: "0", MemoryBytes: 1 << 30}
	if got, err := asked.WithDefaults(t.Context(), h); got != asked || err != nil {
		t.Errorf("%+v became %+v, %v", asked, got, err)
	}
	if got, err := (host.Limits{Cores: "0"}).WithDefaults(t.Context(), h); got.Cores != "0" || got.MemoryBytes != l.MemoryBytes || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"12GiB": 12 << 30, "1.5 GB": 15e8, "64MiB": 64 << 20, "100B": 100} {
		got, err := host.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		if back, err := host.ParseSize(host.FormatSize(want)); (back != want || err != nil) && !strings.HasPrefix(host.FormatSize(want), "about") {
			t.Errorf("%s was written as %s", text, host.FormatSize(want))
		}
	}
	for _, text := range []string{"", "12", "GiB", "-1GiB", "0B", "1e30TB", "12 Gi", "NaNGiB"} {
		if n, err := host.ParseSize(text); err == nil {
			t.Errorf("%q was taken as %d", text, n)
		}
	}
}

// A testbed that is killed leaves no control group and none of its processes,
// even such as have left their process group.
func TestKilledTestbedLeavesNoGroup(t *testing.T) {
	hosttest.Root(t)
	tb := hosttest.SSH(t, "")
	client, _ := hosttest.NamespaceConfigs(t, tb.Link, "")
	for _, c := range []host.Config{client, tb.Broker} {
		t.Run(string(c.Kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			line, _ := killVictim(t, ctx, c, confinedVariable+"=1")
			var dir, pid, group string
			if _, err := fmt.Sscan(line, &dir, &pid, &group); err != nil {
				t.Fatalf("the victim said %q, %v", line, err)
			}
			waitGone(t, pid)
			waitNoFile(t, group)
			waitNoFile(t, filepath.Dir(dir))
		})
	}
}

// confinedVariable has the victim hold what it starts, which then leaves its
// process group.
const confinedVariable = "KAFKALAB_TEST_CONFINED"

// confinedVictim starts a program that is held and says its folder, the
// program's pid and its control group.
func confinedVictim(ctx context.Context, h host.Host) error {
	c, err := host.Confine(ctx, h, host.Limits{Cores: "0", MemoryBytes: 256 << 20})
	if err != nil {
		return err
	}
	file := h.Dir() + "/daemon"
	const daemon = `echo $$ > "$0.part"; sed -n 's/^[0-9]*:[^:]*://p' /proc/self/cgroup | grep kafkalab- >> "$0.part"; mv "$0.part" "$0"; exec sleep 1000`
	if _, err := c.Start(ctx, host.Command{Args: []string{"sh", "-c", `setsid sh -c "$1" "$0" & until [ -e "$0" ]; do sleep 0.02; done`, file, daemon}}); err != nil {
		return err
	}
	if _, err := h.Run(ctx, "sh", "-c", `until [ -e "$1" ]; do sleep 0.02; done`, "sh", file); err != nil {
		return err
	}
	text, err := h.ReadFile(ctx, file)
	if err != nil {
		return err
	}
	pid, group, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	at := "/sys/fs/cgroup"
	for _, below := range []string{"/memory", "/unified"} {
		if _, err := os.Stat(at + below + group); err == nil {
			at += below
		}
	}
	if _, err := os.Stat(at + group); err != nil {
		return err
	}
	fmt.Println(h.Dir(), pid, at+group)
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}
