package llmclassify_test

import (
	"syscall"
	"time"
)

// threadTime is the processor time that the calling thread has had, which other
// programs on the machine do not lengthen. It wants runtime.LockOSThread.
func threadTime() (time.Duration, bool) {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
