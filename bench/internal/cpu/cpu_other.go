//go:build !linux

// Package cpu reads how much processor time this process has used.
package cpu

import "time"

var started = time.Now()

// Time returns the wall-clock time since the process started, which approximates the
// processor time on an otherwise idle machine.
func Time() time.Duration { return time.Since(started) }
