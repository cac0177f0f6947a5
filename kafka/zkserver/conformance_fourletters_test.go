package zkserver_test

import (
	"io"
	"net"
	"regexp"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// The words that operators and probes send.
func TestConformanceFourLetters(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/e", "", 1)
		ask := func(word string) string {
			t.Helper()
			answer, err := zktest.FourLetters(c.Proxy(0).Addr(), word)
			if err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			return answer
		}
		if got := ask("ruok"); got != "imok" {
			t.Errorf("ruok: %q", got)
		}
		for word, lines := range map[string][]string{
			"srvr": {`^Zookeeper version: \S.*, built on .+$`, `^Latency min/avg/max: \d+/[\d.]+/\d+$`, `^Received: \d+$`, `^Sent: \d+$`, `^Connections: \d+$`, `^Outstanding: \d+$`, `^Zxid: 0x[0-9a-f]+$`, `^Mode: standalone$`, `^Node count: \d+$`},
			"stat": {`^Zookeeper version: `, `^Clients:$`, `^ /127\.0\.0\.1:\d+\[\d+\]\(queued=\d+,recved=\d+,sent=\d+\)$`, `^Received: \d+$`, `^Mode: standalone$`, `^Node count: \d+$`},
			"mntr": {`^zk_version\t`, `^zk_server_state\tstandalone$`, `^zk_num_alive_connections\t[1-9]\d*$`, `^zk_outstanding_requests\t\d+$`, `^zk_znode_count\t\d+$`, `^zk_watch_count\t\d+$`, `^zk_ephemerals_count\t[1-9]\d*$`, `^zk_packets_received\t\d+$`, `^zk_packets_sent\t\d+$`, `^zk_approximate_data_size\t\d+$`},
		} {
			got := ask(word)
			for _, line := range lines {
				if !regexp.MustCompile("(?m)" + line).MatchString(got) {
					t.Errorf("%s: no line %s in\n%s", word, line, got)
				}
			}
		}
		// A word with a line end, as telnet sends it.
		if got := ask("ruok\n"); got != "imok" {
			t.Errorf("ruok and a line end: %q", got)
		}
		if !a.exists("/e") {
			t.Error("the session is gone")
		}
	})
}

// A word in two pieces is still one.
func TestConformanceFourLettersInPieces(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		conn, err := zktest.Dial(c.Proxy(0).Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Conn.(*net.TCPConn).SetNoDelay(true); err != nil {
			t.Fatal(err)
		}
		for _, piece := range []string{"ru", "ok"} {
			if err := conn.SendRaw([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(conn.Conn); err != nil || string(b) != "imok" {
			t.Errorf("%q, %v", b, err)
		}
	})
}
