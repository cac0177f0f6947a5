package audit

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"kafkalab/kafka/internal/vfs"
)

// lockSuffix ends the name of the file whose lock keeps a second process from using
// the same file.
const lockSuffix = ".lock"

// maxFileBytes is the largest file that is read: far more than the limits on what is
// counted let it become.
const maxFileBytes = 1 << 30

// replaceFile gives a file new content, behind a line that says what it is, how long,
// and its checksum. A crash leaves the old content or the new.
func replaceFile(files vfs.FS, name, kind string, content []byte) error {
	head := fmt.Appendf(nil, "%s %d %08x\n", kind, len(content), crc32.ChecksumIEEE(content))
	if err := vfs.ReplaceFile(files, name, head, content); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// readFile reads what replaceFile has written. A file that is not there is
// [fs.ErrNotExist]; one that is damaged, or of another kind, is an error that says so.
func readFile(files vfs.FS, name, kind string) (content []byte, err error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("read %s: %d bytes: at most %d are read", name, info.Size(), maxFileBytes)
	}
	all, err := io.ReadAll(io.NewSectionReader(file, 0, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	head, content, found := bytes.Cut(all, []byte("\n"))
	var length int
	var sum uint32
	if _, err := fmt.Sscanf(string(head[:min(len(head), 200)]), kind+" %d %x", &length, &sum); err != nil || !found {
		return nil, fmt.Errorf("read %s: it does not begin as a file of %s does", name, kind)
	}
	if length != len(content) || sum != crc32.ChecksumIEEE(content) {
		return nil, fmt.Errorf("read %s: it is damaged: length %d and checksum %08x are wanted, it has %d and %08x: remove it, or put a copy in its place", name, length, sum, len(content), crc32.ChecksumIEEE(content))
	}
	return content, nil
}
