package schema_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"kafkalab/kafka/wire"
)

// cutter passes connections on to a broker. The answer to an AckedProduce, while cuts is
// more than 0, is kept back and the connection closed instead.
type cutter struct {
	addr       string
	cuts, made atomic.Int64
}

func newCutter(t testing.TB, broker string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{addr: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.DialTimeout("tcp", broker, patience)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			var produced atomic.Bool
			all.Go(func() {
				defer out.Close()
				_, _ = io.Copy(out, watchRequests(in, &produced))
			})
			all.Go(func() {
				defer in.Close()
				defer out.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := out.Read(buf)
					if n > 0 && produced.Load() && p.cuts.Load() > 0 {
						p.cuts.Add(-1)
						p.made.Add(1)
						return
					}
					if n > 0 {
						if _, err := in.Write(buf[:n]); err != nil {
							return
						}
					}
					if err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// watchRequests notices an AckedProduce among the requests: each is written with one
// write, so it begins what is read.
func watchRequests(in io.Reader, produced *atomic.Bool) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		if n >= 6 && bytes.Equal(p[4:6], []byte{0, byte(wire.TypeAckedProduce)}) {
			produced.Store(true)
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
