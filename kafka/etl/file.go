package etl

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"kafkalab/kafka/internal/vfs"
)

// file is a file that a task makes. It is written piece by piece: what was gathered is
// compressed and appended. So any number of files share one compressor, and a file
// that gets little costs little.
type file struct {
	fs   vfs.FS
	path string
	form form

	gathered []byte // in the form of the file, but for the compression
	inPiece  int64  // messages in it
	made     Made   // Bytes is how much is written
}

// form is how pieces become a file.
type form interface {
	// begin appends what stands before the first piece.
	begin(dst []byte) []byte
	// piece appends a piece of so many messages.
	piece(dst *bytes.Buffer, p *packer, gathered []byte, messages int64) error
	// end appends what tells that the file is whole, with so many messages.
	end(dst *bytes.Buffer, p *packer, messages int64) error
}

// packer holds the compressors of a task, and what they write to.
type packer struct {
	out  bytes.Buffer
	gzip *gzip.Writer
	raw  *flate.Writer
}

// level favours speed: brokers and disks are waiting.
const level = gzip.BestSpeed

// begin makes the file. One that a repeated attempt finds there is of no worth.
func (f *file) begin() error {
	if err := f.fs.Remove(f.path); missing(err) != nil {
		return err
	}
	created, err := f.fs.Create(f.path)
	if err != nil {
		return err
	}
	if err := created.Close(); err != nil {
		return err
	}
	return f.append(f.form.begin(nil))
}

// append writes bytes behind what is there. The file is open only meanwhile: a task may
// have many.
func (f *file) append(b []byte) (err error) {
	if len(b) == 0 {
		return nil
	}
	w, err := f.fs.OpenWrite(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err := w.WriteAt(b, f.made.Bytes); err != nil {
		return err
	}
	f.made.Bytes += int64(len(b))
	return nil
}

// flush writes what was gathered.
func (f *file) flush(p *packer) error {
	if f.inPiece == 0 {
		return nil
	}
	p.out.Reset()
	if err := f.form.piece(&p.out, p, f.gathered, f.inPiece); err != nil {
		return err
	}
	f.gathered, f.inPiece = f.gathered[:0], 0
	return f.append(p.out.Bytes())
}

// finish completes the file and makes its content safe.
func (f *file) finish(p *packer) (err error) {
	p.out.Reset()
	if err := f.form.end(&p.out, p, f.made.Messages); err != nil {
		return err
	}
	if err := f.append(p.out.Bytes()); err != nil {
		return err
	}
	w, err := f.fs.OpenWrite(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return w.Sync()
}

// rawForm is a gzip file of messages as they are: an offset of 8 bytes, a length of 4,
// both big-endian, and the payload. Of a message that was compressed with others the
// offset is that of them all.
//
// Each piece is a gzip member of its own, as gzip allows. The last member is empty and
// carries the number of messages in an extra field: without it, a file that was cut
// between two members would look whole.
type rawForm struct{}

// endField is the extra field of the last member (RFC 1952 §2.3.1.1): two letters, the
// length of what follows, and the number of messages.
var endField = []byte{'K', 'L', 8, 0}

func (rawForm) begin(dst []byte) []byte { return dst }

func (rawForm) piece(dst *bytes.Buffer, p *packer, gathered []byte, _ int64) error {
	return p.member(dst, gathered, nil)
}

func (rawForm) end(dst *bytes.Buffer, p *packer, messages int64) error {
	return p.member(dst, nil, binary.LittleEndian.AppendUint64(bytes.Clone(endField), uint64(messages)))
}

// member appends a gzip member.
func (p *packer) member(dst *bytes.Buffer, b, extra []byte) error {
	if p.gzip == nil {
		w, err := gzip.NewWriterLevel(dst, level)
		if err != nil {
			return err
		}
		p.gzip = w
	} else {
		p.gzip.Reset(dst)
	}
	p.gzip.Extra = extra
	if _, err := p.gzip.Write(b); err != nil {
		return err
	}
	return p.gzip.Close()
}
