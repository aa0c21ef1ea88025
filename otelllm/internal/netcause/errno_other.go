//go:build !unix && !windows

package netcause

// errnoName: this platform has no errnos that are known here.
func errnoName(error) (string, bool) { return "", false }
