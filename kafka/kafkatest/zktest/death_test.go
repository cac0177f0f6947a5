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

// dyingVariable says how a program that is a test once more is to end: see die.
const dyingVariable = "KAFKALAB_TEST_DYING"

// die starts a real node and does not end well.
func die(t *testing.T, how string) {
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

// A node ends with the program of its test, however that ends. The program that
// this test starts is itself once more, told to die.
func TestNodesEndWithTheTest(t *testing.T) {
	NeedReal(t)
	if how := os.Getenv(dyingVariable); how != "" {
		die(t, how)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"panic", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(program, "-test.run=^TestNodesEndWithTheTest$", "-test.v")
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
