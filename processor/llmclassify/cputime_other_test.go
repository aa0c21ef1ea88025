//go:build !linux

package llmclassify_test

import "time"

func threadTime() (time.Duration, bool) { return 0, false }
