package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fullSize is the largest size of a file, in bytes, that a process with a full disk may
// write: less than a journal has.
const fullSize = 32 << 10

// fillDisk makes writes of a process fail, as on a full disk, or lets them succeed again.
// It limits the size of the process's files, for which it needs no privilege: a write
// beyond it fails with EFBIG in place of ENOSPC.
func fillDisk(pid int, full bool) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return fmt.Errorf("read the limit of the Collector's files: %w", err)
	}
	limit.Cur = limit.Max
	if full {
		limit.Cur = fullSize
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		return fmt.Errorf("limit the Collector's files: %w", err)
	}
	return nil
}
