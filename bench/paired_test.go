package bench

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/bench/internal/cpu"
)

// oneCore runs the benchmark on one core, as the documented figures require, and with a
// heap of the size that a small agent has. With an empty heap the garbage collector
// would run every few calls, and the variant that pays for it would be chosen by
// chance.
func oneCore(b *testing.B) {
	b.Helper()
	before := runtime.GOMAXPROCS(1)
	ballast := make([]byte, 64<<20)
	b.Cleanup(func() {
		runtime.KeepAlive(ballast)
		runtime.GOMAXPROCS(before)
	})
}

// round runs each variant once, in random order, and returns the time of each.
func round(spent []time.Duration, variants ...func() time.Duration) []time.Duration {
	spent = slices.Grow(spent[:0], len(variants))[:len(variants)]
	for _, i := range rand.Perm(len(variants)) {
		spent[i] = variants[i]()
	}
	return spent
}

// timed returns a function that measures the processor time of f.
func timed(f func()) func() time.Duration {
	return func() time.Duration {
		start := cpu.Time()
		f()
		return cpu.Time() - start
	}
}
