package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// group runs makeGroupScript on what stands for a machine: a file of mounts.
// The words before the shell are run first.
func group(t *testing.T, mounts string, words ...string) (out, groups string) {
	t.Helper()
	// Not t.TempDir, into whose parent another user may not go.
	dir, err := os.MkdirTemp("", "kafkalab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mounts")
	if err := os.WriteFile(file, []byte(mounts), 0o644); err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(makeGroupScript, "/proc/mounts", file)
	if script == makeGroupScript {
		t.Fatal("the script does not read /proc/mounts")
	}
	words = append(words, "/bin/sh", "-c", script, "test", dir, "kafkalab-test", "1073741824")
	text, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return strings.TrimSpace(string(text)), dir
}

// A unified hierarchy comes first if it has the memory controller, which is
// switched on for what is below it.
func TestGroupOfVersion2(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root may make control groups: run the tests as root")
		}
		t.Skip("only root may make control groups")
	}
	root := t.TempDir()
	for name, text := range map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "cpu pids\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, groups := group(t, "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 "+root+" cgroup2 rw,nosuid 0 0\n")
	at := filepath.Join(root, "kafkalab-test")
	if out != "2 "+at {
		t.Fatalf("the script says %q", out)
	}
	for file, want := range map[string]string{
		filepath.Join(at, "memory.max"):               "1073741824\n",
		filepath.Join(root, "cgroup.subtree_control"): "+memory\n",
		filepath.Join(groups, "kafkalab-test"):        at + "\n",
	} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	// One without it is passed over.
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset hugetlb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := group(t, "cgroup2 "+root+" cgroup2 rw,nosuid 0 0\n"); !strings.HasPrefix(out, "no the kernel offers") {
		t.Errorf("the script says %q", out)
	}
}

// Without rights the memory is not held, and that is said and is no failure.
func TestGroupNeedsRoot(t *testing.T) {
	var words []string
	if os.Geteuid() == 0 {
		words = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	}
	if out, _ := group(t, "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n", words...); out != "no needs root" {
		t.Errorf("the script says %q", out)
	}
	c := &Confined{Host: &machine{cfg: Config{Name: "far"}}, held: Limits{Cores: "0-1"}, note: "needs root"}
	if l := c.Limits(); l.MemoryBytes != 0 || l.Note != "cores by the processes' affinity (taskset); memory not held: needs root on far" {
		t.Errorf("limits %+v", l)
	}
}

func TestParseRunning(t *testing.T) {
	got, err := parseRunning("1073741824\n12 34 0-1 in beam.smp\n13 1 0 out a b\n")
	want := []Running{{PID: 12, Threads: 34, Cores: "0-1", MemoryBytes: 1 << 30, Name: "beam.smp"}, {PID: 13, Threads: 1, Cores: "0", Name: "a b"}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "max\n", "1\nx\n", "1\n1 x 0 in n\n"} {
		if got, err := parseRunning(text); err == nil {
			t.Errorf("%q was taken as %+v", text, got)
		}
	}
}
