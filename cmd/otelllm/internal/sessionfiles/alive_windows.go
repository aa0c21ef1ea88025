package sessionfiles

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// locked reports whether a process holds the lock of a file.
func locked(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var at windows.Overlapped
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err // closing the file gives the lock back
}

// runs reports whether a process runs, and whether that is known.
func runs(pid int) (running, known bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	switch {
	case errors.Is(err, windows.ERROR_INVALID_PARAMETER): // there is no such process
		return false, true
	case err != nil:
		return false, false
	}
	defer windows.CloseHandle(h) //nolint:errcheck // it was only looked at
	const stillActive = 259
	var code uint32
	if err := windows.GetExitCodeProcess(h, &code); err != nil {
		return false, false
	}
	return code == stillActive, true
}
