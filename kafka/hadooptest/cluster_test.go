//go:build hadoop

package hadooptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// clusterLimit is how long the mini cluster may take to start, and to stop.
const clusterLimit = 3 * time.Minute

// miniCluster is HDFS and YARN in one process.
type miniCluster struct {
	sites string // of clients
	hdfs  string // the address of the file system: hdfs://localhost:PORT

	dir   string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when err is set
	err   error
}

// shared is the cluster of all tests of a run; the first that needs one starts it,
// and TestMain stops it.
var shared struct {
	sync.Mutex
	cluster *miniCluster
	err     error
}

// sharedCluster returns the cluster of this run. What its processes logged is in the
// output of a test that fails.
func sharedCluster(t *testing.T) *miniCluster {
	t.Helper()
	h := installed(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		start := time.Now()
		shared.cluster, shared.err = startCluster(h)
		t.Logf("the mini cluster took %v to start", time.Since(start).Round(time.Second))
	}
	if shared.err != nil {
		t.Fatalf("mini cluster: %v", shared.err)
	}
	since := time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", shared.cluster.logs(since))
		}
	})
	return shared.cluster
}

// stopShared stops it and removes all that it stored.
func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return nil
	}
	err := shared.cluster.stop()
	shared.cluster, shared.err = nil, errors.New("it was stopped")
	return err
}

func startCluster(h hadoop) (*miniCluster, error) {
	dir, err := os.MkdirTemp("", "kafkalab-hadoop-")
	if err != nil {
		return nil, err
	}
	c := &miniCluster{dir: dir, sites: filepath.Join(dir, "clients"), ended: make(chan struct{})}
	if err := c.start(h); err != nil {
		logs := c.logs(time.Time{})
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, c.stop()), logs)
	}
	return c, nil
}

func (c *miniCluster) start(h hadoop) error {
	own := filepath.Join(c.dir, "sites")
	if err := writeSites(own, "INFO", h.clusterSettings(c.dir, own)); err != nil {
		return err
	}
	// The cluster writes the site files of clients anew, with its addresses.
	if err := writeSites(c.sites, "WARN", nil); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, "cluster.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	argv := h.argv("768m", own, "kafkalab.MiniCluster", c.dir, c.sites)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, h.environment(), log
	alone(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	go func() {
		// The kernel kills the program with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.cmd, c.stdin = cmd, stdin
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if address, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				ready <- address // the only one
			}
		}
	}()
	select {
	case address, ok := <-ready:
		if !ok {
			return errors.New("it ended before it was ready")
		}
		c.hdfs = strings.TrimRight(address, "/")
		return nil
	case <-time.After(clusterLimit):
		return fmt.Errorf("it is not ready after %v", clusterLimit)
	}
}

// stop ends the cluster, with every container, and removes its folder.
func (c *miniCluster) stop() error {
	var err error
	if c.cmd != nil {
		err = c.stdin.Close()
		select {
		case <-c.ended:
			err = errors.Join(err, c.err)
		case <-time.After(clusterLimit):
			err = errors.Join(err, fmt.Errorf("the mini cluster has not stopped within %v", clusterLimit), c.cmd.Process.Kill())
			<-c.ended
		}
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// logs are the ends of what the cluster and its containers have logged since then.
func (c *miniCluster) logs(since time.Time) string {
	var b strings.Builder
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // Hadoop removes what it no longer needs
		}
		if err != nil || d.IsDir() {
			return err
		}
		switch d.Name() {
		case "cluster.log", "syslog", "stderr", "stdout", "prelaunch.err":
			if info, err := d.Info(); err != nil || info.ModTime().Before(since) {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil || len(text) == 0 {
				return nil
			}
			fmt.Fprintf(&b, "== the end of %s\n%s\n", strings.TrimPrefix(path, c.dir+"/"), tail(string(text), 40))
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(&b, "read the logs: %v\n", err)
	}
	return b.String()
}

// environment is that of every program of Hadoop's. Containers are started by
// JAVA_HOME.
func (h hadoop) environment(more ...string) []string {
	env := []string{"JAVA_HOME=" + h.home}
	for _, name := range []string{"PATH", "HOME", "USER", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}
