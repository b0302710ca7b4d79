package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
)

// sharedRoot takes the clusters of data directories which the server's user cannot reach.
const sharedRoot = "/var/lib/pilot-postgres"

// place finds the directory that holds, or shall hold, the cluster's files: `cluster` in the data directory, or, when
// the user the server runs as cannot reach that, one outside named after the data directory and recorded in its file
// `place`. The parents of the answer exist and the user can traverse them.
func place(dataDir string, owner *user, log zerolog.Logger) (string, error) {
	record := filepath.Join(dataDir, "place")
	if raw, err := os.ReadFile(record); err == nil {
		outside := strings.TrimSpace(string(raw))
		return outside, publicDir(filepath.Dir(outside))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read place of cluster: %w", err)
	}
	inside := filepath.Join(dataDir, "cluster")
	if owner == nil {
		return inside, nil
	}
	if err := os.Chmod(dataDir, 0o711); err != nil { //nolint:gosec // the server's user passes through and reads nothing
		return "", fmt.Errorf("open data directory to the server's user: %w", err)
	}
	if owner.reaches(dataDir) {
		return inside, nil
	}
	sum := sha256.Sum256([]byte(dataDir))
	name := hex.EncodeToString(sum[:6])
	var errs []error
	for _, root := range []string{sharedRoot, filepath.Join(os.TempDir(), "pilot-postgres")} {
		if err := publicDir(root); err != nil {
			errs = append(errs, err)
			continue
		}
		if !owner.reaches(root) {
			errs = append(errs, fmt.Errorf("user %s cannot reach %s", owner.name, root))
			continue
		}
		outside, err := vacant(filepath.Join(root, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := writeFile(record, outside+"\n"); err != nil {
			return "", fmt.Errorf("record place of cluster: %w", err)
		}
		log.Info().Str("dataDir", dataDir).Str("cluster", outside).Str("user", owner.name).
			Msg("the server's user cannot reach the data directory: the cluster's files live elsewhere")
		return outside, nil
	}
	return "", fmt.Errorf("find a place for the cluster that user %s can reach: %w", owner.name, errors.Join(errs...))
}

// vacant gives a path where nothing is: a data directory that was thrown away left its cluster behind, whose password is gone.
func vacant(path string) (string, error) {
	for n := 1; n <= 1000; n++ {
		try := path
		if n > 1 {
			try += "-" + strconv.Itoa(n)
		}
		if _, err := os.Lstat(try); errors.Is(err, fs.ErrNotExist) {
			return try, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("there are a thousand clusters at %s: remove those whose data directories are gone", path)
}

// publicDir makes a directory that everybody may pass and nobody but us may change, or verifies that it is one: below
// a world-writable directory somebody else could have made it first.
func publicDir(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // see above
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only this user may change", dir)
	}
	return os.Chmod(dir, 0o711) //nolint:gosec // see above
}

// reaches reports whether the user may traverse dir and all its parents.
func (u *user) reaches(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !u.traverses(info.Mode().Perm(), stat.Uid, stat.Gid) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// traverses applies the first class that fits, as the kernel does: owner, group, others.
func (u *user) traverses(mode fs.FileMode, uid, gid uint32) bool {
	switch {
	case uid == u.uid:
		return mode&0o100 != 0
	case gid == u.gid || slices.Contains(u.groups, gid):
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// writeFile replaces a file by a whole new one that only we may read.
func writeFile(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(text)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
