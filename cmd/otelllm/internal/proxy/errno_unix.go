//go:build unix

package proxy

import (
	"errors"
	"syscall"
)

// errReset is the error of a Read of a connection that was reset.
const errReset = syscall.ECONNRESET

// resetErrno reports whether err is that of a connection that was reset.
func resetErrno(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
