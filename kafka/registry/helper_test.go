package registry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// patience bounds every wait of a test for something that should come at once.
const patience = 20 * time.Second

// sessionTimeout is longer than any test cuts a line, and short enough that a
// session whose end was missed is found out by its pings.
const sessionTimeout = 15 * time.Second

// member is a client of a test, with the session it has.
type member struct {
	*registry.Registry
	session *coord.Session
	line    *zktest.Line
}

// join makes a member with a line of its own, closed at the end of the test.
func join(t *testing.T, c *zktest.Cluster) *member {
	t.Helper()
	line := c.NewLine()
	client, err := coord.Connect(t.Context(), coord.Config{Servers: line.Connect(), SessionTimeout: sessionTimeout, ConnectTimeout: patience, RequestTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() }) // twice is fine; a test that cuts the line makes it fail
	m := &member{Registry: registry.New(client), line: line}
	m.session = m.live(t)
	return m
}

func (m *member) live(t *testing.T) *coord.Session {
	t.Helper()
	s, err := m.Client().Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (m *member) close(t *testing.T) {
	t.Helper()
	if err := m.Client().Close(); err != nil {
		t.Fatal(err)
	}
}

// put stores a node as somebody else might.
func (m *member) put(t *testing.T, path, value string) {
	t.Helper()
	must(t, m.Client().Put(t.Context(), path, []byte(value)))
}

// node returns the value of a node, and whether it is there.
func (m *member) node(t *testing.T, path string) (value string, stat coord.Stat, exists bool) {
	t.Helper()
	data, stat, err := m.Client().Get(t.Context(), path)
	if errors.Is(err, coord.ErrNoNode) {
		return "", stat, false
	}
	must(t, err)
	return string(data), stat, true
}

// want fails the test unless a node has a value; "-" stands for no node.
func (m *member) want(t *testing.T, path, value string) {
	t.Helper()
	if got, _, exists := m.node(t, path); exists != (value != "-") || exists && got != value {
		t.Errorf("node %s: %q (there: %v), want %q", path, got, exists, value)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until what it asks for holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// bad returns the paths that an error says make no sense.
func bad(t *testing.T, err error) (paths []string) {
	t.Helper()
	var nodes *registry.BadNodesError
	if !errors.As(err, &nodes) {
		t.Fatalf("error %v, want a BadNodesError", err)
	}
	for _, n := range nodes.Nodes {
		paths = append(paths, n.Path)
	}
	return paths
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
