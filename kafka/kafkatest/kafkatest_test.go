package kafkatest_test

import (
	"io"
	"net"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestRestart starts a broker, produces, and finds the message after a restart
// at the same address.
func TestRestart(t *testing.T) {
	b := kafkatest.Start(t)
	set := message.Append(nil, []byte("stays"))
	exchange(t, b.HostPort(), wire.AppendProduce(nil, "t", 0, set), nil)
	b.Restart()
	want := append(wire.AppendResponseHeader(nil, wire.CodeNone, len(set)), set...)
	exchange(t, b.HostPort(), wire.AppendFetch(nil, wire.FetchEntry{Topic: "t", MaxBytes: 1000}), want)
}

// exchange sends a request, closes its side, and wants exactly this answer.
func exchange(t *testing.T, address string, request, want []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != string(want) {
		t.Fatalf("answer %x, %v; want %x", got, err, want)
	}
}
