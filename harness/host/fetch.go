package host

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// fetchScript packs the file or folder $2 in folder $1. Status 1 of tar means
// that a file changed while it was read, as log files do.
const fetchScript = `
[ -e "$1/$2" ] || exit 44
tar -C "$1" -cf - -- "$2"
[ $? -le 1 ]`

// Fetch copies a file to the path local, or a folder, whose contents come to
// lie in the folder local. Folders on the way to it are made. Sockets are left
// out; devices, pipes, and symbolic links that lead out of the folder are errors.
func (m *machine) Fetch(ctx context.Context, remote, local string) error {
	if err := m.checkAbs("fetching", remote); err != nil {
		return err
	}
	remote = path.Clean(remote)
	local, err := filepath.Abs(local)
	if err != nil {
		return m.pathError("fetching", remote, err)
	}
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return m.pathError("fetching", remote, err)
	}
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(r, local)
		if err == nil { // what is left is tar's padding
			_, err = io.Copy(io.Discard, r)
		}
		r.CloseWithError(err)
		unpacked <- err
	}()
	err = m.script(ctx, "fetch", fetchScript, nil, w, path.Dir(remote), path.Base(remote))
	w.CloseWithError(err) // nil: io.EOF
	if unpackErr := <-unpacked; unpackErr != nil && exitStatus(err) != exitMissing {
		err = errors.Join(unpackErr, err)
	}
	if err != nil {
		return m.pathError("fetching", remote, err)
	}
	return nil
}

// unpack unpacks a tar stream with one top entry, which gets the name of
// local. Nothing is written outside of local's folder, whatever the stream
// says: it comes from another machine.
func unpack(r io.Reader, local string) error {
	root, err := os.OpenRoot(filepath.Dir(local))
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		_, below, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), "/")
		if err := unpackEntry(root, path.Join(filepath.Base(local), below), h, t); err != nil {
			return fmt.Errorf("unpacking %s: %w", h.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	mode := os.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		// Readable and removable for us, whatever it was for its owner.
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname)) || path.IsAbs(h.Linkname) {
			return fmt.Errorf("the symbolic link to %s leads out", h.Linkname)
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		_, below, _ := strings.Cut(h.Linkname, "/")
		top, _, _ := strings.Cut(name, "/")
		return root.Link(path.Join(top, below), name)
	default:
		return fmt.Errorf("a file of kind %q cannot be copied", h.Typeflag)
	}
}
