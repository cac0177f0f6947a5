package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// readRequest reads one frame; it returns false at the end of the connection.
func readRequest(nc net.Conn) (wire.Type, []byte, bool) {
	var size [wire.SizeSize]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return 0, nil, false
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		return 0, nil, false
	}
	typ, body, err := wire.SplitRequest(frame)
	return typ, body, err == nil
}

// answering serves every request with what answer returns for it.
func answering(answer func(wire.Type, []byte) []byte) func(net.Conn) {
	return func(nc net.Conn) {
		for {
			typ, body, ok := readRequest(nc)
			if !ok {
				return
			}
			if _, err := nc.Write(answer(typ, body)); err != nil {
				return
			}
		}
	}
}

func response(code wire.Code, payload []byte) []byte {
	return append(wire.AppendResponseHeader(nil, code, len(payload)), payload...)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, addr string, cfg client.Config) *client.Conn {
	t.Helper()
	c, err := client.Dial(testContext(t), addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}
