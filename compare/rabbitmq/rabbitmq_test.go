package rabbitmq_test

import (
	"testing"

	"go.uber.org/goleak"

	"kafkalab/compare/rabbitmq"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract needs the package rabbitmq-server.
func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Config{
		AtOnce: true,
		Driver: rabbitmq.New(),
		// The server's own options matter to a stream, whose count is old without.
		Options: driver.Options{"queue": "stream", "confirms": "bulk", "window": "1000", "prefetch": "300", "ack-every": "100"},
		ClientOptions: []driver.Options{
			{},
			{"socket": "plain", "delivery": "transient"},
			{"confirms": "bulk", "window": "100"},
			{"ack": "manual", "prefetch": "400", "ack-every": "100"},
			{"queue": "classic"},
			{"queue": "classic-v2"},
			{"queue": "quorum", "confirms": "bulk"},
		},
	})
}
