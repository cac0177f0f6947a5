package etl

import (
	"testing"

	"kafkalab/kafka/client"
)

func dial(t testing.TB, address string) *client.Conn {
	t.Helper()
	conn, err := client.Dial(testContext(t), address, client.Config{})
	must(t, err)
	return conn
}
