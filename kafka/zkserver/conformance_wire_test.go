package zkserver_test

import (
	"fmt"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/zktest"
)

// What is no request ends its connection and no more: the session lives, and so
// does the server.
func TestConformanceMalformedFrames(t *testing.T) {
	frame := func(b zktest.Fields) []byte { return append(zktest.Fields{}.Int(int32(len(b))), b...) }
	header := func(op zktest.Op) zktest.Fields { return zktest.Fields{}.Int(1).Int(int32(op)) }
	for name, sent := range map[string][]byte{
		"negative length":           zktest.Fields{}.Int(-1),
		"length beyond the limit":   zktest.Fields{}.Int(1 << 20),
		"huge length":               zktest.Fields{}.Int(1<<31 - 1),
		"empty frame":               frame(nil),
		"frame shorter than a head": frame(zktest.Fields{}.Int(1)),
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
				a := open(t, c, anyone)
				a.create("/e", "", 1)
				if err := a.SendRaw(sent); err != nil {
					t.Fatal(err)
				}
				a.ended()
				if b := reopen(t, c, a.Session); !b.exists("/e") {
					t.Error("its session is gone")
				}
			})
		})
	}
	for name, body := range map[string]zktest.Fields{
		"create without a body":        header(zktest.OpCreate),
		"create that ends in its path": append(header(zktest.OpCreate), zktest.Fields{}.Int(100).String("/x")...),
		"path of a negative length":    append(header(zktest.OpGetData), zktest.Fields{}.Int(-7).Bool(false)...),
		"path of no length":            append(header(zktest.OpGetData), zktest.Fields{}.Int(-1).Bool(false)...),
		"path longer than the frame":   append(header(zktest.OpGetData), zktest.Fields{}.Int(1<<30).Bool(false)...),
		"data longer than the frame":   append(header(zktest.OpSetData), zktest.Fields{}.String("/x").Int(1<<30)...),
		"list longer than the frame":   append(header(zktest.OpSetWatches), zktest.Fields{}.Long(0).Int(1<<30)...),
		"list of a negative length":    append(header(zktest.OpSetWatches), zktest.Fields{}.Long(0).Int(-5).Int(0).Int(0)...),
		"multi without an end":         append(header(zktest.OpMulti), zktest.Fields{}.Int(int32(zktest.OpCheck)).Bool(false).Int(-1).String("/").Int(-1)...),
		"multi without a body":         header(zktest.OpMulti),
		"exists without its watch":     append(header(zktest.OpExists), zktest.Fields{}.String("/")...),
	} {
		t.Run(name, func(t *testing.T) {
			answers := make(map[string]string)
			zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
				a := open(t, c, anyone)
				a.create("/e", "", 1)
				if err := a.SendFrame(body); err != nil {
					t.Fatal(err)
				}
				answers[c.Kind.String()] = whatCame(t, a)
				if b := reopen(t, c, a.Session); !b.exists("/e") {
					t.Error("its session is gone")
				}
			})
			sameAnswers(t, answers)
		})
	}
}

// whatCame reads the answer to a request and the one to a sync behind it.
func whatCame(t *testing.T, a *raw) string {
	t.Helper()
	var came []string
	if err := a.Send(2, zktest.OpSync, zktest.Fields{}.String("/")); err != nil && !hungUp(err) {
		t.Fatal(err)
	}
	for {
		answer, err := a.Read()
		switch {
		case hungUp(err):
			return strings.Join(append(came, "hung up"), ", ")
		case err != nil:
			t.Fatal(err)
		case answer.Xid == 2:
			return strings.Join(append(came, "goes on"), ", ")
		}
		came = append(came, codeName(answer.Code))
	}
}

func sameAnswers(t *testing.T, answers map[string]string) {
	t.Helper()
	embedded, real := answers["embedded"], answers["real"]
	if real != "" && embedded != real {
		t.Errorf("the embedded server answers %q, the real one %q", embedded, real)
	}
	t.Logf("embedded: %s; real: %s", embedded, real)
}

// First packets that are none.
func TestConformanceMalformedHandshakes(t *testing.T) {
	frame := func(b zktest.Fields) []byte { return append(zktest.Fields{}.Int(int32(len(b))), b...) }
	old := zktest.Fields{}.Int(0).Long(0).Int(5000).Long(0).Buffer(make([]byte, 16))
	for name, sent := range map[string][]byte{
		"of an old client, without the word about reading only": frame(old),
		"that would do with reading only":                       frame(old[:len(old):len(old)].Bool(true)),
		"without a password":                                    frame(zktest.Fields{}.Int(0).Long(0).Int(5000).Long(0).Buffer(nil).Bool(false)),
		"with a long password":                                  frame(zktest.Fields{}.Int(0).Long(0).Int(5000).Long(0).Buffer(make([]byte, 100)).Bool(false)),
		"of another version":                                    frame(zktest.Fields{}.Int(9).Long(0).Int(5000).Long(0).Buffer(make([]byte, 16)).Bool(false)),
		"that is cut off":                                       frame(old[:20]),
		"that is empty":                                         frame(nil),
		"with more behind it":                                   frame(append(old[:len(old):len(old)].Bool(false), "more"...)),
		"of a negative length":                                  zktest.Fields{}.Int(-2),
		"with a password longer than the frame":                 frame(zktest.Fields{}.Int(0).Long(0).Int(5000).Long(0).Int(1 << 30)),
	} {
		t.Run(name, func(t *testing.T) {
			answers := make(map[string]string)
			zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
				conn, err := zktest.Dial(c.Proxy(0).Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.SendRaw(sent); err != nil {
					t.Fatal(err)
				}
				b, err := conn.ReadFrame()
				switch {
				case hungUp(err):
					answers[c.Kind.String()] = "hung up"
				case err != nil:
					t.Fatal(err)
				default:
					r := zktest.NewReader(b)
					version, timeout, id, password := r.Int(), r.Int(), r.Long(), r.Buffer()
					answers[c.Kind.String()] = fmt.Sprintf("version %d, time-out %d, session %t, password of %d bytes, %d bytes more", version, timeout, id != 0, len(password), len(r.Rest()))
				}
			})
			sameAnswers(t, answers)
		})
	}
}

// The limit is on the frame, and counts what is in it beside the data.
func TestConformanceLargeData(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/n", "", 0)
		// The largest frame of the real server, whose limit is 0xfffff.
		const limit = 0xfffff
		overhead := 8 + len(zktest.Fields{}.String(a.path("/n")).Buffer([]byte{}).Int(-1))
		data := strings.Repeat("x", limit-overhead)
		a.set("/n", data)
		got := a.code(codeOK, zktest.OpGetData, zktest.Fields{}.String(a.path("/n")).Bool(false))
		if s := zktest.NewReader(got.Body).String(); s != data {
			t.Errorf("%d bytes came back of %d", len(s), len(data))
		}
		if err := a.Send(9, zktest.OpSetData, zktest.Fields{}.String(a.path("/n")).Buffer([]byte(data+"x")).Int(-1)); err != nil && !hungUp(err) {
			t.Fatal(err)
		}
		a.ended()
		b := reopen(t, c, a.Session)
		if got := b.call(zktest.OpExists, zktest.Fields{}.String(a.path("/n")).Bool(false)); zktest.NewReader(got.Body).Stat().DataLength != int32(len(data)) {
			t.Error("the set beyond the limit was carried out")
		}
	})
}

// Many children make an answer larger than any request may be.
func TestConformanceManyChildren(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/p", "", 0)
		const nodes, perMulti = 6000, 500
		name := strings.Repeat("n", 190)
		for range nodes / perMulti {
			var f zktest.Fields
			for range perMulti {
				f = append(f.Int(int32(zktest.OpCreate)).Bool(false).Int(-1), createBody(a.path("/p/"+name), "", 2)...)
			}
			a.code(codeOK, zktest.OpMulti, f.Int(-1).Bool(true).Int(-1))
		}
		got := a.code(codeOK, zktest.OpGetChildren, zktest.Fields{}.String(a.path("/p")).Bool(false))
		if list := zktest.NewReader(got.Body).Strings(); len(list) != nodes || len(got.Body) < 1<<20 {
			t.Errorf("%d children in %d bytes", len(list), len(got.Body))
		}
	})
}
