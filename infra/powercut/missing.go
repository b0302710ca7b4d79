//go:build linux

package powercut

import (
	"os"
	"os/exec"
	"slices"
)

// Missing names what this machine lacks to cut file systems of the given kinds; empty when it lacks nothing.
func Missing(kinds ...FileSystem) []string {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root (mounting, loop devices)")
	}
	for _, dev := range []string{"/dev/fuse", "/dev/loop-control"} {
		if f, err := os.OpenFile(dev, os.O_RDWR, 0); err != nil {
			lacks = append(lacks, dev)
		} else {
			_ = f.Close() // nothing was written to it
		}
	}
	commands := []string{"losetup", "mount", "umount"}
	for _, k := range kinds {
		mkfs, repair := k.tools()
		commands = append(commands, mkfs[0], repair[0])
	}
	for _, c := range slices.Compact(slices.Sorted(slices.Values(commands))) {
		if _, err := exec.LookPath(c); err != nil {
			lacks = append(lacks, "the command "+c)
		}
	}
	return lacks
}
