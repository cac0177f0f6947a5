package broker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
)

// TestFolderOfAnotherBroker: a log folder that has been registered with one id is
// refused with another, with the way out; without ZooKeeper the id means nothing.
func TestFolderOfAnotherBroker(t *testing.T) {
	t.Parallel()
	c := zktest.Start(t, zktest.Embedded)
	b := kafkatest.Start(t, kafkatest.WithID(7), kafkatest.WithZooKeeper(c.Connect()))
	dir := b.Config.LogDir
	works(t, b, "t")
	b.Restart()
	b.Stop()
	file := filepath.Join(dir, "broker.id")
	if text, err := os.ReadFile(file); err != nil || string(text) != "7\n" {
		t.Errorf("%s: %q, %v", file, text, err)
	}
	cfg := b.Config
	cfg.ID = 0
	for text, says := range map[string]string{
		"7\n":     "is that of broker 7, and this is broker 0: give --broker-id 7, or another --log-dir; if it is to be broker 0's from now on, remove " + file,
		"seven\n": "no broker id",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: started with another id: %v", text, err)
		}
	}
	alone := kafkatest.Start(t, kafkatest.WithID(0), withDir(dir)) // without ZooKeeper
	works(t, alone, "t")
	alone.Stop()
	if err := os.Remove(file); err != nil { // the way out
		t.Fatal(err)
	}
	other := kafkatest.Start(t, kafkatest.WithID(0), kafkatest.WithZooKeeper(c.Connect()), withDir(dir))
	works(t, other, "t")
	other.Stop()
	if text, err := os.ReadFile(file); err != nil || string(text) != "0\n" {
		t.Errorf("%s: %q, %v", file, text, err)
	}
}

// TestTakenIDIsNotKept: a broker that could not have its id has not bound its log
// folder to it.
func TestTakenIDIsNotKept(t *testing.T) {
	t.Parallel()
	c := zktest.Start(t, zktest.Embedded)
	holder := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()))
	cfg := holder.Config
	cfg.Listen, cfg.LogDir = "127.0.0.1:0", t.TempDir()
	if _, err := broker.Start(t.Context(), cfg); err == nil {
		t.Fatal("it has started")
	}
	works(t, kafkatest.Start(t, kafkatest.WithID(2), kafkatest.WithZooKeeper(c.Connect()), withDir(cfg.LogDir)), "t")
}
