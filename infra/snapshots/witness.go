package snapshots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Witness keeps marks in files of a directory that is no part of the log's store. It survives a power cut as a whole: the old
// mark or the new one. One process writes to a directory.
type Witness struct{ dir string }

// NewWitness keeps marks in dir, which is made with the first.
func NewWitness(dir string) Witness { return Witness{dir: dir} }

// Write keeps m under name, on disk when it returns.
func (w Witness) Write(name string, m Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write witness %s: %w", name, err)
	}
	if err := w.replace(w.path(name), append(text, '\n')); err != nil {
		return fmt.Errorf("write witness %s: %w", name, err)
	}
	return nil
}

// Read gives the mark under name. ErrNone: there is none; ErrDamaged: the file does not decode.
func (w Witness) Read(name string) (Mark, error) {
	text, err := os.ReadFile(w.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNone
	}
	if err != nil {
		return Mark{}, fmt.Errorf("read witness %s: %w", name, err)
	}
	var m Mark
	if err := json.Unmarshal(text, &m); err != nil || m.Sequence == 0 {
		return Mark{}, fmt.Errorf("read witness %s: %w", w.path(name), errors.Join(ErrDamaged, err))
	}
	return m, nil
}

// Remove lets go of the mark under name; none there is no error.
func (w Witness) Remove(name string) error {
	if err := os.Remove(w.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove witness %s: %w", name, err)
	}
	return nil
}

func (w Witness) path(name string) string { return filepath.Join(w.dir, name+".json") }

// replace writes beside, syncs, and takes the place: file and directory entry are on disk when it returns.
func (w Witness) replace(path string, data []byte) (err error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(w.dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it is of no use, and does no harm
		}
	}()
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(w.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
