package zktest

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cliLimit bounds one call of the command-line client.
const cliLimit = time.Minute

// cliNoise is what the client prints beside the answer to a command.
var cliNoise = regexp.MustCompile(`(?m)\nWATCHER::\n|\nWatchedEvent state:\w+ type:None path:null\n|^Connecting to .*\n`)

// CLI runs one command of ZooKeeper's own command-line client on the nodes as
// they are, without the proxies, such as c.CLI(t, "get", "/brokers/ids/0"), and
// returns what it prints, without the last line end. The test fails if the
// command does. Paths are seen from the chroot.
func (c *Cluster) CLI(t testing.TB, command ...string) string {
	t.Helper()
	NeedReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), cliLimit)
	defer cancel()
	argv := append(javaArgs("error"), "-cp", zookeeperJar+":"+loggerJar,
		"org.apache.zookeeper.ZooKeeperMain", "-server", c.Direct())
	argv = append(argv, command...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The signal comes when the thread ends that started the program.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatalf("ZooKeeper's client: %s: %v\n%s%s", strings.Join(command, " "), err, out.String(), errs.String())
	}
	return strings.TrimSuffix(cliNoise.ReplaceAllString(out.String(), ""), "\n")
}
