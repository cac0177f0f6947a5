// Package avroshape tells where an Avro datum ends, and how many values it holds, without
// making any of them.
package avroshape

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Shape is as much of an Avro schema as it takes to tell where a datum ends: a container
// holds data back to back, without their lengths, and a reader that wants payloads back
// need not look into them. It does not change, and may be used by several goroutines.
type Shape struct {
	kind  kind
	size  int64    // of fixed, in bytes; how many symbols an enum has
	parts []*Shape // the fields of a record that have bytes, the branches of a union, the items of an array or map
	// values is how many values a datum is, beside those in parts: itself, and of a record
	// those of its fields that have no bytes.
	values int64
}

type kind int

const (
	nothing kind = iota // it has no bytes
	boolean
	integer
	long
	enum
	fixed // float, double, fixed
	text  // bytes, string
	record
	union
	array
	mapping
	reference // to a type that is defined behind it: its only part
)

var primitives = map[string]Shape{
	"null": {values: 1}, "boolean": {kind: boolean, values: 1}, "int": {kind: integer, values: 1}, "long": {kind: long, values: 1},
	"float": {kind: fixed, size: 4, values: 1}, "double": {kind: fixed, size: 8, values: 1},
	"bytes": {kind: text, values: 1}, "string": {kind: text, values: 1},
}

// maxDepth bounds how deep schemas, and data of those that contain themselves, are
// nested.
const maxDepth = 1000

// Parse reads the text of a schema. A type may be named only behind its definition, or
// within it, as the specification has it.
func Parse(text string) (*Shape, error) {
	p := parser{named: map[string]*Shape{}}
	return p.parse(json.RawMessage(text), "", 0)
}

// ParseForward is Parse, but types may be named before they are defined, as the Avro library
// has it. sparse says that no datum holds more than [SparseValues] values for each of its
// bytes, and as many besides.
func ParseForward(text string) (s *Shape, sparse bool, err error) {
	p := parser{named: map[string]*Shape{}, forward: true}
	if s, err = p.parse(json.RawMessage(text), "", 0); err != nil {
		return nil, false, err
	}
	for _, w := range p.wanted {
		to := p.find(w.name, w.space)
		if to == nil {
			return nil, false, unknown(w.name)
		}
		w.by.parts = []*Shape{to}
	}
	return s, !p.free && len(p.wanted) == 0 && p.heavy < SparseValues, nil
}

// SparseValues is how many values a byte may hold of a schema that is sparse: see
// [ParseForward].
const SparseValues = 32

type parser struct {
	named map[string]*Shape // by full name
	// forward lets types be named before they are defined; those are in wanted.
	forward bool
	wanted  []wanted
	// free says that an array has items of no bytes, and heavy is how many values all
	// records of the schema are that have no bytes.
	free  bool
	heavy int64
}

// wanted is a reference to a type that is not defined yet.
type wanted struct {
	name, space string
	by          *Shape
}

// keys are those of a JSON object. Only these very ones count: what is written otherwise,
// or belongs to another type, is somebody's own and may hold anything.
type keys map[string]json.RawMessage

// text returns the text of a key; "" if it is none.
func (k keys) text(name string) (s string) {
	_ = json.Unmarshal(k[name], &s) // it is looked at by what it is for
	return s
}

// number returns the number of a key, which may stand in quotes.
func (k keys) number(name string) (n int64, err error) {
	if quoted := k.text(name); quoted != "" {
		return strconv.ParseInt(quoted, 10, 64)
	}
	err = json.Unmarshal(k[name], &n)
	return n, err
}

func (p *parser) parse(text json.RawMessage, space string, depth int) (*Shape, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	var name string
	var branches []json.RawMessage
	var o keys
	// Each level is scanned once: of a text that is deep and long the rest is much.
	switch first := bytes.TrimSpace(text); {
	case bytes.HasPrefix(first, []byte{'['}):
		if err := json.Unmarshal(text, &branches); err != nil {
			return nil, err
		}
		return p.parts(&Shape{kind: union}, branches, space, depth)
	case !bytes.HasPrefix(first, []byte{'{'}):
		if err := json.Unmarshal(text, &name); err != nil {
			return nil, err
		}
		return p.byName(name, space)
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	if json.Unmarshal(o["type"], &name) != nil { // {"type": {…}}
		return p.parse(o["type"], space, depth+1)
	}
	switch name {
	case "array":
		return p.parts(&Shape{kind: array}, []json.RawMessage{o["items"]}, space, depth)
	case "map":
		return p.parts(&Shape{kind: mapping}, []json.RawMessage{o["values"]}, space, depth)
	case "record", "error", "enum", "fixed":
		return p.define(name, o, space, depth)
	}
	return p.byName(name, space)
}

// define parses a type that has a name, which it may contain itself.
func (p *parser) define(what string, o keys, space string, depth int) (*Shape, error) {
	name := o.text("name")
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		space, name = name[:i], name[i+1:]
	} else if _, own := o["namespace"]; own {
		space = o.text("namespace")
	}
	s := &Shape{values: 1}
	p.named[fullName(name, space)] = s
	switch what {
	case "enum":
		var symbols []json.RawMessage
		if err := json.Unmarshal(o["symbols"], &symbols); err != nil {
			return nil, fmt.Errorf("symbols of %.100q: %w", name, err)
		}
		s.kind, s.size = enum, int64(len(symbols))
		return s, nil
	case "fixed":
		size, err := o.number("size")
		if err != nil {
			return nil, fmt.Errorf("size of %.100q: %w", name, err)
		}
		switch {
		case size < 0:
			return nil, fmt.Errorf("%.100q has %d bytes", name, size)
		case size > 0: // one of no bytes is nothing, as parts wants it
			s.kind, s.size = fixed, size
		}
		return s, nil
	}
	s.kind = record
	var fields []keys
	if err := json.Unmarshal(o["fields"], &fields); err != nil {
		return nil, fmt.Errorf("fields of %.100q: %w", name, err)
	}
	var types []json.RawMessage
	for _, f := range fields {
		types = append(types, f["type"])
	}
	return p.parts(s, types, space, depth)
}

func (p *parser) parts(s *Shape, texts []json.RawMessage, space string, depth int) (*Shape, error) {
	s.values = 1
	for _, text := range texts {
		part, err := p.parse(text, space, depth+1)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, part)
	}
	hasNoBytes := func(part *Shape) bool { return part.kind == nothing }
	switch s.kind {
	case array:
		p.free = p.free || hasNoBytes(s.parts[0])
	case record:
		// Fields that have no bytes cost no time, and a record that has no others is as good
		// as none, however often it is contained in others.
		for _, part := range s.parts {
			if hasNoBytes(part) {
				s.values = sum(s.values, part.values)
			}
		}
		if s.parts = slices.DeleteFunc(s.parts, hasNoBytes); len(s.parts) == 0 {
			s.kind, s.parts = nothing, nil
		}
		p.heavy = sum(p.heavy, s.values)
	}
	return s, nil
}

// sum adds numbers that are not below 0, up to the largest there is.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func (p *parser) byName(name, space string) (*Shape, error) {
	if s, found := primitives[name]; found {
		return &s, nil
	}
	if s := p.find(name, space); s != nil {
		return s, nil
	}
	if p.forward {
		s := &Shape{kind: reference, values: 1}
		p.wanted = append(p.wanted, wanted{name, space, s})
		return s, nil
	}
	return nil, unknown(name)
}

func unknown(name string) error { return fmt.Errorf("it has no type %.100q", name) }

// find returns the type of a name: one of the namespace around it, or else of none. A dot
// before the name says that it is of none.
func (p *parser) find(name, space string) *Shape {
	if exact, dotted := strings.CutPrefix(name, "."); dotted {
		return p.named[exact]
	}
	if s := p.named[fullName(name, space)]; s != nil {
		return s
	}
	return p.named[name]
}

// Errors of data.
var (
	ErrDatum   = errors.New("a datum does not fit the schema")
	ErrTooMany = errors.New("a datum holds too many values")
)

// Skip returns what follows a datum, which it checks: readers of a container lose all
// of a block if one datum in it does not fit.
func (s *Shape) Skip(b []byte) ([]byte, error) {
	var w walk
	return w.skip(s, b, 0)
}

// CheckValues says why the datum that b begins with holds more than so many values, or is
// none, or nil. It takes no more time than to look at so many.
func (s *Shape) CheckValues(b []byte, most int64) error {
	w := walk{limited: true, left: most}
	_, err := w.skip(s, b, 0)
	return err
}

// walk is a walk over a datum.
type walk struct {
	limited bool
	left    int64 // if limited, how many values there may still be
}

// take counts values.
func (w *walk) take(n int64) error {
	if !w.limited {
		return nil
	}
	if w.left < n {
		return ErrTooMany
	}
	w.left -= n
	return nil
}

func (w *walk) skip(s *Shape, b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: it is nested deeper than %d levels", ErrDatum, maxDepth)
	}
	if err := w.take(s.values); err != nil {
		return nil, err
	}
	var err error
	switch s.kind {
	case boolean:
		if len(b) == 0 || b[0] > 1 {
			return nil, fmt.Errorf("%w: there is no boolean", ErrDatum)
		}
		return b[1:], nil
	case integer, long, enum:
		v, b, err := skipLong(b)
		if s.kind == integer && v != int64(int32(v)) || s.kind == enum && (v < 0 || v >= s.size) {
			return nil, fmt.Errorf("%w: %d is out of range", ErrDatum, v)
		}
		return b, err
	case fixed:
		return skipBytes(b, s.size)
	case text:
		n, b, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case record:
		for _, field := range s.parts {
			if b, err = w.skip(field, b, depth+1); err != nil {
				return nil, err
			}
		}
	case union:
		i, b, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		if i < 0 || i >= int64(len(s.parts)) {
			return nil, fmt.Errorf("%w: branch %d of %d", ErrDatum, i, len(s.parts))
		}
		return w.skip(s.parts[i], b, depth+1)
	case array, mapping:
		return w.skipItems(s, b, depth)
	case reference:
		return w.skip(s.parts[0], b, depth+1)
	}
	return b, nil
}

// skipItems skips an array or a map, which come in blocks.
func (w *walk) skipItems(s *Shape, b []byte, depth int) ([]byte, error) {
	for {
		n, rest, err := skipLong(b)
		if err != nil || n == 0 {
			return rest, err
		}
		b = rest
		if n < 0 { // the length in bytes follows, for those who want to skip it
			size, rest, err := skipLong(b)
			if err != nil {
				return nil, err
			}
			after, err := skipBytes(rest, size)
			if err != nil {
				return nil, err
			}
			if err := w.skipBlock(s, -n, rest[:size], depth); err != nil {
				return nil, err
			}
			b = after
			continue
		}
		if b, err = w.skipSome(s, n, b, depth); err != nil {
			return nil, err
		}
	}
}

// skipBlock checks that a block holds so many items and nothing else.
func (w *walk) skipBlock(s *Shape, items int64, b []byte, depth int) error {
	rest, err := w.skipSome(s, items, b, depth)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: a block is longer than its items", ErrDatum)
	}
	return err
}

// skipSome skips so many items.
func (w *walk) skipSome(s *Shape, items int64, b []byte, depth int) ([]byte, error) {
	if items < 0 {
		return nil, fmt.Errorf("%w: a block of %d items", ErrDatum, items) // the number that has no opposite
	}
	for ; items > 0; items-- {
		before, left := len(b), w.left
		var err error
		if b, err = w.skipItem(s, b, depth); err != nil {
			return nil, err
		}
		if len(b) == before { // items of no bytes, however many are claimed
			each := left - w.left
			if w.limited && items-1 > w.left/each {
				return nil, ErrTooMany
			}
			return b, w.take((items - 1) * each)
		}
	}
	return b, nil
}

func (w *walk) skipItem(s *Shape, b []byte, depth int) ([]byte, error) {
	if s.kind == mapping {
		size, rest, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		if b, err = skipBytes(rest, size); err != nil {
			return nil, err
		}
	}
	return w.skip(s.parts[0], b, depth+1)
}

func skipLong(b []byte) (int64, []byte, error) {
	v, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: it ends within a number", ErrDatum)
	}
	return v, b[n:], nil
}

func skipBytes(b []byte, n int64) ([]byte, error) {
	if n < 0 || n > int64(len(b)) {
		return nil, fmt.Errorf("%w: it wants %d bytes of %d", ErrDatum, n, len(b))
	}
	return b[n:], nil
}
