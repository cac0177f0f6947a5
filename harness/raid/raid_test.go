package raid_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/raid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wantGone wants nothing left of an array: no mount, no loop device, no file.
func wantGone(t *testing.T, c raid.Config) {
	t.Helper()
	if _, err := os.Lstat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", c.Dir, err)
	}
	for what, args := range map[string][]string{"a mount": {"cat", "/proc/self/mountinfo"}, "a loop device": {"losetup", "--all"}} {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), c.Dir) {
			t.Errorf("%s is left:\n%s", what, out)
		}
	}
}

func up(t *testing.T, c raid.Config) (printed string) {
	t.Helper()
	var out bytes.Buffer
	if err := raid.Up(t.Context(), c, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if there, err := raid.Exists(c); err != nil || !there {
		t.Fatalf("it is not there after Up: %v\n%s", err, &out)
	}
	return out.String()
}

func down(t *testing.T, c raid.Config) (printed string) {
	t.Helper()
	var out bytes.Buffer
	if err := raid.Down(t.Context(), c, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	wantGone(t, c)
	return out.String()
}

// The array is of six devices, each command is printed, and both calls can be
// made again.
func TestUpAndDown(t *testing.T) {
	c := hosttest.RAIDConfig(t)
	printed := up(t, c)
	for want, times := range map[string]int{"fallocate": raid.Disks, "losetup --find": raid.Disks, "mkfs.btrfs -q -f -K -d raid10 -m raid10 /dev/loop": 1, "mount -t btrfs": 1} {
		if strings.Count(printed, want) < times {
			t.Errorf("%q is not printed %d times:\n%s", want, times, printed)
		}
	}
	df, err := exec.Command("btrfs", "filesystem", "df", c.Data()).Output()
	if err != nil || !strings.Contains(string(df), "Data, RAID10") || !strings.Contains(string(df), "Metadata, RAID10") {
		t.Errorf("profiles: %s, %v", df, err)
	}
	du, err := exec.Command("du", "-sk", c.Dir).Output()
	if kib, _, _ := strings.Cut(string(du), "\t"); err != nil || len(kib) < 7 {
		t.Errorf("the space of the files is not taken: %s KiB, %v", kib, err)
	}
	file := filepath.Join(c.Data(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := up(t, c); again != "" {
		t.Errorf("a second call changed something:\n%s", again)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "kept" {
		t.Errorf("the file is %q, %v", kept, err)
	}
	larger := c
	larger.DiskBytes *= 2
	if err := raid.Up(t.Context(), larger, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "testbed down") {
		t.Errorf("another size: %v", err)
	}
	if printed := down(t, c); !strings.Contains(printed, "umount "+c.Data()) {
		t.Errorf("down printed\n%s", printed)
	}
	if again := down(t, c); again != "" {
		t.Errorf("a second call did something:\n%s", again)
	}
}

// cancelAt ends a context when a command that begins so is printed.
type cancelAt struct {
	text   string
	cancel context.CancelFunc
}

func (c cancelAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	return len(p), nil
}

// Whenever it is interrupted, nothing is left.
func TestUpInterrupted(t *testing.T) {
	c := hosttest.RAIDConfig(t)
	for _, at := range []string{"touch", "disk-1.img", "disk-6.img", "losetup --find", "mkfs.btrfs", "mkdir " + c.Data(), "mount -t", "losetup --detach"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := raid.Up(ctx, c, cancelAt{at, cancel})
		cancel()
		if err == nil {
			t.Errorf("%s: no error", at)
		}
		wantGone(t, c)
	}
}

// What a call that was killed left is removed by Down, and mended by Up.
func TestPartsAreRemovedAndMended(t *testing.T) {
	c := hosttest.RAIDConfig(t)
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	file := filepath.Join(c.Dir, "disk-1.img")
	for name, part := range map[string]func(){
		"an empty folder": func() { run("mkdir", c.Dir) },
		"a file with its device": func() {
			run("mkdir", c.Dir)
			run("touch", filepath.Join(c.Dir, ".made-by-kafkalab"))
			run("fallocate", "--length", "1M", file)
			run("losetup", "--find", "--show", file)
		},
		"all, but unmounted": func() {
			up(t, c)
			run("umount", c.Data())
		},
		"all, mounted twice, with files gone": func() {
			up(t, c)
			run("mount", "--bind", c.Data(), c.Data())
			run("rm", file)
		},
	} {
		part()
		if left, err := raid.Left(c); err != nil || !left {
			t.Errorf("%s: Left is %v, %v", name, left, err)
		}
		down(t, c)
		part()
		up(t, c)
		down(t, c)
	}
}

// A folder that is not ours is neither used nor removed, and what is in use is
// not pulled away.
func TestWhatIsNotOursStays(t *testing.T) {
	c := hosttest.RAIDConfig(t)
	precious := filepath.Join(c.Dir, "precious")
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := raid.Up(t.Context(), c, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "not made by testbed") {
		t.Errorf("up: %v", err)
	}
	if err := raid.Down(t.Context(), c, &bytes.Buffer{}); err != nil {
		t.Errorf("down: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
	up(t, c)
	user, err := os.Create(filepath.Join(c.Data(), "in use"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = raid.Down(ctx, c, cancelAt{"umount", cancel})
	if err == nil || !strings.Contains(err.Error(), "still uses it") {
		t.Errorf("down while in use: %v", err)
	}
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	down(t, c)
}

func TestValidate(t *testing.T) {
	for dir, ok := range map[string]bool{"/var/tmp/x": true, "": false, "x": false, "/": false, "/a,b": false, "/a\nb": false} {
		if err := (raid.Config{Dir: dir}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if err := (raid.Config{Dir: "/x", DiskBytes: 1 << 20}).Validate(); err == nil {
		t.Error("small disks are taken")
	}
	if c := raid.For("/var/tmp/kafkalab/"); c.Dir != "/var/tmp/kafkalab-raid10" || c.Data() != "/var/tmp/kafkalab-raid10/data" {
		t.Errorf("%+v", c)
	}
}
