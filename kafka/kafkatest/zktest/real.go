package zktest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where the package zookeeper of Debian and Ubuntu has its programs. The first
// jar names those that it needs; the second one writes the log.
const (
	zookeeperJar = "/usr/share/java/zookeeper.jar"
	loggerJar    = "/usr/share/java/slf4j-simple.jar"
)

// NeedReal skips a test where there is no real ZooKeeper. In CI it fails.
func NeedReal(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("java")
	if err == nil {
		_, err = os.Stat(zookeeperJar)
	}
	if err == nil {
		return
	}
	const how = "this test needs the package zookeeper: run \"make setup\""
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s (%v)", how, err)
	}
	t.Skipf("%s (%v)", how, err)
}

// javaArgs make a small and quick start more important than speed later.
func javaArgs(logLevel string) []string {
	return []string{
		"java", "-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=" + logLevel,
		// A trace of each client that hangs up would hide the rest.
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
}

// realNode is a node of ZooKeeper in a process of its own.
type realNode struct {
	folder string // zoo.cfg, log and data
	client string // address
	proc   *process
}

// newRealNodes lays out one node, or an ensemble of several, below a folder.
func newRealNodes(folder string, n int, s settings) ([]node, error) {
	clients := make([]string, n)
	var members strings.Builder
	for i := range n {
		var err error
		if clients[i], err = freeAddr(); err != nil {
			return nil, err
		}
		if n == 1 {
			break // alone it needs no ports for others
		}
		quorum, err := freeAddr()
		if err != nil {
			return nil, err
		}
		election, err := freeAddr()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&members, "server.%d=%s:%s\n", i+1, quorum, portOf(election))
	}
	nodes := make([]node, n)
	for i := range n {
		r := &realNode{folder: filepath.Join(folder, "node"+strconv.Itoa(i)), client: clients[i]}
		if err := r.writeConfig(i+1, members.String(), s); err != nil {
			return nil, err
		}
		nodes[i] = r
	}
	return nodes, nil
}

// Bounds of an ensemble. Members must have found and copied the leader within
// the first, and are dropped when they lag by more than the second.
const (
	initLimit = 20 * time.Second
	syncLimit = 5 * time.Second
)

func (r *realNode) writeConfig(id int, members string, s settings) error {
	data := filepath.Join(r.folder, "data")
	if err := os.MkdirAll(data, 0o777); err != nil {
		return err
	}
	host, port, _ := strings.Cut(r.client, ":")
	ticks := func(d time.Duration) int { return max(2, int(d/s.tick)) }
	cfg := fmt.Sprintf(`dataDir=%s
clientPort=%s
clientPortAddress=%s
tickTime=%d
minSessionTimeout=%d
maxSessionTimeout=%d
initLimit=%d
syncLimit=%d
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
%s`, data, port, host, s.tick.Milliseconds(), s.minTimeout.Milliseconds(), s.maxTimeout.Milliseconds(), ticks(initLimit), ticks(syncLimit), members)
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)+"\n"), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, "zoo.cfg"), []byte(cfg), 0o666)
}

func (r *realNode) addr() string { return r.client }

func (r *realNode) logPath() string { return filepath.Join(r.folder, "log") }

func (r *realNode) start() error {
	argv := append(javaArgs("info"),
		// What was written outlives a process that is killed without this.
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=1024", // KiB
		"-Dzookeeper.jmx.log4j.disable=true",
		"-cp", zookeeperJar+":"+loggerJar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(r.folder, "zoo.cfg"))
	var err error
	r.proc, err = launch(r.logPath(), argv...)
	return err
}

func (r *realNode) running() bool { return r.proc != nil && r.proc.running() }

func (r *realNode) kill() error {
	if r.running() {
		r.proc.kill()
	}
	return nil
}

func (r *realNode) stop() error { return r.proc.stop() }

// ready says whether the node serves, an error that it never will.
func (r *realNode) ready() (bool, error) {
	running := r.running() // asked first: one that has ended has written all
	if bytes.Contains(r.log(), []byte("BindException")) {
		return false, errPortTaken
	}
	if !running {
		return false, fmt.Errorf("it has ended: %w", r.proc.err)
	}
	return mode(r.client) != "", nil
}

// maxLogBytes bounds what is shown of a log.
const maxLogBytes = 32 << 10

// log returns the end of what the node has written.
func (r *realNode) log() []byte {
	b, err := os.ReadFile(r.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-maxLogBytes):]
}
