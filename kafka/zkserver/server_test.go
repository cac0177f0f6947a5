package zkserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"tick":           {TickTime: time.Microsecond},
		"negative tick":  {TickTime: -time.Second},
		"bounds":         {MinSessionTimeout: time.Minute, MaxSessionTimeout: time.Second},
		"least time-out": {MinSessionTimeout: time.Microsecond},
		"large time-out": {MaxSessionTimeout: 1000 * time.Hour},
		"small requests": {MaxRequestBytes: 100},
		"large requests": {MaxRequestBytes: 1 << 30},
		"no requests":    {MaxRequestBytes: -1},
	} {
		if cfg.Check() == nil {
			t.Errorf("%s: %+v is legal", name, cfg)
		}
		cfg.Listen = "127.0.0.1:0"
		if _, err := Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: it runs", name)
		}
	}
	cfg, err := Config{TickTime: time.Second}.withDefaults()
	if err != nil || cfg.MinSessionTimeout != 2*time.Second || cfg.MaxSessionTimeout != 20*time.Second {
		t.Errorf("%+v, %v", cfg, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was cancelled: %v", err)
	}
	l := start(t, Config{})
	if _, err := Start(t.Context(), Config{Listen: l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "give another address") {
		t.Errorf("an address that is taken: %v", err)
	}
}

func TestClose(t *testing.T) {
	s := start(t, Config{})
	c := open(t, s)
	halfOpen := dial(t, s) // says nothing
	c.must(opCreate, createBody("/n", "", 0))
	begun := time.Now()
	stop(t, s)
	stop(t, s)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("close took %v", took)
	}
	c.ended()
	if _, err := halfOpen.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open")
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open")
	}
	if s.Err() != nil || s.Sessions() != nil || s.Requests() != nil || !errors.Is(s.Drop(1), ErrClosed) {
		t.Error("methods after Close")
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("it listens")
	}
}

// TestCloseAnswers: what was sent before the end is carried out and answered, or
// the connection ends; nothing is answered that is not kept.
func TestCloseAnswers(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{DataDir: dir})
	c := open(t, s)
	const sent = 200
	go func() {
		for i := range sent {
			if _, err := c.conn.Write(endFrame(append(appendInt32(appendInt32(make([]byte, 4), int32(i)), opCreate), createBody(number(i), "", 0)...))); err != nil {
				return
			}
		}
	}()
	first, err := c.read()
	if err != nil || first.code != codeOK {
		t.Fatal(first, err)
	}
	go stop(t, s)
	answered := 1
	for {
		r, err := c.read()
		if err != nil {
			break
		}
		if r.code != codeOK || r.xid != int32(answered) {
			t.Fatalf("answer %d: %+v", answered, r)
		}
		answered++
	}
	<-s.Done()
	again := open(t, start(t, Config{DataDir: dir}))
	for i := range answered {
		if !again.exists(number(i)) {
			t.Fatalf("%d of %d creates that were answered are lost", i, answered)
		}
	}
}

func TestMaxConnections(t *testing.T) {
	s := start(t, Config{MaxConnections: 2})
	a, b := open(t, s), dial(t, s)
	eventually(t, "both are served", func() bool { return s.connections() == 2 })
	third := dial(t, s)
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Fatal("three are served")
	}
	b.Close()
	eventually(t, "there is room again", func() bool { return s.connections() == 1 })
	if c := open(t, s); c.id == 0 || c.id == a.id {
		t.Errorf("session %#x", c.id)
	}
}

// TestOutstanding: a client that sends and never reads is not read from for
// ever, and ends with its session; others are served.
func TestOutstanding(t *testing.T) {
	s := start(t, Config{TickTime: 100 * time.Millisecond})
	c, other := open(t, s), open(t, s)
	other.must(opCreate, createBody("/n", strings.Repeat("x", 500_000), 0))
	body := pathWatch("/n", false)
	frame := endFrame(append(appendInt32(appendInt32(make([]byte, 4), int32(1)), opGetData), body...))
	many := bytes.Repeat(frame, 5*maxOutstanding)
	go c.conn.Write(many)
	eventually(t, "the session of who does not read ends", func() bool {
		other.must(opPing, nil)
		for _, x := range s.Sessions() {
			if x.ID == c.id {
				return false
			}
		}
		return true
	})
	if n := s.Requests()["getData"]; n > 2*maxOutstanding {
		t.Errorf("%d requests were carried out for a client that reads nothing", n)
	}
}

func TestControls(t *testing.T) {
	s := start(t, Config{})
	a, b := open(t, s), open(t, s)
	a.must(opCreate, createBody("/e", "", modeEphemeral))
	b.must(opExists, pathWatch("/e", true))
	got := s.Sessions()
	if len(got) != 2 || got[0].ID > got[1].ID || !got[0].Connected || got[0].Timeout != 10*time.Second {
		t.Fatalf("%+v", got)
	}
	if n := s.Requests(); n["connect"] != 2 || n["create"] != 1 || n["exists"] != 1 || n["getData"] != 0 {
		t.Errorf("%v", n)
	}
	if err := s.Drop(a.id); err != nil {
		t.Fatal(err)
	}
	a.ended()
	if err := s.Drop(a.id); !errors.Is(err, ErrNotConnected) {
		t.Errorf("%v", err)
	}
	again := join(t, s, a)
	if again.id != a.id || !again.exists("/e") {
		t.Fatalf("session %#x of %#x", again.id, a.id)
	}
	if err := s.Expire(a.id); err != nil {
		t.Fatal(err)
	}
	again.ended()
	if b.exists("/e") || len(b.events) != 1 || b.events[0] != (event{eventDeleted, "/e"}) {
		t.Errorf("events %+v", b.events)
	}
	if join(t, s, a).id != 0 {
		t.Error("the session lives")
	}
	for _, err := range []error{s.Expire(a.id), s.Drop(a.id)} {
		if !errors.Is(err, ErrNoSession) {
			t.Errorf("%v", err)
		}
	}
}

// TestDelayWatches: an event comes late, and no answer that is newer comes
// before it.
func TestDelayWatches(t *testing.T) {
	s := start(t, Config{})
	a, b := open(t, s), open(t, s)
	a.must(opCreate, createBody("/n", "", 0))
	b.must(opGetData, pathWatch("/n", true))
	const delay = 300 * time.Millisecond
	s.DelayWatches(delay)
	begun := time.Now()
	a.must(opSetData, setBody("/n", "new", -1))
	r := b.must(opGetData, pathWatch("/n", true))
	if took := time.Since(begun); took < delay {
		t.Errorf("the answer came after %v", took)
	}
	if d := (&decoder{b: r.body}); len(b.events) != 1 || string(d.buffer()) != "new" {
		t.Errorf("events %v before the answer %q", b.events, r.body)
	}
	s.DelayWatches(0)
	a.must(opSetData, setBody("/n", "newer", -1))
	b.must(opPing, nil)
	if len(b.events) != 1 {
		t.Errorf("events %v", b.events)
	}
}

// TestMultiChangesNothing: a multi that fails leaves no trace but its number.
func TestMultiChangesNothing(t *testing.T) {
	s := start(t, Config{})
	c := open(t, s)
	c.must(opCreate, createBody("/p", "old", 0))
	c.must(opCreate, createBody("/p/e", "", modeEphemeral))
	c.must(opCreateContainer, createBody("/c", "", modeContainer))
	c.must(opGetChildren, pathWatch("/p", true))
	now := func() (out string) {
		if err := s.call(func() {
			zxid := s.state.tree.zxid
			s.state.tree.zxid = 0
			out = image(s.state)
			s.state.tree.zxid = zxid
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := now()
	all := []multiOp{
		{opCreate, createBody("/p/s-", "", modePersistentSequential)},
		{opCreate2, createBody("/p/s-", "", modeEphemeralSequential)},
		{opSetData, setBody("/p", "new", 0)},
		{opSetData, setBody("/p", "newer", 1)},
		{opDelete, pathVersion("/p/e", 0)},
		{opDelete, pathVersion("/c", -1)},
		{opCreateContainer, createBody("/c", "", modeContainer)},
		{opCheck, pathVersion("/missing", -1)},
		{opDelete, pathVersion("/p", -1)},
	}
	r := c.must(opMulti, multiBody(all...))
	want := appendMultiErrors(nil, len(all), 7, codeNoNode)
	if !bytes.Equal(r.body, want) {
		t.Errorf("answer %x, want %x", r.body, want)
	}
	if now() != before || len(c.events) != 0 {
		t.Errorf("something has changed; events %v", c.events)
	}
	c.must(opMulti, multiBody(all[:7]...))
	c.must(opPing, nil)
	if !c.exists("/p/s-0000000001") || !c.exists("/p/s-0000000002") || c.exists("/p/e") {
		t.Error("the same without its error does nothing")
	}
}

// TestServerStandsStill: sessions outlive a server that stands still for longer than
// their time-outs, as on a disk that does not answer: nobody could be heard.
func TestServerStandsStill(t *testing.T) {
	s := start(t, Config{TickTime: 20 * time.Millisecond})
	c := open(t, s)
	c.must(opCreate, createBody("/e", "", modeEphemeral))
	timeout := s.Sessions()[0].Timeout
	// In the core, which does nothing else meanwhile.
	inCore := func(f func()) {
		done := make(chan struct{})
		s.queue <- item{call: func() { f(); close(done) }}
		<-done
	}
	inCore(func() { time.Sleep(3 * timeout) }) // what is tested is that so much time passes
	stood, ticked := s.elapsed(), time.Duration(0)
	eventually(t, "a tick", func() bool {
		inCore(func() { ticked = s.ticked })
		return ticked >= stood
	})
	if !c.exists("/e") {
		t.Error("the session has ended")
	}
}

func TestContainers(t *testing.T) {
	s := start(t, Config{})
	c := open(t, s)
	c.must(opCreateContainer, createBody("/used", "", modeContainer))
	c.must(opCreate, createBody("/used/a", "", 0))
	c.must(opDelete, pathVersion("/used/a", -1))
	c.must(opCreateContainer, createBody("/never", "", modeContainer))
	c.must(opCreateContainer, createBody("/full", "", modeContainer))
	c.must(opCreate, createBody("/full/a", "", 0))
	if err := s.call(s.removeContainers); err != nil {
		t.Fatal(err)
	}
	if c.exists("/used") || !c.exists("/never") || !c.exists("/full") {
		t.Error("what is left: used, never, full:", c.exists("/used"), c.exists("/never"), c.exists("/full"))
	}
}

// TestMultiReadIsBounded: a request of a few hundred bytes cannot ask for more than
// the server has room for, by naming one large node again and again.
func TestMultiReadIsBounded(t *testing.T) {
	const large = 1 << 19
	c := open(t, start(t, Config{}))
	c.must(opCreate, createBody("/large", strings.Repeat("x", large), 0))
	reads := make([]multiOp, maxMultiReadBytes/large)
	for i := range reads {
		reads[i] = multiOp{opGetData, pathWatch("/large", false)}
	}
	if r := c.must(opMultiRead, multiBody(reads...)); len(r.body) < maxMultiReadBytes {
		t.Errorf("answer of %d bytes to %d reads of %d", len(r.body), len(reads), large)
	}
	c.fails(codeMarshalling, opMultiRead, multiBody(append(reads, reads[0])...))
	c.must(opMultiRead, multiBody(reads[0]))
}

// TestIdentities: what a client proves stands in for "auth".
func TestIdentities(t *testing.T) {
	s := start(t, Config{})
	c := open(t, s)
	auth := func(scheme, proof string) []byte {
		return appendBuffer(appendString(appendInt32(nil, int32(0)), scheme), []byte(proof))
	}
	withACL := func(path string, list ...acl) []byte {
		return appendInt32(appendACLs(appendBuffer(appendString(nil, path), nil), list), modePersistent)
	}
	mine := acl{permAll, authID{"auth", ""}}
	c.fails(codeInvalidACL, opCreate, withACL("/n", mine))
	c.must(opAuth, auth("digest", "user:secret"))
	c.must(opAuth, auth("digest", "user:secret"))
	c.must(opCreate, withACL("/n", mine, mine))
	d := decoder{b: c.must(opGetACL, appendString(nil, "/n")).body}
	// echo -n user:secret | openssl sha1 -binary | base64
	if got := d.acls(); len(got) != 1 || got[0].id.scheme != "digest" || got[0].id.id != "user:"+sha1Secret {
		t.Errorf("%+v", got)
	}
	if r := c.must(opWhoAmI, nil); !bytes.Contains(r.body, []byte("user")) || bytes.Contains(r.body, []byte(sha1Secret)) {
		t.Errorf("%q", r.body)
	}
	for i := range maxAuthIDs - 1 {
		c.must(opAuth, auth("digest", number(i)))
	}
	c.fails(codeAuthFailed, opAuth, auth("digest", "one too many"))
	c.ended()
}

const sha1Secret = "5w9W4eL3797Y4Wq8AcKUPPk8ha4="

func TestValidPath(t *testing.T) {
	for _, p := range []string{"/", "/a", "/a/b", "/...", "/a.", "/.a", "/a..b", "/ü", "/a b", "/\uf900", "/\uffef"} {
		if !validPath(p) {
			t.Errorf("%q is refused", p)
		}
	}
	for _, p := range []string{
		"", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/.", "/a/../b", "/a\x00", "/\x01", "/\x1f", "/\x7f", "/\u009f", "/\ue000", "/\uf8ff", "/\ufff0", "/\uffff", "/\xff", "/😀",
	} {
		if validPath(p) {
			t.Errorf("%q is taken", p)
		}
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[authID]bool{
		anyone: true, {"world", "x"}: false, {"digest", "a:b"}: true, {"digest", "a"}: false, {"digest", "a:b:c"}: false,
		{"ip", "127.0.0.1"}: true, {"ip", "10.0.0.0/8"}: true, {"ip", "x"}: false, {"x509", "x"}: false, {"", ""}: false,
	} {
		if validID(id) != want {
			t.Errorf("%+v: %v", id, !want)
		}
	}
}

// TestWords: a word in place of a handshake, also when its sender has closed its
// side already, and words that are known and refused.
func TestWords(t *testing.T) {
	s := start(t, Config{})
	for word, want := range map[string]string{"ruok": "imok", "conf": "conf is not executed because it is not in the whitelist.\n"} {
		c := dial(t, s).(*net.TCPConn)
		if _, err := io.WriteString(c, word); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", word, b, err)
		}
	}
}
