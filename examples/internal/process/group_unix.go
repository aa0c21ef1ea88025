//go:build unix

package process

import "syscall"

// ownGroup keeps the terminal's interrupt away from the program.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
