package coord_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// TestCloseInTime: Close returns in a few seconds whatever the server does, and
// says what was not done.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away func(cl *zktest.Cluster)
		want string
	}{
		"connected":      {func(*zktest.Cluster) {}, ""},
		"cut":            {func(cl *zktest.Cluster) { cl.Cut() }, "could not be ended"},
		"frozen":         {func(cl *zktest.Cluster) { cl.Freeze() }, "could not be ended"},
		"answers frozen": {func(cl *zktest.Cluster) { cl.FreezeAnswers() }, "could not be ended"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := zktest.Shared(t, zktest.Embedded)
			client := connectOnly(t, coord.Config{Servers: cl.Connect()})
			var s states
			must(t, client.WatchData("/a", s.data).Ready(testContext(t)))
			must(t, client.Ephemeral("/e", func() []byte { return nil }).Wait(testContext(t)))
			defer session(t, client).KeepLease()()
			c.away(cl)
			began := time.Now()
			err := client.Close()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			cl.Mend()
		})
	}
}

// TestCloseWithSlowFunction: a function that does not return holds Close up for a
// few seconds only, and is named.
func TestCloseWithSlowFunction(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := connectOnly(t, f.config())
	called, goOn := make(chan bool), make(chan bool)
	c.OnSession(func(*coord.Session) {
		close(called)
		<-goOn
	})
	<-called
	began := time.Now()
	err := c.Close()
	close(goOn)
	if err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("error %v", err)
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestCloseInConnect: a client whose Connect has failed leaves nothing behind,
// which the check for goroutines at the end of the tests would find.
func TestCloseInConnect(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fakeServer) {
		f.shake = func(int64, int) ([]byte, bool) { return nil, true }
	})
	cfg := f.config()
	cfg.ConnectTimeout = 50 * time.Millisecond
	_, err := coord.Connect(testContext(t), cfg)
	wantErr(t, "connect", err, coord.ErrUnavailable)
	eventually(t, "connection closed", func() bool { return f.connected() == 0 })
}

// TestReconnectsLeaveNothing: after 500 lost connections and 50 expired sessions
// there are no more goroutines, descriptors and watches than before, and none
// after Close.
func TestReconnectsLeaveNothing(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		files := openFiles(t)
		c := connectOnly(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 2 * time.Second, RequestTimeout: patience})
		ctx := testContext(t)
		var children, data states
		must(t, c.WatchChildren("/", children.children).Ready(ctx))
		must(t, c.WatchData("/missing", data.data).Ready(ctx))
		e := c.Ephemeral("/e", func() []byte { return []byte("v") })
		must(t, e.Wait(ctx))
		children.want(t, "e")
		defer session(t, c).KeepLease()()
		goroutines := runtime.NumGoroutine()
		watches := coord.ArmedInLibrary(session(t, c))

		for n := int64(1); n <= 500; n++ {
			cl.DropConnections()
			eventually(t, "connection taken up", func() bool { return c.Stats().Connects > n })
			wantValue(t, c, "/e", "v")
		}
		if st := c.Stats(); st.Sessions != 1 || st.Expiries != 0 {
			t.Errorf("stats %+v", st)
		}
		if n := coord.ArmedInLibrary(session(t, c)); n != watches {
			t.Errorf("%d watches are armed, %d before", n, watches)
		}
		for range 50 {
			s := session(t, c)
			must(t, cl.Expire(s.ID()))
			<-s.Context().Done()
			must(t, e.Wait(testContext(t)))
		}
		if st := c.Stats(); st.Sessions != 51 || st.Expiries != 50 {
			t.Errorf("stats %+v", st)
		}
		// The proxies and the embedded server have theirs for a moment more.
		eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
		must(t, c.Close())
		eventually(t, "as many files as before", func() bool { return openFiles(t) <= files })
	})
}

// openFiles returns how many descriptors the process has.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
