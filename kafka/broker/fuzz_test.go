package broker

import (
	"bytes"
	"errors"
	"testing"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// FuzzRequests feeds the handler of a connection with any bytes, cut once.
// Whatever they are, no invariant breaks, answers are whole, and every log
// holds whole, undamaged messages only.
func FuzzRequests(f *testing.F) {
	f.Add(newStream(seeded(f), "", 30, false).requests, uint16(100))
	for _, x := range exchanges() {
		f.Add(x.request, uint16(10))
		f.Add(append(bytes.Clone(x.request), x.request...), uint16(len(x.request)+3))
	}
	f.Add(wire.AppendCreateTopic(nil, "t", 3), uint16(1))
	f.Add(append(wire.AppendProduce(nil, "t", 0, ackedSet), wire.AppendDeleteTopic(nil, "t")...), uint16(20))
	f.Add(wire.AppendTopics(nil, []string{"t", "u"}), uint16(5))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(3))
	for _, codec := range []message.Codec{message.CodecGzip, message.CodecSnappy} {
		set, err := message.Compress(nil, message.Append(ackedSet[:len(ackedSet):len(ackedSet)], []byte("another")), codec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire.AppendProduce(nil, "t", 0, set), uint16(9))
	}
	srv := memoryBroker(f, func(c *Config) {
		c.MaxRequestBytes = 1 << 16
		c.MaxMessageBytes = 1 << 12
		c.Storage.SegmentBytes = 256
	})
	f.Fuzz(func(t *testing.T, requests []byte, cut uint16) {
		if len(requests) > 1<<16 {
			return // must fit into the socket
		}
		st := newStepped(t, srv)
		// A first read of this many bytes cuts the stream. All has been sent and
		// the peer has closed before the first request is handled, so that
		// nothing waits for more.
		st.in.buf = make([]byte, max(cut, 1))
		if _, err := st.client.Write(requests); err != nil {
			t.Fatal(err)
		}
		if err := st.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for err := error(nil); err == nil; {
			if err = st.in.fill(); err == nil {
				err = st.handleBuffered()
			}
		}
		checkAnswers(t, st.end())
		checkLogs(t, srv)
	})
}

// checkAnswers wants whole answers, the last of which a reset may have cut.
func checkAnswers(t *testing.T, all []byte) {
	for len(all) >= wire.ResponseHeaderSize {
		_, n, err := wire.ParseResponseHeader(all, 1<<30)
		if err != nil {
			t.Fatalf("answer %.40x: %v", all, err)
		}
		if wire.ResponseHeaderSize+n > len(all) {
			return
		}
		all = all[wire.ResponseHeaderSize+n:]
	}
}

func checkLogs(t *testing.T, srv *Server) {
	for _, log := range srv.logs.Logs() {
		all := logBytes(t, srv, log.Topic(), log.Partition())
		valid, _, err := message.Check(all, message.Limits{})
		if err != nil || valid != len(all) {
			t.Fatalf("log of %q: %d of %d bytes are messages: %v", log.Topic(), valid, len(all), err)
		}
	}
	for _, name := range srv.logs.Topics() {
		if err := srv.logs.DeleteTopic(name); err != nil {
			t.Fatal(err)
		}
	}
}

// testCounter returns the value of a metric without labels.
func testCounter(t *testing.T, srv *Server, name string) float64 {
	families, err := srv.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal(errors.New("no metric " + name))
	return 0
}
