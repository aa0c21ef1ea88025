package proxy

import (
	"errors"

	"golang.org/x/sys/windows"
)

// errReset is the error of a Read of a connection that was reset.
const errReset = windows.WSAECONNRESET

// resetErrno reports whether err is that of a connection that was reset.
func resetErrno(err error) bool {
	return errors.Is(err, windows.WSAECONNRESET) || errors.Is(err, windows.WSAECONNABORTED) || errors.Is(err, windows.WSAENETRESET) ||
		errors.Is(err, windows.ERROR_BROKEN_PIPE)
}

func isRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
