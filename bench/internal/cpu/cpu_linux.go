// Package cpu reads how much processor time this process has used.
package cpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// Time returns the processor time that all threads of this process have used. It
// includes garbage collection and excludes other processes.
func Time() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
