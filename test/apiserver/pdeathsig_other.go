//go:build !linux

package apiserver

import "syscall"

// DieWithParent does nothing where there is no such thing: a process that the test leaves behind must be ended by hand.
func DieWithParent() *syscall.SysProcAttr { return nil }
