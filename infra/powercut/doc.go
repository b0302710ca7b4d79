// Package powercut cuts the power of a running Pilot and sees what is left of its promises.
//
// It promises that after a cut the disk holds what was flushed and, of the rest, nothing, some, or torn pages, as a disk
// that loses its power may. The disk is a file served by FUSE under a loop device, so the file system above it is a real
// one. `make powercut` runs it; docs/durability.md says what it proves.
package powercut
