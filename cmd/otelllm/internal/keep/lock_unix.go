//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keep

import (
	"os"
	"syscall"
)

// removeOpen says that a file can be removed while it is open.
const removeOpen = true

// lock locks a file for as long as it is open, or fails at once if another one has the lock.
// The system releases it when the process ends, however it ends.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
