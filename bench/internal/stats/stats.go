// Package stats summarizes repeated measurements.
package stats

import (
	"math"
	"slices"
	"time"
)

// Median returns the median of values, the upper one of two, or zero if there are none.
func Median[T int | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Mean returns the mean of values and half the width of its 95 % confidence interval,
// which is infinite for fewer than two values.
func Mean(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if n < 2 {
		return mean, math.Inf(1)
	}
	for _, v := range values {
		half += (v - mean) * (v - mean)
	}
	return mean, 1.96 * math.Sqrt(half/(n-1)/n)
}
