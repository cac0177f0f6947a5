package zkserver_test

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/kafkatest/zktest"
)

// The conformance suite: the same tests against this server and against a real
// ZooKeeper, which must give the same answers. What differs on purpose is in the
// documentation of the package.

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// Codes of answers, by their names in ZooKeeper's documentation.
const (
	codeOK                      = 0
	codeSystemError             = -1
	codeRuntimeInconsistency    = -2
	codeMarshallingError        = -5
	codeUnimplemented           = -6
	codeBadArguments            = -8
	codeNoNode                  = -101
	codeNoAuth                  = -102
	codeBadVersion              = -103
	codeNoChildrenForEphemerals = -108
	codeNodeExists              = -110
	codeNotEmpty                = -111
	codeSessionExpired          = -112
	codeInvalidACL              = -114
	codeAuthFailed              = -115
	codeSessionMoved            = -118
	codeNoWatcher               = -121
)

// Types of events.
const (
	eventCreated         = 1
	eventDeleted         = 2
	eventDataChanged     = 3
	eventChildrenChanged = 4
)

const (
	patience = 20 * time.Second
	anyone   = 20 * time.Second // time-out of a session that is not to end by itself
)

// eventually waits until what it asks for holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// hungUp says whether an error of reading is the end of the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// raw is a client that speaks the protocol by itself, below the chroot of its
// cluster.
type raw struct {
	*zktest.Conn
	t *testing.T
	c *zktest.Cluster
}

// open makes a session. Its connection ends with the test.
func open(t *testing.T, c *zktest.Cluster, timeout time.Duration) *raw {
	t.Helper()
	r := reopen(t, c, zktest.Session{Timeout: timeout})
	if r.Session.ID == 0 {
		t.Fatal("no session")
	}
	return r
}

// reopen goes on with a session, or is told that there is none.
func reopen(t *testing.T, c *zktest.Cluster, s zktest.Session) *raw {
	t.Helper()
	conn, err := zktest.Open(c.Proxy(0).Addr(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &raw{conn, t, c}
}

// call sends a request and returns its answer.
func (r *raw) call(op zktest.Op, body zktest.Fields) zktest.Answer {
	r.t.Helper()
	a, err := r.Call(op, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// code sends a request whose answer must have a code.
func (r *raw) code(want int32, op zktest.Op, body zktest.Fields) zktest.Answer {
	r.t.Helper()
	a := r.call(op, body)
	if a.Code != want {
		r.t.Fatalf("%v: code %d, want %d", op, a.Code, want)
	}
	return a
}

// path returns a path below the test's own node.
func (r *raw) path(p string) string { return r.c.Root() + p }

func createBody(path, data string, flags int32) zktest.Fields {
	return zktest.Fields{}.String(path).Buffer([]byte(data)).OpenACL().Int(flags)
}

func (r *raw) create(p, data string, flags int32) {
	r.t.Helper()
	r.code(codeOK, zktest.OpCreate, createBody(r.path(p), data, flags))
}

func (r *raw) exists(p string) bool {
	r.t.Helper()
	a := r.call(zktest.OpExists, zktest.Fields{}.String(r.path(p)).Bool(false))
	if a.Code != codeOK && a.Code != codeNoNode {
		r.t.Fatalf("exists %s: code %d", p, a.Code)
	}
	return a.Code == codeOK
}

func (r *raw) watchExists(p string) {
	r.t.Helper()
	r.call(zktest.OpExists, zktest.Fields{}.String(r.path(p)).Bool(true))
}

func (r *raw) set(p, data string) {
	r.t.Helper()
	r.code(codeOK, zktest.OpSetData, zktest.Fields{}.String(r.path(p)).Buffer([]byte(data)).Int(-1))
}

// closeSession ends the session, and then the server the connection.
func (r *raw) closeSession() {
	r.t.Helper()
	r.code(codeOK, zktest.OpCloseSession, nil)
	if a, err := r.Read(); !hungUp(err) {
		r.t.Fatalf("after the end of the session: %v, %v", a, err)
	}
}

// ended fails the test unless the server has hung up.
func (r *raw) ended() {
	r.t.Helper()
	for {
		a, err := r.Read()
		if hungUp(err) {
			return
		}
		if err != nil {
			r.t.Fatalf("the server does not hang up: %v", err)
		}
		if a.Xid != zktest.XidEvent {
			r.t.Fatalf("the server answers with %+v", a)
		}
	}
}
