package zkserver

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// bare returns a core without goroutines, and a way to hand it requests. What it
// sends is thrown away.
func bare(t testing.TB) (*Server, func(op opcode, body []byte)) {
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close() })
	s := &Server{began: time.Now(), cfg: cfg, log: cfg.Logger, core: newCore(), conns: make(map[*conn]struct{})}
	var c *conn
	return s, func(op opcode, body []byte) {
		if c == nil || c.session == nil || s.state.sessions[c.session.id] == nil {
			c = newConn(s, tcp.(*net.TCPConn))
			c.addr = netip.MustParseAddr("127.0.0.1")
			s.handle(item{c: c, hello: true, body: appendBuffer(appendInt64(appendInt32(appendInt64(appendInt32(nil, int32(0)), 0), int32(5000)), 0), nil)})
		}
		s.handle(item{c: c, op: op, xid: 1, body: body})
		for _, p := range s.pending {
			if p.kind != sendEvent && len(p.frame) < frameHeader {
				t.Fatalf("answer of %d bytes", len(p.frame))
			}
		}
		s.pending = s.pending[:0]
	}
}

// FuzzRequests feeds the core with two requests of any kind and content. It
// never panics, and what it keeps is always what its log and its snapshot say.
func FuzzRequests(f *testing.F) {
	f.Add(int32(opCreate), createBody("/a", "x", modeEphemeralSequential), int32(opGetData), pathWatch("/a", true))
	f.Add(int32(opMulti), multiBody(multiOp{opCreate, createBody("/a", "x", 0)}, multiOp{opCheck, pathVersion("/a", 0)}, multiOp{opDelete, pathVersion("/a", 0)}), int32(opExists), pathWatch("/a", true))
	f.Add(int32(opCreate2), createBody("/p/b", "", modePersistentSequential), int32(opDelete), pathVersion("/p", -1))
	f.Add(int32(opSetACL), appendInt32(appendACLs(appendString(nil, "/p"), readACL), int32(-1)), int32(opGetACL), appendString(nil, "/p"))
	f.Add(int32(opSetWatches), appendStrings(appendStrings(appendStrings(appendInt64(nil, 1), []string{"/p"}), nil), []string{"/x"}), int32(opSetData), setBody("/p", "y", 0))
	f.Add(int32(opSetWatches2), appendStrings(appendStrings(appendStrings(appendStrings(appendStrings(appendInt64(nil, 1), nil), nil), nil), []string{"/p"}), []string{"/"}), int32(opCreate), createBody("/p/q", "", 0))
	f.Add(int32(opMultiRead), multiBody(multiOp{opGetData, pathWatch("/p", true)}, multiOp{opGetChildren, pathWatch("/", true)}), int32(opCloseSession), []byte(nil))
	f.Add(int32(opAddWatch), appendInt32(appendString(nil, "/p"), int32(1)), int32(opRemoveWatches), appendInt32(appendString(nil, "/p"), int32(3)))
	f.Add(int32(opAuth), appendBuffer(appendString(appendInt32(nil, int32(0)), "digest"), []byte("a:b")), int32(opWhoAmI), []byte(nil))
	f.Add(int32(opGetEphemerals), appendString(nil, "/"), int32(99), []byte("unknown"))
	f.Fuzz(func(t *testing.T, op1 int32, body1 []byte, op2 int32, body2 []byte) {
		s, request := bare(t)
		fs := vfs.NewMem(nil)
		var err error
		if s.store, _, err = openStore(fs, "/d", quiet()); err != nil {
			t.Fatal(err)
		}
		request(opCreate, createBody("/p", "x", 0))
		request(opcode(op1), body1)
		request(opcode(op2), body2)
		request(opcode(op1), body1)
		if err := s.store.close(); err != nil {
			t.Fatal(err)
		}
		again, st, err := openStore(fs, "/d", quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer again.close()
		if image(st) != image(s.state) {
			t.Fatal("the log tells of another state")
		}
		restored, err := decodeSnapshot([]byte(image(s.state)))
		if err != nil || image(restored) != image(s.state) {
			t.Fatalf("the snapshot is of another state: %v", err)
		}
		if restored.tree.dataBytes != s.state.tree.dataBytes {
			t.Fatalf("%d bytes counted, %d there", s.state.tree.dataBytes, restored.tree.dataBytes)
		}
	})
}

// FuzzTransactionLog reads any bytes as a log. What it accepts is a state, and
// reading that again gives the same.
func FuzzTransactionLog(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	st := newState()
	b := []byte(logMagic)
	for range 5 {
		b = appendRecord(b, int64(len(b)), randomTxn(st, rng))
	}
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add(append(bytes.Clone(b), b[len(logMagic):]...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem(nil)
		writeFile(t, fs, "/d/log.0000000000000001", b)
		s, st, err := openStore(fs, "/d", quiet())
		if err != nil {
			return
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		again, got, err := openStore(fs, "/d", quiet())
		if err != nil || image(got) != image(st) {
			t.Fatalf("read again: %v", err)
		}
		again.close()
	})
}

// FuzzTransaction reads any bytes as a transaction, and writes it as it was.
func FuzzTransaction(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	st := newState()
	for range 10 {
		f.Add(appendTxn(nil, randomTxn(st, rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := decodeTxn(b)
		if err != nil {
			return
		}
		y, err := decodeTxn(appendTxn(nil, x))
		if err != nil || !bytes.Equal(appendTxn(nil, x), appendTxn(nil, y)) {
			t.Fatalf("%+v became %+v, %v", x, y, err)
		}
		x.zxid = 1
		_ = newState().replay(x) // any error will do, a panic will not
	})
}

// FuzzSnapshot reads any bytes as a snapshot, with a checksum that is right.
func FuzzSnapshot(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 3))
	st := newState()
	f.Add([]byte(image(st))[len(snapshotMagic):])
	for range 30 {
		randomTxn(st, rng)
	}
	f.Add([]byte(image(st))[len(snapshotMagic):])
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := decodeSnapshot(b); err == nil {
			t.Fatal("a snapshot without its beginning")
		}
		if len(b) < 4 {
			return
		}
		st, err := decodeSnapshot(sealed(append([]byte(snapshotMagic), b[:len(b)-4]...)))
		if err != nil {
			return
		}
		again, err := decodeSnapshot([]byte(image(st)))
		if err != nil || image(again) != image(st) {
			t.Fatalf("written and read again: %v", err)
		}
	})
}
