//go:build linux

package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"pilotstatus.dev/infra/await"
)

const (
	toolLimit   = 60 * time.Second // of one mkfs, fsck, mount
	detachLimit = 30 * time.Second // until the system let go of a disk whose power was cut
	pollEvery   = 20 * time.Millisecond
	stallFor    = 50 * time.Millisecond // between the last flush that a cut lets end and the cut, so that there is something to keep or tear
)

// FileSystem is a kind of file system to cut.
type FileSystem string

// The kinds.
const (
	Ext4 FileSystem = "ext4"
	XFS  FileSystem = "xfs"
)

// tools gives the commands that make and repair it.
func (k FileSystem) tools() (mkfs, repair []string) {
	if k == XFS {
		// The log is replayed by the mount; after it the check may not find anything.
		return []string{"mkfs.xfs", "-q", "-f"}, []string{"xfs_repair", "-n"}
	}
	return []string{"mkfs.ext4", "-q", "-F"}, []string{"fsck.ext4", "-p", "-f"}
}

// Volume is a mounted file system on a medium. Its methods are for one goroutine.
type Volume struct {
	Kind  FileSystem
	Mount string // where it is mounted

	medium  *Medium
	server  *fuse.Server
	backing string // where the medium's files are
	device  string // of the loop, empty while detached
}

// NewVolume makes a medium of size bytes, a file system on it, and mounts it below dir.
func NewVolume(ctx context.Context, dir string, kind FileSystem, size int64) (_ *Volume, err error) {
	m, err := NewMedium(size)
	if err != nil {
		return nil, err
	}
	v := &Volume{Kind: kind, Mount: filepath.Join(dir, "volume"), medium: m, backing: filepath.Join(dir, "medium")}
	for _, d := range []string{v.Mount, v.backing} {
		if err := os.MkdirAll(d, 0o711); err != nil { //nolint:gosec // Postgres runs as another user
			return nil, fmt.Errorf("make a directory: %w", err)
		}
	}
	if v.server, err = serve(v.backing, m); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := v.attach(ctx); err != nil {
		return nil, err
	}
	mkfs, _ := kind.tools()
	if _, err := run(ctx, append(mkfs, v.device)...); err != nil {
		return nil, err
	}
	return v, v.mount(ctx)
}

func (v *Volume) attach(ctx context.Context) error {
	out, err := run(ctx, "losetup", "--find", "--show", filepath.Join(v.backing, strconv.Itoa(v.medium.Life())))
	if err == nil {
		v.device = strings.TrimSpace(out)
	}
	return err
}

func (v *Volume) mount(ctx context.Context) error {
	if _, err := run(ctx, "mount", "-t", string(v.Kind), v.device, v.Mount); err != nil {
		return err
	}
	if err := os.Chmod(v.Mount, 0o711); err != nil { //nolint:gosec // Postgres runs as another user
		return fmt.Errorf("open the volume: %w", err)
	}
	return nil
}

// Cut takes the power away from the disk and from whoever runs on it: kill must end them at once. When it returns the
// volume is mounted again, repaired, with what the cut left.
func (v *Volume) Cut(ctx context.Context, keep Keep, draw *rand.Rand, kill func()) (Loss, error) {
	if keep != KeepNone {
		v.medium.Stall()
		busy := time.NewTimer(stallFor)
		defer busy.Stop()
		select {
		case <-busy.C:
		case <-ctx.Done():
		}
	}
	v.medium.Fail()
	kill()
	loss := v.medium.Cut(keep, draw)
	if err := v.detach(ctx, true); err != nil {
		return loss, err
	}
	if err := v.attach(ctx); err != nil {
		return loss, err
	}
	_, repair := v.Kind.tools()
	if v.Kind == XFS {
		// Mounting replays the log; the check wants it replayed.
		if err := v.mount(ctx); err != nil {
			return loss, err
		}
		if _, err := run(ctx, "umount", v.Mount); err != nil {
			return loss, err
		}
	}
	if out, err := run(ctx, append(repair, v.device)...); err != nil {
		// fsck ends with 1 when it repaired, as after any cut.
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || v.Kind != Ext4 || exit.ExitCode() != 1 {
			return loss, fmt.Errorf("%w\n%s", err, out)
		}
	}
	return loss, v.mount(ctx)
}

// detach lets the system forget the disk; one without power is let go of before its users are.
func (v *Volume) detach(ctx context.Context, lazy bool) error {
	if v.device == "" {
		return nil
	}
	args := []string{"umount", v.Mount}
	if lazy {
		args = []string{"umount", "-l", v.Mount}
	}
	if mounted(v.Mount) {
		if _, err := run(ctx, args...); err != nil {
			return err
		}
	}
	if _, err := run(ctx, "losetup", "-d", v.device); err != nil {
		return err
	}
	released := func() bool {
		_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(v.device), "loop", "backing_file"))
		return errors.Is(err, os.ErrNotExist)
	}
	if !await.Until(ctx, detachLimit, pollEvery, released) {
		return fmt.Errorf("detach %s: still in use after %s", v.device, detachLimit)
	}
	v.device = ""
	return nil
}

// Close unmounts everything and forgets the disk.
func (v *Volume) Close(ctx context.Context) error {
	err := v.detach(ctx, false)
	if err != nil {
		v.medium.Cut(KeepNone, rand.New(rand.NewPCG(0, 0))) //nolint:gosec // nothing is kept
		err = errors.Join(err, v.detach(ctx, true))
	}
	if unmount := v.server.Unmount(); unmount != nil {
		// Somebody still holds a file of it: the kernel lets go when they do.
		return errors.Join(err, fmt.Errorf("unmount the medium: %w", unmount), syscall.Unmount(v.backing, syscall.MNT_DETACH))
	}
	v.server.Wait()
	return err
}

// run executes a tool of the system.
func run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput() //nolint:gosec // of a fixed list
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func mounted(dir string) bool {
	raw, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(raw), " "+dir+" ")
}
