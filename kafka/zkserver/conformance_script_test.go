package zkserver_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

func (p *player) zxid(z int64) string {
	if z <= 0 {
		return strconv.FormatInt(z, 10)
	}
	return fmt.Sprintf("%+d", z-p.base)
}

// strip takes the script's own node off a path.
func (p *player) strip(path string) string {
	switch rest, ok := strings.CutPrefix(path, p.root()); {
	case ok && rest == "":
		return "/"
	case ok:
		return rest
	default:
		return "=" + path
	}
}

// describe writes an answer down.
func (p *player) describe(a zktest.Answer, command string) string {
	text := "zxid=" + p.zxid(a.Zxid)
	switch a.Xid {
	case zktest.XidPing:
		text += " ping"
	case zktest.XidAuth:
		text += " auth"
	}
	if a.Code != codeOK {
		text += " " + codeName(a.Code)
	}
	if len(a.Body) == 0 {
		return text
	}
	r := zktest.NewReader(a.Body)
	text += p.body(strings.TrimSuffix(command, "w"), r)
	if r.Err() != nil {
		text += " " + r.Err().Error()
	}
	if n := len(r.Rest()); n > 0 {
		text += fmt.Sprintf(" and %d bytes more", n)
	}
	return text
}

func (p *player) body(command string, r *zktest.Reader) string {
	switch command {
	case "create", "sync":
		return " " + p.strip(r.String())
	case "create2", "createcontainer", "createttl":
		return " " + p.strip(r.String()) + p.stat(r)
	case "exists", "set", "setacl":
		return p.stat(r)
	case "get":
		return data(r) + p.stat(r)
	case "children":
		return names(r)
	case "children2":
		return names(r) + p.stat(r)
	case "getephemerals":
		list := r.Strings()
		for i := range list {
			list[i] = p.strip(list[i])
		}
		slices.Sort(list)
		return " " + fmt.Sprint(list)
	case "childrennumber", "addwatch":
		return fmt.Sprintf(" %d", r.Int())
	case "whoami":
		var list []string
		for n := r.Int(); n > 0 && r.Err() == nil; n-- {
			list = append(list, r.String()+":"+r.String())
		}
		slices.Sort(list)
		return " " + fmt.Sprint(list)
	case "getacl":
		text := ""
		for n := r.Int(); n > 0 && r.Err() == nil; n-- {
			text += fmt.Sprintf(" %d:%s:%s", r.Int(), r.String(), r.String())
		}
		return text + p.stat(r)
	case "multi", "multiread":
		return p.multi(r)
	default:
		return "" // what is there is counted
	}
}

func data(r *zktest.Reader) string {
	b := r.Buffer()
	if b == nil {
		return " nil"
	}
	return " " + strconv.Quote(string(b))
}

func names(r *zktest.Reader) string {
	list := r.Strings()
	slices.Sort(list) // the real server's order is that of a hash table
	return " " + fmt.Sprint(list)
}

func (p *player) multi(r *zktest.Reader) string {
	text := ""
	for r.Err() == nil {
		op, done, code := r.Int(), r.Bool(), r.Int()
		if done {
			return text + fmt.Sprintf(" | end %d %d", op, code)
		}
		text += " |"
		if code != 0 {
			text += " " + codeName(code)
		}
		switch kind := zktest.Op(op); kind {
		case -1:
			text += " error " + codeName(r.Int())
		case zktest.OpCreate:
			text += " create" + p.body("create", r)
		case zktest.OpCreate2:
			text += " create2" + p.body("create2", r)
		case zktest.OpSetData:
			text += " set" + p.stat(r)
		case zktest.OpGetData:
			text += " get" + p.body("get", r)
		case zktest.OpGetChildren:
			text += " children" + p.body("children", r)
		case zktest.OpDelete, zktest.OpCheck:
			text += " " + kind.String()
		default:
			return text + fmt.Sprintf(" result of kind %d", op)
		}
	}
	return text
}

// stat writes a stat down, without its times, which must be of now.
func (p *player) stat(r *zktest.Reader) string {
	s := r.Stat()
	if r.Err() != nil {
		return ""
	}
	text := fmt.Sprintf(" czxid=%s mzxid=%s pzxid=%s version=%d cversion=%d aversion=%d", p.zxid(s.Czxid), p.zxid(s.Mzxid), p.zxid(s.Pzxid), s.Version, s.Cversion, s.Aversion)
	if s.EphemeralOwner != 0 {
		owner := p.names[s.EphemeralOwner]
		if owner == "" {
			owner = fmt.Sprintf("%#x", uint64(s.EphemeralOwner))
		}
		text += " owner=" + owner
	}
	text += fmt.Sprintf(" length=%d children=%d", s.DataLength, s.NumChildren)
	for _, ms := range []int64{s.Ctime, s.Mtime} {
		if at := time.UnixMilli(ms); at.Before(p.begin.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			text += fmt.Sprintf(" made or changed at %v", at)
		}
	}
	if s.Mtime < s.Ctime {
		text += " changed before it was made"
	}
	return text
}

var codeNames = map[int32]string{
	codeSystemError: "SystemError", codeRuntimeInconsistency: "RuntimeInconsistency", codeMarshallingError: "MarshallingError",
	codeUnimplemented: "Unimplemented", codeBadArguments: "BadArguments", codeNoNode: "NoNode", codeNoAuth: "NoAuth",
	codeBadVersion: "BadVersion", codeNoChildrenForEphemerals: "NoChildrenForEphemerals", codeNodeExists: "NodeExists",
	codeNotEmpty: "NotEmpty", codeSessionExpired: "SessionExpired", codeInvalidACL: "InvalidACL", codeAuthFailed: "AuthFailed",
	codeSessionMoved: "SessionMoved", codeNoWatcher: "NoWatcher",
}

func codeName(code int32) string {
	if n := codeNames[code]; n != "" {
		return n
	}
	return "code " + strconv.Itoa(int(code))
}

func eventName(kind int32) string {
	switch kind {
	case eventCreated:
		return "created"
	case eventDeleted:
		return "deleted"
	case eventDataChanged:
		return "data changed"
	case eventChildrenChanged:
		return "children changed"
	default:
		return "of type " + strconv.Itoa(int(kind))
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
