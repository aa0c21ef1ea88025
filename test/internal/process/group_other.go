//go:build !unix

package process

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
