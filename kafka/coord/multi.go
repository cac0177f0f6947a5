package coord

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Op is one operation of a [Client.Multi]: see [CreateOp], [SetOp], [DeleteOp]
// and [CheckOp].
type Op struct {
	kind      opKind
	path      string
	data      []byte
	version   int32
	ephemeral bool
}

type opKind int

const (
	opNone opKind = iota // the zero Op is refused
	opCreate
	opSet
	opDelete
	opCheck
)

// CreateOp makes a node, an ephemeral one of the session that carries the Multi
// out or a persistent one. The node above must be there.
func CreateOp(path string, data []byte, ephemeral bool) Op {
	return Op{kind: opCreate, path: path, data: data, ephemeral: ephemeral}
}

// SetOp gives a node a value if its version is the given one, or -1.
func SetOp(path string, data []byte, version int32) Op {
	return Op{kind: opSet, path: path, data: data, version: version}
}

// DeleteOp deletes a node if its version is the given one, or -1.
func DeleteOp(path string, version int32) Op {
	return Op{kind: opDelete, path: path, version: version}
}

// CheckOp refuses the whole unless a node is there at the given version, or at
// any if that is -1.
func CheckOp(path string, version int32) Op {
	return Op{kind: opCheck, path: path, version: version}
}

// Multi carries out all operations, in order and with nothing in between, or
// none. What refuses one is a *[MultiError].
func (r *requests) Multi(ctx context.Context, ops ...Op) error {
	if len(ops) == 0 {
		return nil
	}
	coded, err := r.encode(ops)
	if err == nil {
		err = r.run(ctx, func(ctx context.Context, s *Session) error {
			return s.multi(ctx, ops, coded)
		})
	}
	if err != nil {
		return fmt.Errorf("multi of %d operations: %w", len(ops), err)
	}
	return nil
}

// encode returns operations as the library takes them.
func (r *requests) encode(ops []Op) ([]any, error) {
	coded := make([]any, len(ops))
	size := requestOverhead
	for i, op := range ops {
		if err := checkPath(op.path); err != nil {
			return nil, &MultiError{Index: i, Path: op.path, Err: err}
		}
		full := r.full(op.path)
		size += len(full) + len(op.data) + requestOverhead
		switch op.kind {
		case opCreate:
			flags := int32(zk.FlagPersistent)
			if op.ephemeral {
				flags = zk.FlagEphemeral
			}
			coded[i] = &zk.CreateRequest{Path: full, Data: op.data, Acl: openACL, Flags: flags}
		case opSet:
			coded[i] = &zk.SetDataRequest{Path: full, Data: op.data, Version: op.version}
		case opDelete:
			coded[i] = &zk.DeleteRequest{Path: full, Version: op.version}
		case opCheck:
			coded[i] = &zk.CheckVersionRequest{Path: full, Version: op.version}
		default:
			return nil, &MultiError{Index: i, Path: op.path, Err: fmt.Errorf("%w: no operation", ErrArgument)}
		}
	}
	if size > maxRequestBytes {
		return nil, fmt.Errorf("%w: request of %d bytes, at most %d are allowed", ErrArgument, size, maxRequestBytes)
	}
	return coded, nil
}

// multi runs one Multi. The answer names an error for each operation: none for
// those before the refused one, and that something else went wrong for those
// behind it.
func (s *Session) multi(ctx context.Context, ops []Op, coded []any) error {
	_, err := request(ctx, s, change, func(c *zk.Conn) (struct{}, error) {
		answers, err := c.Multi(coded...)
		for i, a := range answers {
			if a.Error != nil && i < len(ops) {
				return struct{}{}, &MultiError{Index: i, Path: ops[i].path, Err: refusal(a.Error)}
			}
		}
		return struct{}{}, err
	})
	return err
}
