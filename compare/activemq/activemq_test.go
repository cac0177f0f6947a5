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
	drivertest.Run(t, drivertest.Config{
		Driver: activemq.New(),
		ClientOptions: []driver.Options{
			{"receipt": "every"},
			{"socket": "plain"},
			{"ack": "client"},
		},
	})
}
