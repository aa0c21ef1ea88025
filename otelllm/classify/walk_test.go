package classify

import "testing"

// walkStep is one in how many combinations an exhaustive test walks: all of them,
// but a sample, one in so many, where time is short. A prime that divides the size of
// no dimension makes the sample hold every value of each, and every pair of them.
func walkStep(sample int) int {
	if testing.Short() {
		return sample
	}
	return 1
}
