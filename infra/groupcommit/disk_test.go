//go:build linux

package groupcommit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenRefusesWhereItCannotHold(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{"/dev/shm": "tmpfs", "/proc": "type 0x9fa0"} {
		if _, err := os.Stat(dir); err != nil {
			t.Logf("no %s here", dir)
			continue
		}
		_, err := Open(dir)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want ErrUnsupported that names %s", dir, err, want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of nothing = %v", err)
	}
}

func TestOpenSyncsAStoreOnOneFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "streams"), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Sync(); err == nil {
		t.Error("a sync of a closed disk must fail")
	}
	if err := os.Symlink("/", filepath.Join(dir, "jetstream", "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Open of a store with a link out of it = %v", err)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"6.18.44-x": true, "5.8.0": true, "5.8": true, "5.7.19-generic": false, "4.19.0": false, "10.0": true, "": false, "x.y": false, "5": false,
	} {
		if got := reports(release); got != want {
			t.Errorf("reports(%q) = %v", release, got)
		}
	}
}
