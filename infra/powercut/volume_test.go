//go:build linux

package powercut

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// After a cut a real file system has what was synced, as a whole or by file, and not what was only written.
func TestAFileSystemKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	if lacks := Missing(Ext4); len(lacks) > 0 {
		t.Skip("missing: ", strings.Join(lacks, ", "))
	}
	v, err := NewVolume(t.Context(), t.TempDir(), Ext4, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	write := func(name string) *os.File {
		f, err := os.Create(filepath.Join(v.Mount, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(name); err != nil {
			t.Fatal(err)
		}
		return f
	}
	fsynced, plain := write("fsynced"), write("synced with all")
	if err := fsynced.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Syncfs(int(plain.Fd())); err != nil {
		t.Fatal(err)
	}
	lost := write("lost")
	loss, err := v.Cut(t.Context(), KeepNone, rand.New(rand.NewPCG(1, 1)), func() {
		for _, f := range []*os.File{fsynced, plain, lost} {
			_ = f.Close() // as a killed process does
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"fsynced": true, "synced with all": true, "lost": false} {
		raw, err := os.ReadFile(filepath.Join(v.Mount, name))
		if want && (err != nil || string(raw) != name) {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
		if !want && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s survived a cut that found %d pages unflushed: %q, %v", name, loss.Unflushed, raw, err)
		}
	}
}

func TestMissingNamesWhatIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	lacks := strings.Join(Missing(Ext4, XFS), "\n")
	for _, c := range []string{"losetup", "mkfs.ext4", "xfs_repair"} {
		if !strings.Contains(lacks, "the command "+c) {
			t.Errorf("no word of %s in %q", c, lacks)
		}
	}
}
