//go:build unix

package process

import "syscall"

// ownGroup puts the program in its own process group, so that the terminal's interrupt
// does not reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
