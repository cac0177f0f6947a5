package nats

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// notice is what the library makes of one of the server's notices.
func notice(status, description, pending string) *nats.Msg {
	m := &nats.Msg{Header: nats.Header{}}
	m.Header.Set("Status", status)
	m.Header.Set("Description", description)
	if pending != "" {
		m.Header.Set(pendingHeader, pending)
	}
	return m
}

func TestPullAccount(t *testing.T) {
	p := &puller{size: pullSize{messages: 10}, asked: 10}
	for _, test := range []struct {
		what    string
		m       *nats.Msg
		payload bool
		asked   int
		err     string
	}{
		{"a message", &nats.Msg{Data: []byte("x")}, true, 9, ""},
		{"an empty message", &nats.Msg{}, true, 8, ""},
		{"a message with a header of its own", &nats.Msg{Data: []byte("x"), Header: nats.Header{"Status": {"408"}}}, true, 7, ""},
		{"a heartbeat", notice("100", "Idle Heartbeat", ""), false, 7, ""},
		{"the time is over", notice("408", "Request Timeout", "3"), false, 4, ""},
		{"the bytes are used up", notice("409", "Message Size Exceeds MaxBytes", "4"), false, 0, ""},
		{"more than was asked for", notice("408", "Request Timeout", "1"), false, 0, "408 Request Timeout"},
		{"the consumer is gone", notice("409", "Consumer Deleted", ""), false, 0, "409 Consumer Deleted"},
		{"nobody answers", notice("503", "", ""), false, 0, "503"},
	} {
		payload, err := p.used(test.m)
		if payload != test.payload || p.asked != test.asked {
			t.Errorf("%s: payload %v, %d asked for; want %v, %d", test.what, payload, p.asked, test.payload, test.asked)
		}
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %q", test.what, err, test.err)
		}
	}
}
