package broker

import (
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/wire"
)

// TestPanicClosesItsConnectionOnly: a broken invariant is counted and ends the
// connection that met it; the broker goes on.
func TestPanicClosesItsConnectionOnly(t *testing.T) {
	files := vfs.NewMem(time.Now)
	srv := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	good, bad := connect(t, srv), connect(t, srv)
	good.send(wire.AppendProduce(nil, "a", 0, ackedSet))
	good.send(wire.AppendFetch(nil, from("a", 0)))
	good.want(0, ackedSet)
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRead {
			panic("as no code does")
		}
		return nil
	})
	bad.send(wire.AppendFetch(nil, from("a", 0)))
	bad.wantClosed()
	files.SetHook(nil)
	good.send(wire.AppendFetch(nil, from("a", 0)))
	good.want(0, ackedSet)
	if n := testCounter(t, srv, "kafka_broker_panics_total"); n != 1 {
		t.Errorf("%v panics are counted, want 1", n)
	}
}
