package coord_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// patience bounds every wait of a test.
const patience = 30 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// logTo writes a client's log to the output of the test.
func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// connect opens a client that is closed at the end of the test, without an error.
func connect(t testing.TB, cfg coord.Config) *coord.Client {
	t.Helper()
	c := connectOnly(t, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// connectOnly opens a client that the test closes.
func connectOnly(t testing.TB, cfg coord.Config) *coord.Client {
	t.Helper()
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 4 * time.Second
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = patience
	}
	if cfg.Logger == nil {
		cfg.Logger = logTo(t)
	}
	c, err := coord.Connect(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// session returns the live session.
func session(t testing.TB, c *coord.Client) *coord.Session {
	t.Helper()
	s, err := c.Session(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually polls until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks an error.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantRead checks that a node can be read.
func wantRead(t testing.TB, c *coord.Client, path string) {
	t.Helper()
	if _, _, err := c.Get(testContext(t), path); err != nil {
		t.Error(err)
	}
}

// wantValue checks a node's value.
func wantValue(t testing.TB, c *coord.Client, path, want string) {
	t.Helper()
	data, _, err := c.Get(testContext(t), path)
	if err != nil || !bytes.Equal(data, []byte(want)) {
		t.Errorf("%s: %q, %v, want %q", path, data, err, want)
	}
}
