package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pullExpires is how long the server keeps a pull that it cannot fill.
	pullExpires = 30 * time.Second
	// heartbeat is how often the server says that it is there while a pull waits
	// for messages.
	heartbeat = 5 * time.Second
	// quietLimit is how long nothing may come while a pull is out. It is shorter
	// than the time after which the testbed calls an attempt stalled.
	quietLimit = 3 * heartbeat
	// noticeRoom is how many of the server's notices may wait beside messages.
	noticeRoom = 1024
)

// puller asks for messages ahead of their use. It is for one goroutine.
//
// It does what the library's Consume does: all pulls go to one subscription,
// and the next one is sent when half of what was asked for has been used. The
// library's own looks whether it must ask while a goroutine of its own may still
// be busy with the pull before, and then does not; if that was the last message
// on its way nothing more comes until a heartbeat is missed, half a minute
// later. That was seen in tests of small pulls on a busy machine (v1.55.0).
type puller struct {
	conn    *nats.Conn
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	subject string // to which a pull is published
	size    pullSize
	asked   int // messages asked for that have not been used
}

// pullSize is how much is asked for at most.
type pullSize struct {
	messages int
	bytes    int // of all, with what the server adds; 0: no bound
}

// pullRequest is the server's own form of a pull; durations are nanoseconds.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// newPuller subscribes to what the pulls of a consumer will bring. It asks for
// nothing.
func newPuller(conn *nats.Conn, stream, consumer string, size pullSize) (*puller, error) {
	p := &puller{
		conn:    conn,
		msgs:    make(chan *nats.Msg, size.messages+noticeRoom),
		subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		size:    size,
	}
	var err error
	p.sub, err = conn.ChanSubscribe(conn.NewInbox(), p.msgs)
	return p, err
}

// ask sends the next pull if it is time to.
func (p *puller) ask() error {
	if 2*p.asked > p.size.messages {
		return nil
	}
	n := p.size.messages - p.asked
	text, err := json.Marshal(pullRequest{Batch: n, MaxBytes: p.size.bytes, Expires: pullExpires, Heartbeat: heartbeat})
	if err != nil {
		return err
	}
	p.asked += n
	return p.conn.PublishRequest(p.subject, p.sub.Subject, text)
}

// The server's notices, by their status.
const (
	statusHeartbeat = "100"
	// pendingHeader is how many messages a pull that has ended did not bring.
	pendingHeader = "Nats-Pending-Messages"
)

// used counts a message that came, and says whether it is one of the stream: it
// may be a notice. The error ends the pulling.
func (p *puller) used(m *nats.Msg) (payload bool, err error) {
	status := ""
	if len(m.Header) > 0 && len(m.Data) == 0 {
		status = m.Header.Get("Status")
	}
	switch status {
	case "":
		p.asked--
		return true, nil
	case statusHeartbeat:
		return false, nil
	}
	// A pull is over: its time, or the bytes that it asked for.
	pending, err := strconv.Atoi(m.Header.Get(pendingHeader))
	if err != nil || pending < 0 || pending > p.asked {
		return false, fmt.Errorf("the server ended a pull: %s %s", status, m.Header.Get("Description"))
	}
	p.asked -= pending
	return false, nil
}
