//go:build !linux

// Package cpu reads how much processor time this process has used.
package cpu

import "time"

var started = time.Now()

// Time is the time since the process began: good enough on a machine that does
// nothing else.
func Time() time.Duration { return time.Since(started) }
