package zkserver_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// player carries out a script of testdata/conformance. A line of it is the name of
// a client and a command; the lines below it that are set in say what the server
// sends to that client up to the command's answer, in its order. Numbers of
// changes are counted from the start of the script. Paths begin with the
// script's own node, which is left out, unless they are written with "=".
type player struct {
	t       *testing.T
	c       *zktest.Cluster
	clients map[string]*zktest.Conn
	names   map[int64]string // of sessions
	begin   time.Time
	base    int64 // number of the last change before the script
	xid     int32
	out     []string
}

func newPlayer(t *testing.T, c *zktest.Cluster) *player {
	p := &player{t: t, c: c, clients: make(map[string]*zktest.Conn), names: make(map[int64]string), begin: time.Now()}
	conn, err := zktest.Open(c.Proxy(0).Addr(), zktest.Session{Timeout: anyone})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Call(zktest.OpCreate, createBody(p.root(), "", 0)); err != nil {
		t.Fatal(err)
	}
	a, err := conn.Call(zktest.OpCloseSession, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.base = a.Zxid
	return p
}

// root is the node of the script.
func (p *player) root() string { return "/" + p.t.Name()[strings.LastIndexByte(p.t.Name(), '/')+1:] }

// close ends the sessions that the script has left.
func (p *player) close() {
	for _, conn := range p.clients {
		if err := conn.Send(1<<30, zktest.OpCloseSession, nil); err == nil {
			for {
				if _, err := conn.Read(); err != nil {
					break
				}
			}
		}
		conn.Close()
	}
}

// playScript carries out a script and returns it with what the server sent.
func playScript(t *testing.T, c *zktest.Cluster, script string) string {
	p := newPlayer(t, c)
	defer p.close()
	var text strings.Builder
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // what was sent another time
		}
		text.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		p.out = nil
		if err := p.play(line); err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
		for _, o := range p.out {
			text.WriteString("    " + o + "\n")
		}
	}
	return text.String()
}

func (p *player) say(format string, args ...any) { p.out = append(p.out, fmt.Sprintf(format, args...)) }

func (p *player) play(line string) error {
	words, err := splitWords(line)
	if err != nil {
		return err
	}
	if len(words) < 2 {
		return errors.New("a client and a command are needed")
	}
	name, args := words[0], arguments{words: words[2:], root: p.root(), base: p.base}
	if words[1] == "open" {
		return p.open(name, zktest.Session{Timeout: anyone}, args)
	}
	conn := p.clients[name]
	if conn == nil {
		return errors.New("no such client")
	}
	switch words[1] {
	case "reopen":
		conn.Close()
		return p.open(name, conn.Session, args)
	case "again": // beside the old connection, which keeps its name with a quote
		p.clients[name+"'"] = conn
		return p.open(name, conn.Session, args)
	case "events": // so many, whose order does not matter
		defer func() { slices.Sort(p.out) }()
		for range args.number(1) {
			if err := p.readUntil(conn, func(zktest.Answer) bool { return true }, ""); err != nil {
				return err
			}
		}
		return args.err
	case "expire":
		return p.c.Expire(conn.Session.ID)
	case "read":
		return p.readUntil(conn, func(zktest.Answer) bool { return true }, "")
	}
	command := words[1]
	switch command { // a sync and a close, whose events have no order that matters
	case "settle":
		command, args.words = "sync", []string{"/"}
		defer func() { slices.Sort(p.out) }()
	case "leave":
		command = "close"
		defer func() { slices.Sort(p.out) }()
	}
	op, body, err := request(command, &args)
	if err != nil {
		return err
	}
	p.xid++
	xid := p.xid
	switch op {
	case zktest.OpPing:
		xid = zktest.XidPing
	case zktest.OpAuth:
		xid = zktest.XidAuth
	}
	if err := conn.Send(xid, op, body); err != nil {
		if !hungUp(err) {
			return err
		}
		p.say("hung up")
		return nil
	}
	if err := p.readUntil(conn, func(a zktest.Answer) bool { return a.Xid == xid }, command); err != nil || op != zktest.OpCloseSession {
		return err
	}
	return p.readUntil(conn, func(zktest.Answer) bool { return false }, "")
}

func (p *player) open(name string, s zktest.Session, args arguments) error {
	if len(args.words) > 0 {
		d, err := time.ParseDuration(args.next())
		if err != nil {
			return err
		}
		s.Timeout = d
	}
	conn, err := zktest.Open(p.c.Proxy(0).Addr(), s)
	if err != nil {
		return err
	}
	p.t.Cleanup(func() { conn.Close() })
	p.clients[name] = conn
	switch {
	case conn.Session.ID == 0:
		p.say("no session, time-out %v, password %x", conn.Session.Timeout, conn.Session.Password)
	case p.names[conn.Session.ID] != "":
		p.say("session of %s, time-out %v, same password %t", p.names[conn.Session.ID], conn.Session.Timeout, string(s.Password) == string(conn.Session.Password))
	default:
		p.names[conn.Session.ID] = name
		p.say("new session, time-out %v, password of %d bytes", conn.Session.Timeout, len(conn.Session.Password))
	}
	return nil
}

// readUntil reads and notes packets up to one that is the last, or the end of the
// connection.
func (p *player) readUntil(conn *zktest.Conn, last func(zktest.Answer) bool, command string) error {
	for {
		a, err := conn.Read()
		if hungUp(err) {
			p.say("hung up")
			return nil
		}
		if err != nil {
			return err
		}
		if a.Xid == zktest.XidEvent {
			e := a.Event()
			p.say("event %s %s state=%d zxid=%s", eventName(e.Type), p.strip(e.Path), e.State, p.zxid(a.Zxid))
		} else {
			p.say("%s", p.describe(a, command))
		}
		if last(a) {
			return nil
		}
	}
}

// scripts returns the names of the scripts.
func scripts(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(scriptFolder)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if n, ok := strings.CutSuffix(e.Name(), ".txt"); ok {
			list = append(list, n)
		}
	}
	return list
}
