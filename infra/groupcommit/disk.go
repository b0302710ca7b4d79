package groupcommit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrUnsupported says that a directory lies where one sync cannot make a whole store durable, so that group commit
// would promise what it cannot keep.
var ErrUnsupported = errors.New("group commit cannot hold here")

// Disk is the file system of a store, synced as a whole. Make it with Open, end it with Close.
type Disk struct{ dir *os.File }

// Open takes the directory of a store, which must exist. It is refused (ErrUnsupported, with the reason) unless the
// whole store lies on one file system of a kind that the power-cut test has proved, ext4 or xfs, under a system that
// reports failed writes to whoever syncs (Linux 5.8).
//
// The descriptor stays open between syncs: a failed write is told to descriptors that were open when it failed.
func Open(dir string) (*Disk, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store for group commit: %w", err)
	}
	if err := errors.Join(supported(f), oneDevice(f)); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store for group commit: %w", err), f.Close())
	}
	return &Disk{dir: f}, nil
}

// Sync makes durable whatever was written to the file system before the call: data, sizes and names.
func (d *Disk) Sync() error { return syncFS(d.dir) }

// Close lets go of the directory.
func (d *Disk) Close() error { return d.dir.Close() }

// oneDevice looks at the directories of the store: one that leads elsewhere would be left out of the sync.
func oneDevice(root *os.File) error {
	want, err := deviceOf(root.Name())
	if err != nil {
		return err
	}
	return filepath.WalkDir(root.Name(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0 && path != root.Name():
			return fmt.Errorf("%w: %s is a symbolic link inside the store", ErrUnsupported, path)
		case !d.IsDir():
			return nil
		}
		have, err := deviceOf(path)
		if err == nil && have != want {
			err = fmt.Errorf("%w: %s is on another file system than the rest of the store", ErrUnsupported, path)
		}
		return err
	})
}
