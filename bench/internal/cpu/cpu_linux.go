// Package cpu reads how much processor time this process has used.
package cpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// Time is the processor time that this process has used, all of its threads
// together: garbage collection counts, what else the machine does does not.
func Time() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
