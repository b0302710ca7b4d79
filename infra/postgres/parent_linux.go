package postgres

import "syscall"

// dieWithParent makes the kernel shut the server down when the thread that started it ends, SIGKILL included.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
