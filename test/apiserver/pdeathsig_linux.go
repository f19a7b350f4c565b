package apiserver

import "syscall"

// DieWithParent has the kernel end a process with the one that started it, even after kill -9.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
