//go:build linux

package powercut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// root is a directory with one file for each life of a medium, named by its number: the system's own cache of an earlier
// life's file cannot bring back what the cut took.
type root struct {
	fs.Inode
	medium *Medium
}

var _ fs.NodeLookuper = (*root)(nil)

// Lookup finds the file of the present life.
func (r *root) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	life := r.medium.Life()
	if name != strconv.Itoa(life) {
		return nil, syscall.ENOENT
	}
	d := &disk{medium: r.medium, life: life}
	d.attributes(&out.Attr)
	return r.NewInode(ctx, d, fs.StableAttr{Mode: syscall.S_IFREG, Ino: uint64(life) + 2}), 0
}

// disk is the medium as a file.
type disk struct {
	fs.Inode
	medium *Medium
	life   int
}

var (
	_ fs.NodeOpener    = (*disk)(nil)
	_ fs.NodeGetattrer = (*disk)(nil)
	_ fs.NodeReader    = (*disk)(nil)
	_ fs.NodeWriter    = (*disk)(nil)
	_ fs.NodeFsyncer   = (*disk)(nil)
)

func (d *disk) attributes(a *fuse.Attr) {
	a.Mode, a.Size, a.Blocks, a.Blksize = syscall.S_IFREG|0o600, uint64(d.medium.Size()), uint64(d.medium.Size())/sectorSize, pageSize
}

// Getattr gives the size.
func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	d.attributes(&out.Attr)
	return 0
}

// Open asks the system to bring each request here at once.
func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read reads.
func (d *disk) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := d.medium.Read(d.life, dest, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write writes.
func (d *disk) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if err := d.medium.Write(d.life, data, off); err != nil {
		return 0, syscall.EIO
	}
	return uint32(len(data)), 0
}

// Fsync is how the loop device flushes.
func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if err := d.medium.Flush(d.life); err != nil {
		return syscall.EIO
	}
	return 0
}

// serve shows a medium as files in dir until the server is unmounted.
func serve(dir string, m *Medium) (*fuse.Server, error) {
	s, err := fs.Mount(dir, &root{medium: m}, &fs.Options{MountOptions: fuse.MountOptions{
		FsName: "pilot-powercut", Name: "powercut", MaxWrite: 512 << 10, DisableXAttrs: true, DirectMountStrict: true,
	}})
	if err != nil {
		return nil, fmt.Errorf("mount the medium: %w", err)
	}
	return s, nil
}
