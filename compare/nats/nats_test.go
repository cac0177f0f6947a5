package nats_test

import (
	"testing"

	"go.uber.org/goleak"

	"kafkalab/compare/nats"
	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract needs the package nats-server.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]driver.Options{"Acks": {}, "NoAcks": {"acks": "none"}} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, drivertest.Config{
				Driver:  nats.New(),
				Options: o,
				ClientOptions: []driver.Options{
					{"acks": "each"},
					{"window": "100", "prefetch": "7"},
					{"acks": "none", "ack": "all", "ack-every": "100"},
					{"ack": "all", "prefetch": "10", "prefetch-bytes": "1024"},
				},
			})
		})
	}
}
