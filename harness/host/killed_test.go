package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

// victimVariable holds the configuration of the host that this program, run
// once more, is to open and then wait to be killed.
const victimVariable = "KAFKALAB_TEST_VICTIM"

func TestMain(m *testing.M) {
	if config := os.Getenv(victimVariable); config != "" {
		if err := victim(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// victim opens a host, starts a family on it, says its pids and the folder,
// and waits until its input ends, which it does not.
func victim(config string) error {
	ctx := context.Background()
	var c host.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	h, err := host.Open(ctx, c)
	if err != nil {
		return err
	}
	if os.Getenv(confinedVariable) != "" {
		return confinedVictim(ctx, h)
	}
	file := h.Dir() + "/family"
	if _, err := h.Start(ctx, host.Command{Args: []string{"sh", "-c", family, "sh", file}}); err != nil {
		return err
	}
	if _, err := h.Run(ctx, "sh", "-c", `until [ -e "$1" ]; do sleep 0.02; done`, "sh", file); err != nil {
		return err
	}
	pids, err := h.ReadFile(ctx, file)
	if err != nil {
		return err
	}
	fmt.Println(h.Dir(), strings.TrimSpace(string(pids)))
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// A testbed that is killed without warning must leave neither processes nor
// folders, on whatever kind of host.
func TestKilledTestbedLeavesNothing(t *testing.T) {
	tb := hosttest.SSH(t, "")
	client, _ := hosttest.NamespaceConfigs(t, tb.Link, "")
	for _, c := range []host.Config{
		{Name: "local", Kind: host.Local, Dir: filepath.Join(t.TempDir(), "made by the host")},
		client,
		tb.Broker,
	} {
		t.Run(string(c.Kind), func(t *testing.T) { killedTestbed(t, c) })
	}
}

func killedTestbed(t *testing.T, c host.Config) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	line, temp := killVictim(t, ctx, c)
	words := strings.Fields(line)
	dir, pids := strings.Join(words[:len(words)-2], " "), words[len(words)-2:]
	for _, pid := range pids {
		waitGone(t, pid)
	}
	waitNoFile(t, filepath.Dir(dir))
	waitNoFile(t, filepath.Join(temp, "kafkalab-ssh"))
	if c.Kind == host.Local {
		waitNoFile(t, c.Dir) // it was the host's own making
	}
}

// killVictim has a testbed open a host, with more in its environment, kills it
// when it has said a line, and returns that and its folder for temporary files.
func killVictim(t *testing.T, ctx context.Context, c host.Config, env ...string) (line, temp string) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	temp = t.TempDir()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), victimVariable+"="+string(config), "TMPDIR="+temp), env...)
	cmd.Stderr = os.Stderr
	said, kill := hosttest.Victim(t, cmd)
	line, err = said.ReadString('\n')
	kill()
	if err != nil {
		t.Fatalf("the victim said %q, %v", line, err)
	}
	return line, temp
}

func waitNoFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is still there", path)
}
