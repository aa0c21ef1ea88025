//go:build !linux

package llmclassify

import "time"

func threadTime() (time.Duration, bool) { return 0, false }
