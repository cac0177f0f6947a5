package etl

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shape is as much of an Avro schema as it takes to tell where a datum ends: a container
// holds data back to back, without their lengths, and a reader that wants payloads back
// need not look into them.
type shape struct {
	kind  shapeKind
	size  int64    // of fixed, in bytes; how many symbols an enum has
	parts []*shape // the fields of a record, the branches of a union, the items of an array or map
}

type shapeKind int

const (
	shapeNothing shapeKind = iota
	shapeBoolean
	shapeInt
	shapeLong
	shapeEnum
	shapeFixed // float, double, fixed
	shapeBytes // bytes, string
	shapeRecord
	shapeUnion
	shapeArray
	shapeMap
)

var primitives = map[string]shape{
	"null": {}, "boolean": {kind: shapeBoolean}, "int": {kind: shapeInt}, "long": {kind: shapeLong},
	"float": {kind: shapeFixed, size: 4}, "double": {kind: shapeFixed, size: 8}, "bytes": {kind: shapeBytes}, "string": {kind: shapeBytes},
}

// maxShapeDepth bounds how deep schemas, and data of those that contain themselves, are
// nested.
const maxShapeDepth = 1000

// parseShape reads the text of a schema.
func parseShape(text string) (*shape, error) {
	p := shapeParser{named: map[string]*shape{}}
	return p.parse(json.RawMessage(text), "", 0)
}

type shapeParser struct {
	named map[string]*shape // by full name
}

// schemaObject is a schema that is neither a name nor a union.
type schemaObject struct {
	Type      json.RawMessage
	Name      string
	Namespace *string
	Fields    []struct{ Type json.RawMessage }
	Items     json.RawMessage
	Values    json.RawMessage
	Symbols   []string
	Size      int64
}

func (p *shapeParser) parse(text json.RawMessage, space string, depth int) (*shape, error) {
	if depth > maxShapeDepth {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxShapeDepth)
	}
	var name string
	if json.Unmarshal(text, &name) == nil {
		return p.byName(name, space)
	}
	var branches []json.RawMessage
	if json.Unmarshal(text, &branches) == nil {
		return p.parts(&shape{kind: shapeUnion}, branches, space, depth)
	}
	var o schemaObject
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	if json.Unmarshal(o.Type, &name) != nil { // {"type": {…}}
		return p.parse(o.Type, space, depth+1)
	}
	switch name {
	case "array":
		return p.parts(&shape{kind: shapeArray}, []json.RawMessage{o.Items}, space, depth)
	case "map":
		return p.parts(&shape{kind: shapeMap}, []json.RawMessage{o.Values}, space, depth)
	case "record", "error", "enum", "fixed":
		return p.define(name, o, space, depth)
	}
	return p.byName(name, space)
}

// define parses a type that has a name, which it may contain itself.
func (p *shapeParser) define(kind string, o schemaObject, space string, depth int) (*shape, error) {
	if i := strings.LastIndexByte(o.Name, '.'); i >= 0 {
		space, o.Name = o.Name[:i], o.Name[i+1:]
	} else if o.Namespace != nil {
		space = *o.Namespace
	}
	s := &shape{}
	p.named[fullName(o.Name, space)] = s
	switch kind {
	case "enum":
		s.kind, s.size = shapeEnum, int64(len(o.Symbols))
		return s, nil
	case "fixed":
		switch {
		case o.Size < 0:
			return nil, fmt.Errorf("%s has %d bytes", o.Name, o.Size)
		case o.Size > 0: // one of no bytes is nothing, as parts wants it
			s.kind, s.size = shapeFixed, o.Size
		}
		return s, nil
	}
	s.kind = shapeRecord
	var fields []json.RawMessage
	for _, f := range o.Fields {
		fields = append(fields, f.Type)
	}
	return p.parts(s, fields, space, depth)
}

func (p *shapeParser) parts(s *shape, texts []json.RawMessage, space string, depth int) (*shape, error) {
	for _, text := range texts {
		part, err := p.parse(text, space, depth+1)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, part)
	}
	// A record that has no bytes is as good as none, and costs no time however often it
	// is contained in others.
	hasBytes := func(part *shape) bool { return part.kind != shapeNothing }
	if s.kind == shapeRecord && !slices.ContainsFunc(s.parts, hasBytes) {
		s.kind, s.parts = shapeNothing, nil
	}
	return s, nil
}

func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func (p *shapeParser) byName(name, space string) (*shape, error) {
	if s, found := primitives[name]; found {
		return &s, nil
	}
	if s := p.named[fullName(name, space)]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("it has no type %.100q", name)
}

var errDatum = errors.New("a datum does not fit the schema")

// skip returns what follows a datum, which it checks: readers of a container lose all
// of a block if one datum in it does not fit.
func (s *shape) skip(b []byte, depth int) ([]byte, error) {
	if depth > maxShapeDepth {
		return nil, fmt.Errorf("%w: it is nested deeper than %d levels", errDatum, maxShapeDepth)
	}
	var err error
	switch s.kind {
	case shapeBoolean:
		if len(b) == 0 || b[0] > 1 {
			return nil, fmt.Errorf("%w: there is no boolean", errDatum)
		}
		return b[1:], nil
	case shapeInt, shapeLong, shapeEnum:
		v, b, err := skipLong(b)
		if s.kind == shapeInt && v != int64(int32(v)) || s.kind == shapeEnum && (v < 0 || v >= s.size) {
			return nil, fmt.Errorf("%w: %d is out of range", errDatum, v)
		}
		return b, err
	case shapeFixed:
		return skipBytes(b, s.size)
	case shapeBytes:
		n, b, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case shapeRecord:
		for _, field := range s.parts {
			if b, err = field.skip(b, depth+1); err != nil {
				return nil, err
			}
		}
	case shapeUnion:
		i, b, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		if i < 0 || i >= int64(len(s.parts)) {
			return nil, fmt.Errorf("%w: branch %d of %d", errDatum, i, len(s.parts))
		}
		return s.parts[i].skip(b, depth+1)
	case shapeArray, shapeMap:
		return s.skipItems(b, depth)
	}
	return b, nil
}

// skipItems skips an array or a map, which come in blocks.
func (s *shape) skipItems(b []byte, depth int) ([]byte, error) {
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
			if err := s.skipBlock(-n, rest[:size], depth); err != nil {
				return nil, err
			}
			b = after
			continue
		}
		if b, err = s.skipSome(n, b, depth); err != nil {
			return nil, err
		}
	}
}

// skipBlock checks that a block holds so many items and nothing else.
func (s *shape) skipBlock(items int64, b []byte, depth int) error {
	rest, err := s.skipSome(items, b, depth)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: a block is longer than its items", errDatum)
	}
	return err
}

// skipSome skips so many items.
func (s *shape) skipSome(items int64, b []byte, depth int) ([]byte, error) {
	if items < 0 {
		return nil, fmt.Errorf("%w: a block of %d items", errDatum, items) // the number that has no opposite
	}
	for ; items > 0; items-- {
		before := len(b)
		var err error
		if b, err = s.skipItem(b, depth); err != nil {
			return nil, err
		}
		if len(b) == before {
			break // items of no bytes, however many are claimed
		}
	}
	return b, nil
}

func (s *shape) skipItem(b []byte, depth int) ([]byte, error) {
	if s.kind == shapeMap {
		size, rest, err := skipLong(b)
		if err != nil {
			return nil, err
		}
		if b, err = skipBytes(rest, size); err != nil {
			return nil, err
		}
	}
	return s.parts[0].skip(b, depth+1)
}

func skipLong(b []byte) (int64, []byte, error) {
	v, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: it ends within a number", errDatum)
	}
	return v, b[n:], nil
}

func skipBytes(b []byte, n int64) ([]byte, error) {
	if n < 0 || n > int64(len(b)) {
		return nil, fmt.Errorf("%w: it wants %d bytes of %d", errDatum, n, len(b))
	}
	return b[n:], nil
}
