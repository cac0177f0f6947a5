package disktest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// holdVariable makes TestKilledTestLeavesNothing the one that is killed.
const holdVariable = "KAFKALAB_TEST_HOLD_DISK"

// TestKilledTestLeavesNothing: a test program that is killed while it has a file
// system mounted, and a process on it, leaves neither, nor a loop device.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv(holdVariable) != "" {
		holdDisk(t)
		return
	}
	needDisks(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, insideVariable+"=") })
	cmd.Env = append(cmd.Env, holdVariable+"=1", "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	image := ""
	for lines := bufio.NewScanner(out); image == "" && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), holding); ok {
			image = rest
		}
	}
	loops := loopsOf(image)
	_ = cmd.Process.Kill() // fails only if it has ended
	_ = cmd.Wait()         // it was killed
	if len(loops) != 1 {
		t.Fatalf("file %q is behind the loop devices %v, one was expected", image, loops)
	}
	eventually(t, "the loop device is free", func() bool { return len(loopsOf(image)) == 0 })
}

const holding = "holding "

// holdDisk mounts a file system, starts a process on it, says so, and waits.
func holdDisk(t *testing.T) {
	d := newDisk(t, 16<<20)
	busy := exec.Command("sleep", "1000")
	busy.Dir = d.dir
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(holding + d.image)
	_, _ = io.Copy(io.Discard, os.Stdin)
	t.Fatal("not killed")
}
