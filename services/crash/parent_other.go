//go:build unix && !linux

package crash

import "syscall"

// dieWithParent does nothing here: processes that a killed run leaves behind are to be ended by hand.
func dieWithParent(*syscall.SysProcAttr) {}
