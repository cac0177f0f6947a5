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
	drivertest.Run(t, drivertest.Config{
		Driver: rabbitmq.New(),
		ClientOptions: []driver.Options{
			{"socket": "plain"},
			{"acks": "confirms", "window": "100"},
			{"ack": "manual", "prefetch": "400", "ack-every": "100"},
			{"queue": "classic"},
			{"queue": "classic-v2"},
			{"queue": "quorum", "acks": "confirms"},
		},
	})
}
