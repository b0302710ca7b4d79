package keyring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const maxMasterFile = 1 << 20

// ErrMasterExists says that a master key file is there already; it is never overwritten.
var ErrMasterExists = errors.New("master key file exists")

// CreateMaster makes a file with one new master key, readable by its owner only. ErrMasterExists when there is one:
// with the old file every text ever sealed would be lost.
func CreateMaster(path string) (*Master, error) {
	m, _ := (&Master{}).WithNew()
	body, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	if err := createWhole(path, body); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	return m, nil
}

// ChangeMaster changes a master key file, which keeps its owner and mode. Nobody sees half of it. Processes that run go on with what they
// loaded. A change made by somebody else meanwhile is refused, not overwritten.
func ChangeMaster(path string, change func(*Master) (*Master, error)) (*Master, error) {
	old, err := LoadMaster(path)
	if err != nil {
		return nil, err
	}
	m, err := change(old)
	if err != nil {
		return nil, err
	}
	body, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("change master key: %w", err)
	}
	if err := replaceWhole(path, body, func() error {
		now, err := LoadMaster(path)
		if err == nil && !now.equal(old) {
			err = errors.New("somebody else changed the file")
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("change master key: %w", err)
	}
	return m, nil
}

// LoadMaster reads a master key file. One that others than owner and group may access is refused.
func LoadMaster(path string) (*Master, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("load master key: everybody may access %s: run `chmod 600` on it", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxMasterFile))
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	m, err := parseMaster(body)
	if err != nil {
		return nil, fmt.Errorf("load master key: %w", err)
	}
	return m, nil
}

// createWhole makes a file that must not exist; it appears with all its content, flushed.
func createWhole(path string, body []byte) error {
	tmp, err := writeTemp(path, body)
	if err != nil {
		return err
	}
	err = os.Link(tmp, path) // unlike a rename it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %s", ErrMasterExists, path)
	}
	return errors.Join(err, os.Remove(tmp), syncDir(path))
}

// replaceWhole puts body in the place of a file, with its owner and mode, unless a last look at it says otherwise.
func replaceWhole(path string, body []byte, look func() error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, body)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		err = os.Chown(tmp, int(owner.Uid), int(owner.Gid))
	}
	if err = errors.Join(err, os.Chmod(tmp, info.Mode().Perm())); err == nil {
		err = look()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(path)
}

func writeTemp(path string, body []byte) (string, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(append(body, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}

// syncDir flushes the directory, so that the name of a new file survives a power cut.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
