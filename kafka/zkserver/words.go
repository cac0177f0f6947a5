package zkserver

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// words are the four-letter words of ZooKeeper that are answered here. A
// connection may send one in place of its handshake; the answer is text, and
// ends the connection.
var words = map[string]func(s *Server) string{
	"ruok": func(*Server) string { return "imok" },
	"stat": func(s *Server) string { return s.versionLine() + s.clientLines() + s.statusLines() },
	"srvr": func(s *Server) string { return s.versionLine() + s.statusLines() },
	"mntr": (*Server).monitorLines,
}

// refusedWords are the others. Without this list they would be sizes of requests.
var refusedWords = []string{
	"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "srst", "stmk", "wchc", "wchp", "wchs",
}

// fourLetterWord returns the word that stands where the size of a handshake
// should be.
func fourLetterWord(size uint32) (string, bool) {
	w := string(binary.BigEndian.AppendUint32(nil, size))
	return w, words[w] != nil || slices.Contains(refusedWords, w)
}

// answerWord answers a word and lets the connection end.
func (c *conn) answerWord(word string) error {
	text := word + " is not executed because it is not in the whitelist.\n"
	if answer := words[word]; answer != nil {
		if err := c.s.call(func() { text = answer(c.s) }); err != nil {
			text = "This ZooKeeper instance is not currently serving requests\n"
		}
	}
	c.out.push(outgoing{frame: []byte(text), last: true})
	c.wait(nil)
	return nil
}

// version is the release whose behaviour this server has, and whose it is.
const version = "3.8.0-kafkalab"

// versionLine has the form that clients look for, with the time of the commit
// that the program was built from.
func (s *Server) versionLine() string {
	return "Zookeeper version: " + fullVersion() + "\n"
}

func fullVersion() string {
	built := time.Unix(0, 0)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if t, err := time.Parse(time.RFC3339, setting.Value); setting.Key == "vcs.time" && err == nil {
				built = t
			}
		}
	}
	return version + ", built on " + built.UTC().Format("01/02/2006 15:04 MST")
}

func (s *Server) clientLines() string {
	var lines []string
	s.mu.Lock()
	for c := range s.conns {
		lines = append(lines, fmt.Sprintf(" /%s[1](queued=%d,recved=%d,sent=%d)\n", c.peer(), len(c.slots), c.received.Load(), c.sent.Load()))
	}
	s.mu.Unlock()
	slices.Sort(lines)
	return "Clients:\n" + strings.Join(lines, "") + "\n"
}

func (s *Server) statusLines() string {
	return fmt.Sprintf("Latency min/avg/max: %d/%.4f/%d\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: %#x\nMode: standalone\nNode count: %d\n",
		s.latency.min.Milliseconds(), s.latency.mean(), s.latency.max.Milliseconds(), s.received.Load(), s.sent.Load(),
		s.connections(), len(s.queue), s.state.tree.zxid, s.state.tree.count())
}

func (s *Server) monitorLines() string {
	ephemerals := 0
	for _, paths := range s.state.tree.ephemerals {
		ephemerals += len(paths)
	}
	var b strings.Builder
	for _, line := range []struct {
		key   string
		value any
	}{
		{"version", fullVersion()},
		{"server_state", "standalone"},
		{"uptime", s.elapsed().Milliseconds()},
		{"avg_latency", fmt.Sprintf("%.4f", s.latency.mean())},
		{"min_latency", s.latency.min.Milliseconds()},
		{"max_latency", s.latency.max.Milliseconds()},
		{"packets_received", s.received.Load()},
		{"packets_sent", s.sent.Load()},
		{"num_alive_connections", s.connections()},
		{"connection_rejected", s.refused.Load()},
		{"outstanding_requests", len(s.queue)},
		{"znode_count", s.state.tree.count()},
		{"watch_count", s.dataWatches.count() + s.childWatches.count()},
		{"ephemerals_count", ephemerals},
		{"approximate_data_size", s.state.tree.dataBytes},
		{"global_sessions", len(s.state.sessions)},
		{"local_sessions", 0},
	} {
		fmt.Fprintf(&b, "zk_%s\t%v\n", line.key, line.value)
	}
	return b.String()
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
