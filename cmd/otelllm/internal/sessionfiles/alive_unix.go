//go:build unix

package sessionfiles

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// locked reports whether a process holds the lock of a file, as flock(2) gives it. It holds a
// shared lock itself for a moment if none does.
func locked(name string) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err // closing the file gives the lock back
}

// runs reports whether a process runs, and whether that is known.
func runs(pid int) (running, known bool) {
	if pid <= 0 {
		return false, false
	}
	switch err := unix.Kill(pid, 0); {
	case err == nil, errors.Is(err, unix.EPERM):
		return !isZombie(pid), true
	case errors.Is(err, unix.ESRCH):
		return false, true
	default:
		return false, false
	}
}
