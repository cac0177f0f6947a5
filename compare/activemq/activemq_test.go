package activemq_test

import (
	"testing"

	"go.uber.org/goleak"

	"kafkalab/compare/activemq"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract needs the package activemq.
func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Config{
		AtOnce: true,
		Driver: activemq.New(),
		// The server is tuned: what it does by default is to be seen in every run.
		Options: driver.Options{"index-batch": "10000", "index-cache": "100000", "index-async": "true", "preallocation": "entire_journal_async"},
		ClientOptions: []driver.Options{
			{"receipt": "every", "socket": "plain"},
			{"receipt": "bulk", "window": "1000", "ack": "client", "prefetch": "1000", "ack-every": "250"},
			{"receipt": "bulk", "window": "7", "socket": "plain", "sync": "always"},
		},
	})
}
