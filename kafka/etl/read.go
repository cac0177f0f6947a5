package etl

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Files returns the files of a local output folder that are laid out, sorted by topic,
// day, partition and offset. What has another name than a load gives is none of them.
// A load that runs meanwhile may add some before or after they are listed.
func Files(dir string) ([]File, error) {
	topics, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the files of a load: %w", err)
	}
	var files []File
	for _, topic := range topics {
		if !topic.IsDir() || topic.Name() == bookkeeping {
			continue
		}
		root := filepath.Join(dir, topic.Name())
		err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			below, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			if f, err := parseName(filepath.ToSlash(below)); err == nil {
				f.Path = name
				files = append(files, f)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the files of topic %s: %w", topic.Name(), err)
		}
	}
	slices.SortFunc(files, func(a, b File) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		if c := a.Date.Compare(b.Date); c != 0 {
			return c
		}
		if c := a.Partition.Compare(b.Partition); c != 0 {
			return c
		}
		if a.Start != b.Start {
			return int(min(max(a.Start-b.Start, -1), 1))
		}
		return strings.Compare(path.Base(a.Path), path.Base(b.Path))
	})
	return files, nil
}

// ErrTorn says that a file is not whole, or not one that a load has made.
var ErrTorn = errors.New("the file is not whole")

// maxPayload is the largest payload in a file, in bytes: no message can be larger.
const maxPayload = 1<<31 - 1

// ReadFile calls back for each message of a file of the output, in the order of the
// log. The payload is valid during the call. Of an Avro file, a payload is given with
// the framing that it had (see package envelope), and the offset is -1: containers do
// not keep it. An error of the callback ends the reading and is returned as it is. A
// file that was cut anywhere, or in which something was changed, is an [ErrTorn]; the
// messages before that have been given then.
func ReadFile(name string, each func(offset int64, payload []byte) error) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	return readFrom(f, name, each)
}

// readBuffer is how much of a file is read at once, in bytes.
const readBuffer = 64 << 10

// readFrom reads the file of a name.
func readFrom(f io.Reader, name string, each func(offset int64, payload []byte) error) (err error) {
	r := bufio.NewReaderSize(f, readBuffer)
	if strings.HasSuffix(name, avroSuffix) {
		err = readContainer(r, func(payload []byte) error { return each(-1, payload) })
	} else {
		err = readRaw(r, each)
	}
	var own *callbackError
	switch {
	case errors.As(err, &own):
		return own.error
	case err != nil:
		return fmt.Errorf("%s: %w: %w", name, ErrTorn, err)
	}
	return nil
}

// callbackError is an error of who reads, and none of the file.
type callbackError struct{ error }

// readRaw reads what rawForm has written.
func readRaw(r *bufio.Reader, each func(int64, []byte) error) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return noEOF(err)
	}
	var payload []byte
	var messages int64
	for {
		z.Multistream(false)
		if n, last := endOf(z.Extra); last {
			return endRaw(r, z, n, messages)
		}
		for {
			var head [frameOverhead]byte
			if _, err := io.ReadFull(z, head[:]); errors.Is(err, io.EOF) {
				break // of the member, which ends with a message
			} else if err != nil {
				return noEOF(err)
			}
			offset, size := int64(binary.BigEndian.Uint64(head[:])), binary.BigEndian.Uint32(head[8:])
			if offset < 0 || size > maxPayload {
				return fmt.Errorf("message %d: %d bytes at offset %d are impossible", messages, size, offset)
			}
			if payload, err = readSized(z, payload[:0], int64(size)); err != nil {
				return noEOF(err)
			}
			messages++
			if err := each(offset, payload); err != nil {
				return &callbackError{err}
			}
		}
		if err := z.Reset(r); err != nil {
			return noEOF(err)
		}
	}
}

// endOf returns the number of messages that the last member of a raw file tells.
func endOf(extra []byte) (messages int64, last bool) {
	if len(extra) != len(endField)+8 || !bytes.Equal(extra[:len(endField)], endField) {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(extra[len(endField):])), true
}

// endRaw checks that the last member is empty, and that nothing follows it.
func endRaw(r *bufio.Reader, z *gzip.Reader, told, messages int64) error {
	if n, err := io.Copy(io.Discard, z); err != nil || n != 0 {
		return noEOF(errors.Join(err, fmt.Errorf("the last part holds %d bytes", n)))
	}
	if told != messages {
		return fmt.Errorf("it holds %d messages, and was made with %d", messages, told)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(err, errors.New("something follows its end"))
	}
	return nil
}

// noEOF returns an error for an end that is none.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readSized appends size bytes of r to dst. It takes memory as the bytes come: a length
// that was changed claims anything.
func readSized(r io.Reader, dst []byte, size int64) ([]byte, error) {
	const step = 1 << 20
	for size > 0 {
		n := int(min(size, step))
		dst = slices.Grow(dst, n)
		if _, err := io.ReadFull(r, dst[len(dst):len(dst)+n]); err != nil {
			return dst, err
		}
		dst = dst[:len(dst)+n]
		size -= int64(n)
	}
	return dst, nil
}
