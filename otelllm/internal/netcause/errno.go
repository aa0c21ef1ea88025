//go:build unix || windows

package netcause

import "syscall"

// errnoName returns the POSIX name of an errno with which network operations fail. It
// reports false for any other error.
func errnoName(err error) (string, bool) {
	errno, ok := err.(syscall.Errno) //nolint:errorlint // one link of a chain that is walked outside
	if !ok {
		return "", false
	}
	name, ok := errnoNames[errno]
	return name, ok
}
