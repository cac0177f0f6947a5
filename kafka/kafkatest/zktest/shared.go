package zktest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
)

// sharedClusters are the servers that tests of this program share.
var sharedClusters = struct {
	sync.Mutex
	open    bool // a Runner will stop them
	folder  string
	servers map[Kind]*servers
	tests   int // for chroots
}{servers: make(map[Kind]*servers)}

// Runner runs the tests of a package and then stops the shared servers. It is what
// TestMain makes of its testing.M:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }
type Runner struct{ M *testing.M }

// Run returns the exit status.
func (r Runner) Run() int {
	sharedClusters.Lock()
	sharedClusters.open = true
	sharedClusters.Unlock()
	status := r.M.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "shared ZooKeeper:", err)
		status = max(status, 1)
	}
	return status
}

func stopShared() error {
	sharedClusters.Lock()
	defer sharedClusters.Unlock()
	sharedClusters.open = false
	var errs []error
	for kind, v := range sharedClusters.servers {
		errs = append(errs, v.close())
		delete(sharedClusters.servers, kind)
	}
	if sharedClusters.folder != "" {
		errs = append(errs, os.RemoveAll(sharedClusters.folder))
		sharedClusters.folder = ""
	}
	return errors.Join(errs...)
}

// Shared returns a cluster whose servers all tests of this program use that ask
// for the same kind. The test has a line and a chroot of its own, "/test" and a
// number; the servers run with the default settings, and cannot be stopped. The
// package's TestMain must use a Runner.
func Shared(t testing.TB, kind Kind) *Cluster {
	t.Helper()
	if kind != Embedded {
		NeedReal(t)
	}
	v, chroot, err := shared(kind)
	if err != nil {
		t.Fatalf("start shared ZooKeeper (%v): %v", kind, err)
	}
	c := &Cluster{Kind: kind, t: t, servers: v, shared: true}
	c.open(chroot)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shared ZooKeeper (%v): %s", kind, v.logs())
		}
	})
	return c
}

func shared(kind Kind) (v *servers, chroot string, err error) {
	sharedClusters.Lock()
	defer sharedClusters.Unlock()
	if !sharedClusters.open {
		return nil, "", errors.New("the package's TestMain does not run its tests with a zktest.Runner, which stops it")
	}
	sharedClusters.tests++
	chroot = "/test" + strconv.Itoa(sharedClusters.tests)
	if v = sharedClusters.servers[kind]; v != nil {
		return v, chroot, nil
	}
	if sharedClusters.folder == "" {
		if sharedClusters.folder, err = os.MkdirTemp("", "zktest"); err != nil {
			return nil, "", err
		}
	}
	folder, err := os.MkdirTemp(sharedClusters.folder, kind.String())
	if err != nil {
		return nil, "", err
	}
	if v, err = startServers(kind, folder, defaultSettings()); err != nil {
		return nil, "", err
	}
	sharedClusters.servers[kind] = v
	return v, chroot, nil
}
