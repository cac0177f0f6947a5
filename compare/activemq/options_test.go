package activemq

import (
	"strings"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host/hosttest"
)

func TestOptions(t *testing.T) {
	opt, err := readOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	if opt.receipt != "none" || !opt.coalesced || opt.clientAck || opt.prefetch != 1000 || opt.Sync != "never" || opt.indexing() != "" {
		t.Errorf("the defaults are %+v", opt)
	}
	opt, err = readOptions(driver.Options{"ack": "client", "prefetch": "10"})
	if err != nil || opt.ackEvery != 2 {
		t.Errorf("with a small prefetch: ack-every %d, %v", opt.ackEvery, err)
	}
	opt, err = readOptions(driver.Options{"receipt": "bulk", "window": "10", "index-async": "true"})
	if err != nil || opt.receiptEvery != 3 || opt.indexing() != "enableIndexWriteAsync true for false; " {
		t.Errorf("bulk: %+v, %v", opt, err)
	}
	if opt, err = readOptions(driver.Options{"receipt": "bulk", "sync": "always"}); err != nil || opt.receiptEvery != 1 {
		t.Errorf("bulk, with the disk: %+v, %v", opt, err)
	}
	for _, test := range []struct {
		o    driver.Options
		want string
	}{
		{driver.Options{"receipt": "some"}, `receipt = "some"`},
		{driver.Options{"receipt": "every", "window": "10"}, "window does nothing without receipt = bulk"},
		{driver.Options{"index-async": "yes"}, `index-async = "yes"`},
		{driver.Options{"ack-every": "10"}, "ack-every does nothing without ack = client"},
		{driver.Options{"ack": "client", "ack-every": "500"}, "ack-every = 500: with prefetch = 1000 the broker stalls above 250"},
		{driver.Options{"heap-mb": "512"}, "memory-mb = 512"},
		{driver.Options{"queue": "lazy"}, `unknown option "queue"`},
	} {
		if _, err := readOptions(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v does not say %q", test.o, err, test.want)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	queue, got, err := parseAnswer("{size=5, brokerId=ID:a-1:1, destinationName=queue://q.1, enqueueCount=123456789012}")
	if want := (state{enqueued: 123456789012, size: 5}); queue != "q.1" || got != want || err != nil {
		t.Errorf("%q, %+v, %v", queue, got, err)
	}
	for _, text := range []string{"", "{", "{enqueueCount=5, size=1}", "{enqueueCount=-5, size=1, destinationName=queue://q.1}", "{enqueueCount=, size=1, destinationName=queue://q.1}",
		"{enqueueCount=5, destinationName=queue://q.1}", "{enqueueCount=5, size=1, destinationName=topic://q.1}", strings.Repeat("x", 100_000)} {
		if queue, n, err := parseAnswer(text); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.50q: %q, %v, %v; a short error is wanted", text, queue, n, err)
		}
	}
}

// What the broker gives a meaning of its own is no queue's name.
func TestCheckQueue(t *testing.T) {
	for _, good := range []string{"q", "fig4-producer", "a.b_c", "0"} {
		if err := checkQueue(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a>", "*", "a,b", "a?consumer.prefetchSize=1", "a/b", ".a", "a\nb", "ä", strings.Repeat("a", 201)} {
		if err := checkQueue(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// The table must show what an option changes.
func TestSettingsFollowOptions(t *testing.T) {
	drivertest.SettingsFollow(t, New(), hosttest.Local(t, ""), [][2]driver.Options{
		{nil, {"receipt": "every"}},
		{nil, {"receipt": "bulk"}},
		{{"receipt": "bulk"}, {"receipt": "bulk", "window": "10"}},
		{{"receipt": "bulk"}, {"receipt": "bulk", "sync": "always"}},
		{nil, {"socket": "plain"}},
		{nil, {"ack": "client"}},
		{{"ack": "client"}, {"ack": "client", "ack-every": "10"}},
		{nil, {"prefetch": "500"}},
		{nil, {"sync": "periodic"}},
		{nil, {"index-batch": "10000"}},
		{nil, {"index-cache": "100000"}},
		{nil, {"index-async": "true"}},
		{nil, {"index-syncs": "false"}},
		{nil, {"preallocation": "none"}},
		{nil, {"use-cache": "true"}},
		{nil, {"concurrent-store": "true"}},
		{{"use-cache": "true"}, {"use-cache": "true", "concurrent-store": "true"}},
		{nil, {"heap-mb": "1024"}},
		{nil, {"memory-mb": "256"}},
	})
}
