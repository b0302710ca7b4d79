//go:build unix && !linux

package postgres

import "syscall"

// dieWithParent does nothing here: a server left behind by a killed parent is stopped by the next start.
func dieWithParent(*syscall.SysProcAttr) {}
