package node

import "syscall"

// tied ends the program with the test process, should that be killed.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
