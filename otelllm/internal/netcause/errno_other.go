//go:build !unix && !windows

package netcause

// errnoName reports false: no errno is known on this platform.
func errnoName(error) (string, bool) { return "", false }
