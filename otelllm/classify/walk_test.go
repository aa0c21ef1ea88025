package classify

import (
	"testing"

	"github.com/otelllm/otelllm-go/internal/race"
)

// walkStep returns the step of an exhaustive test: 1, or sample with -short or the race
// detector. If sample is a prime that divides the size of no dimension, the sample contains
// every value of each dimension, and every pair of them.
func walkStep(sample int) int {
	if testing.Short() || race.Enabled {
		return sample
	}
	return 1
}
