package classify

import "testing"

// walkStep returns the step of an exhaustive test: 1, or sample with -short. If sample is
// a prime that divides the size of no dimension, the sample contains every value of each
// dimension, and every pair of them.
func walkStep(sample int) int {
	if testing.Short() {
		return sample
	}
	return 1
}
