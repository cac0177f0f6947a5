package zktest

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A port that was taken after it was chosen is noticed, so that another one is.
func TestPortTaken(t *testing.T) {
	for _, kind := range []Kind{Embedded, Real} {
		t.Run(kind.String(), func(t *testing.T) {
			if kind == Real {
				NeedReal(t)
			}
			nodes, err := layOut(kind, t.TempDir(), defaultSettings())
			if err != nil {
				t.Fatal(err)
			}
			n := nodes[0]
			l, err := net.Listen("tcp", n.addr())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			err = n.start()
			defer func() {
				if err := n.kill(); err != nil {
					t.Error(err)
				}
			}()
			for end := time.Now().Add(startLimit); err == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				_, err = n.ready()
			}
			if !errors.Is(err, errPortTaken) {
				t.Errorf("%v; log:\n%s", err, n.log())
			}
		})
	}
}

// A node that ends when nobody wants it to makes the test fail.
func TestNodeThatEndsByItself(t *testing.T) {
	NeedReal(t)
	v, err := startServers(Real, t.TempDir(), defaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	if err := v.nodes[0].kill(); err != nil {
		t.Fatal(err)
	}
	if err := v.close(); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("%v", err)
	}
	if err := v.close(); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

// A settings file that ZooKeeper refuses is told with its log.
func TestNodeThatDoesNotStart(t *testing.T) {
	NeedReal(t)
	s := defaultSettings()
	s.minTimeout, s.maxTimeout = 2*time.Second, time.Second
	_, err := startServers(Real, t.TempDir(), s)
	if err == nil || !strings.Contains(err.Error(), "minSessionTimeout") {
		t.Errorf("%v", err)
	}
}
