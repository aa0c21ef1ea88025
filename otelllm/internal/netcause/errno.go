//go:build unix || windows

package netcause

import "syscall"

// errnoName is the name of an errno that network operations fail with, by the
// name that POSIX has for it. Any other errno has none.
func errnoName(err error) (string, bool) {
	errno, ok := err.(syscall.Errno) //nolint:errorlint // one link of a chain that is walked outside
	if !ok {
		return "", false
	}
	name, ok := errnoNames[errno]
	return name, ok
}
