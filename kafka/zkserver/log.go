package zkserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"kafkalab/kafka/internal/vfs"
)

// A file of the transaction log is "zktlog" and the version of the form, 1, in
// two bytes, and then records, one for each transaction:
//
//	uint32   recordMagic
//	uint32   bytes from the safe position on, at most maxRecordBytes
//	uint32   CRC-32C of these bytes
//	int64    safe position: the size that the file is known to have had on the
//	         disk before the record was written
//	         the transaction, see appendTxn
//
// The safe position tells two kinds of unreadable records apart. A crash can
// leave any mixture of what was written since the last sync, whole records
// behind torn ones included; nobody was told of those, and they are cut off. But
// a bad record with a good one behind it that was written when the bad one was
// safe is damage, and to cut it off would lose what clients rely on.
const (
	logMagic       = "zktlog\x00\x01"
	recordMagic    = 0x7a6b7478
	recordHeader   = 4 + 4 + 4
	maxRecordBytes = 2 * maxRequestBytes
)

// txnLog is the log file that is written to.
type txnLog struct {
	file vfs.File
	name string
	safe int64 // bytes that are on the disk
	buf  []byte
	txns int64 // in the file and in buf
}

// createLog makes an empty log file that is on the disk.
func createLog(fs vfs.FS, dir, name string) (*txnLog, error) {
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	l := &txnLog{file: f, name: name, buf: []byte(logMagic)}
	if err := l.flush(); err != nil {
		f.Close()
		return nil, err
	}
	if err := fs.SyncDir(dir); err != nil {
		f.Close()
		return nil, fmt.Errorf("log folder %s: %w", dir, err)
	}
	return l, nil
}

// append adds a record to those that the next flush writes.
func (l *txnLog) append(t *txn) {
	l.buf = appendRecord(l.buf, l.safe, t)
	l.txns++
}

func appendRecord(b []byte, safe int64, t *txn) []byte {
	start := len(b)
	b = appendInt32(b, int32(recordMagic))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = appendInt64(b, safe)
	b = appendTxn(b, t)
	body := b[start+recordHeader:]
	binary.BigEndian.PutUint32(b[start+4:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[start+8:], crc32.Checksum(body, castagnoli))
	return b
}

// keptBuffer is the largest buffer that is kept for the next flush.
const keptBuffer = 1 << 20

// flush writes what was appended and returns when it is on the disk. After an
// error nothing is known of the file's end, and nothing more may be appended.
func (l *txnLog) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if _, err := l.file.WriteAt(l.buf, l.safe); err != nil {
		return fmt.Errorf("write to %s: %w", l.name, err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync of %s: %w", l.name, err)
	}
	l.safe += int64(len(l.buf))
	if cap(l.buf) > keptBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	return nil
}

// readLog hands the transactions of a log file to each, in order, and returns
// the size of the part that is good. err is nil when that is all of it, wraps
// errTorn when the rest was never safe, and errDamaged when it was. An error of
// each ends the reading and is returned as it is.
func readLog(f io.ReaderAt, size int64, each func(t *txn) error) (good int64, err error) {
	head := make([]byte, min(size, int64(len(logMagic))))
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return 0, err
	}
	if string(head) != logMagic {
		if logMagic[:len(head)] == string(head) || !slices.ContainsFunc(head, func(b byte) bool { return b != 0 }) {
			return 0, unreadable(f, 0, size) // made, but the header was never safe
		}
		return 0, fmt.Errorf("no log of a known version: %w", errDamaged)
	}
	good = int64(len(logMagic))
	for good < size {
		body, err := readRecord(f, good, size)
		if err != nil {
			return good, unreadable(f, good, size)
		}
		t, err := decodeTxn(body[8:])
		if err != nil {
			return good, fmt.Errorf("record at %d: %w: %w", good, err, errDamaged) // its checksum is right
		}
		if err := each(t); err != nil {
			return good, err
		}
		good += recordHeader + int64(len(body))
	}
	return good, nil
}

// errTorn is the error of a log whose last part was never safe.
var errTorn = errors.New("torn")

// readRecord returns the checked body of the record at position at. An error of
// the file is an error here as well: what cannot be read is not good.
func readRecord(f io.ReaderAt, at, size int64) ([]byte, error) {
	var head [recordHeader]byte
	if size-at < recordHeader {
		return nil, errTorn
	}
	if _, err := f.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[4:]))
	if binary.BigEndian.Uint32(head[:]) != recordMagic || length < 8 || length > maxRecordBytes || length > size-at-recordHeader {
		return nil, errTorn
	}
	body := make([]byte, length)
	if _, err := f.ReadAt(body, at+recordHeader); err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(head[8:]) {
		return nil, errTorn
	}
	return body, nil
}

// unreadable says why the record at position at is bad: because it was never
// safe, or because of damage, of which a later record is the witness.
func unreadable(f io.ReaderAt, at, size int64) error {
	rest := make([]byte, size-at)
	if _, err := f.ReadAt(rest, at); err != nil && err != io.EOF {
		return err
	}
	magic := binary.BigEndian.AppendUint32(nil, recordMagic)
	for i := 1; ; i++ {
		next := bytes.Index(rest[min(i, len(rest)):], magic)
		if next < 0 {
			return errTorn
		}
		i += next
		body, err := readRecord(bytes.NewReader(rest), int64(i), int64(len(rest)))
		if err != nil {
			continue
		}
		if safe := int64(binary.BigEndian.Uint64(body)); safe > at {
			return fmt.Errorf("record at %d is unreadable, but the one at %d was written when it was safe: %w", at, at+int64(i), errDamaged)
		}
	}
}
