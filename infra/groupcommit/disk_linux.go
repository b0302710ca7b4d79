package groupcommit

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// proved are the kinds of file system that `make powercut` cuts. ext2, ext3 and ext4 share one number.
var proved = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true}

// names of others, for whoever reads the refusal.
var names = map[int64]string{
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.TMPFS_MAGIC: "tmpfs", unix.NFS_SUPER_MAGIC: "nfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.FUSE_SUPER_MAGIC: "fuse", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs", unix.RAMFS_MAGIC: "ramfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.V9FS_MAGIC: "9p", 0x2fc12fc1: "zfs",
}

func supported(dir *os.File) error {
	var st unix.Statfs_t
	if err := retried(func() error { return unix.Fstatfs(int(dir.Fd()), &st) }); err != nil {
		return fmt.Errorf("ask for the file system of %s: %w", dir.Name(), err)
	}
	kind := int64(st.Type) //nolint:unconvert // another size on other machines
	if !proved[kind] {
		name := names[kind]
		if name == "" {
			name = fmt.Sprintf("a file system of type %#x", kind)
		}
		return fmt.Errorf("%w: %s is on %s, and it is proved on ext4 and xfs only", ErrUnsupported, dir.Name(), name)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("ask for the version of the system: %w", err)
	}
	if release := unix.ByteSliceToString(uts.Release[:]); !reports(release) {
		return fmt.Errorf("%w: Linux %s does not tell a failed write to who syncs a file system; 5.8 is the first that does", ErrUnsupported, release)
	}
	return nil
}

// reports tells whether syncfs of a Linux release returns the errors of earlier writes.
func reports(release string) bool {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a > 5 || a == 5 && b >= 8)
}

func syncFS(dir *os.File) error {
	if err := retried(func() error { return unix.Syncfs(int(dir.Fd())) }); err != nil {
		return fmt.Errorf("syncfs %s: %w", dir.Name(), err)
	}
	return nil
}

func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := retried(func() error { return unix.Stat(path, &st) }); err != nil {
		return 0, fmt.Errorf("ask for the device of %s: %w", path, err)
	}
	return uint64(st.Dev), nil //nolint:unconvert // another size on other machines
}

// retried repeats a call that a signal interrupted.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
