//go:build !linux

package node

import "syscall"

func tied() *syscall.SysProcAttr { return nil }
