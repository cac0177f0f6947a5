package zktest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dyingVariable says how a test of a program of its own is to end: see TestDying.
const dyingVariable = "KAFKALAB_TEST_DYING"

// TestDying starts a real node and does not end well. It runs in the program that
// TestNodesEndWithTheTest starts.
func TestDying(t *testing.T) {
	how := os.Getenv(dyingVariable)
	if how == "" {
		t.Skip("for TestNodesEndWithTheTest")
	}
	c := Start(t, Real)
	fmt.Printf("node %d\n", c.servers.nodes[0].(*realNode).proc.cmd.Process.Pid)
	switch how {
	case "panic":
		panic("as it must")
	case "exit":
		os.Exit(3)
	}
	time.Sleep(time.Minute) // until it is killed
}

// A node ends with the program of its test, however that ends.
func TestNodesEndWithTheTest(t *testing.T) {
	NeedReal(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"panic", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(program, "-test.run=^TestDying$", "-test.v")
			cmd.Env = append(os.Environ(), dyingVariable+"="+how, "TMPDIR="+t.TempDir())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if number, ok := strings.CutPrefix(lines.Text(), "node "); ok {
					pid, err = strconv.Atoi(number)
					break
				}
			}
			if how == "kill" {
				err = cmd.Process.Kill()
			}
			_ = cmd.Wait() // it ends badly
			if pid == 0 || err != nil {
				t.Fatalf("process %d, %v", pid, err)
			}
			eventually(t, "the node ends", func() bool { return !runs(pid) })
		})
	}
}

// runs says whether a process is there and not merely waited for.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
