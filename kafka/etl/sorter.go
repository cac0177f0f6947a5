package etl

import (
	"context"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/avroshape"
)

// ErrNoSchema is returned by a [SchemaSource] for an id that its registry does not
// know: an error of the message alone.
var ErrNoSchema = errors.New("the registry has no such schema")

// SchemaSource is what a load needs of a client of a schema registry. Any number of
// tasks use one at once.
type SchemaSource interface {
	// Text returns the text of a schema, or [ErrNoSchema]. Other errors (the registry is
	// down, and the id was not met before) fail the attempt.
	Text(ctx context.Context, id uint32) (string, error)
	// Header returns the audit header inside a payload that fits its schema, or
	// [envelope.ErrNotEnvelope] if the schema has none. An error that has a method
	// Temporary which returns true fails the attempt; others are of the message alone.
	Header(ctx context.Context, payload []byte) (envelope.Header, error)
}

// Sizes of what is gathered before it is compressed and written, in bytes.
const (
	pieceBytes    = 1 << 20  // of one file
	gatheredBytes = 16 << 20 // of all files of a task

	pieceMessages = 1 << 20 // at most, however small
)

// group is what goes into one file: the messages of a day, and of a schema if they
// have one.
type group struct {
	day    int64 // since 1970, UTC
	schema uint32
	avro   bool
}

// sorter divides the messages of a split into files. A message costs no allocation,
// unless it is the first of a group.
type sorter struct {
	split   Split
	schemas SchemaSource // nil: payloads have none
	known   map[uint32]*writerSchema
	to      *local
	folder  string
	plain   envelope.Opener

	groups   map[group]*file
	last     *file // where the last message went
	lastKey  group
	gathered int // bytes, in all files
	counts   Counts
	told     int64 // messages that the task has told of
	pack     packer
}

func newSorter(s Split, to *local, folder string, schemas SchemaSource) *sorter {
	if s.SchemaRegistry == "" {
		schemas = nil
	}
	return &sorter{split: s, schemas: schemas, known: map[uint32]*writerSchema{}, to: to, folder: folder, groups: map[group]*file{}}
}

// writerSchema is the schema of an id.
type writerSchema struct {
	text string
	data *avroshape.Shape // nil: the text cannot be used, and its payloads are kept raw
}

// add takes a message, whose payload it copies.
func (s *sorter) add(ctx context.Context, offset int64, payload []byte) error {
	var key group
	body := payload
	if s.schemas != nil {
		id, avro, err := s.schema(ctx, payload)
		switch {
		case err != nil:
			return err
		case avro == nil:
			s.counts.NoSchema++
		default: // a datum may have no bytes at all, and then it is an empty slice
			key.schema, key.avro, body = id, true, avro
		}
	}
	var err error
	if key.day, err = s.day(ctx, payload, key.avro); err != nil {
		return err
	}
	f := s.last
	if f == nil || key != s.lastKey {
		if f, err = s.file(ctx, key); err != nil {
			return err
		}
		s.last, s.lastKey = f, key
	}
	before := len(f.gathered)
	if !key.avro {
		f.gathered = appendFrame(f.gathered, offset, payload)
	} else {
		f.gathered = append(f.gathered, body...)
	}
	f.inPiece++
	if f.made.Messages == 0 {
		f.made.First = offset
	}
	f.made.Messages++
	f.made.Last = offset
	s.counts.Messages++
	s.counts.Bytes += int64(len(payload))
	s.gathered += len(f.gathered) - before
	switch {
	case len(f.gathered) >= pieceBytes || f.inPiece == pieceMessages:
		return s.flush(f)
	case s.gathered >= gatheredBytes:
		for _, f := range s.groups {
			if err := s.flush(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxKnown bounds the schemas that a task remembers; beyond it, it asks again.
const maxKnown = 1000

// schema returns the schema id and the Avro bytes of a payload; no bytes if it is to be
// kept raw, as it does not fit a schema.
func (s *sorter) schema(ctx context.Context, payload []byte) (uint32, []byte, error) {
	id, avro, err := envelope.OpenSchema(payload)
	if err != nil {
		return 0, nil, nil // it is counted
	}
	w := s.known[id]
	if w == nil {
		text, err := s.schemas.Text(ctx, id)
		if err != nil && !errors.Is(err, ErrNoSchema) {
			return 0, nil, err // a registry that is down must not make good messages look bad
		}
		w = &writerSchema{text: text}
		if err == nil {
			w.data, _ = avroshape.Parse(text) // none: that is counted with each message
		}
		if len(s.known) < maxKnown {
			s.known[id] = w
		}
	}
	if w.data == nil {
		return 0, nil, nil
	}
	if rest, err := w.data.Skip(avro); err != nil || len(rest) > 0 {
		return 0, nil, nil
	}
	return id, avro[:len(avro):len(avro)], nil
}

// day returns the day under which a message is filed.
func (s *sorter) day(ctx context.Context, payload []byte, avro bool) (int64, error) {
	arrival := day(s.split.ArrivalMs)
	if s.split.By == ByArrival {
		return arrival, nil
	}
	var h envelope.Header
	var err error
	if avro {
		h, err = s.schemas.Header(ctx, payload)
		if passing := (interface{ Temporary() bool })(nil); ctx.Err() != nil || errors.As(err, &passing) && passing.Temporary() {
			return 0, errors.Join(err, ctx.Err())
		}
	} else {
		h, _, err = s.plain.Open(payload)
	}
	if err != nil {
		if errors.Is(err, envelope.ErrNotEnvelope) {
			s.counts.NoEnvelope++
		} else {
			s.counts.BadEnvelope++
		}
		return arrival, nil
	}
	made := h.Time.UnixMilli()
	switch {
	case made < 0 || made < s.split.ArrivalMs-s.split.MaxLateMs:
		s.counts.TooLate++
		return arrival, nil
	case made >= maxArrivalMs || made-s.split.ArrivalMs > s.split.MaxAheadMs:
		s.counts.TooEarly++
		return arrival, nil
	}
	return day(made), nil
}

// file returns the file of a group, a new one if it has none.
func (s *sorter) file(ctx context.Context, key group) (*file, error) {
	if f := s.groups[key]; f != nil {
		return f, nil
	}
	name := File{
		Partition: s.split.Partition, Date: time.Unix(key.day*24*60*60, 0).UTC(), Start: s.split.Start, End: s.split.End,
		Avro: key.avro, SchemaID: key.schema,
	}.name()
	f := &file{fs: s.to.fs, path: s.to.path(path.Join(s.folder, filesFolder, name)), made: Made{Name: name}}
	if key.avro {
		w := s.known[key.schema]
		if w == nil { // there were too many
			text, err := s.schemas.Text(ctx, key.schema)
			if err != nil {
				return nil, err
			}
			w = &writerSchema{text: text}
		}
		f.form = newContainer(w.text, key.schema)
	} else {
		f.form = rawForm{}
	}
	if err := s.to.mkdirAll(path.Join(s.folder, filesFolder, path.Dir(name))); err != nil {
		return nil, err
	}
	if err := f.begin(); err != nil {
		return nil, err
	}
	s.groups[key] = f
	return f, nil
}

func (s *sorter) flush(f *file) error {
	s.gathered -= len(f.gathered)
	err := f.flush(&s.pack)
	if len(s.groups) > gatheredBytes/pieceBytes {
		f.gathered = nil // what many files keep empty for later adds up too
	}
	return err
}

// finish completes all files and makes their content safe, not yet their names.
func (s *sorter) finish() ([]Made, error) {
	made := []Made{}
	for _, f := range s.groups {
		if err := s.flush(f); err != nil {
			return nil, err
		}
		if err := f.finish(&s.pack); err != nil {
			return nil, err
		}
		made = append(made, f.made)
	}
	slices.SortFunc(made, func(a, b Made) int { return strings.Compare(a.Name, b.Name) })
	return made, nil
}

// frameOverhead is what a raw file has beside each payload, in bytes.
const frameOverhead = 8 + 4

// appendFrame appends a message as raw files hold it.
func appendFrame(dst []byte, offset int64, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}
