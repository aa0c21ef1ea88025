package bench

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/bench/internal/cpu"
)

// oneCore runs the benchmark on one core, as the figures are said to be, and in a
// heap of the size that a small agent has: in an empty one the garbage collector
// would run every few calls, and whom it meets would be chance.
func oneCore(b *testing.B) {
	b.Helper()
	before := runtime.GOMAXPROCS(1)
	ballast := make([]byte, 64<<20)
	b.Cleanup(func() {
		runtime.KeepAlive(ballast)
		runtime.GOMAXPROCS(before)
	})
}

// round runs each variant once, in random order, and returns what each took.
func round(spent []time.Duration, variants ...func() time.Duration) []time.Duration {
	spent = slices.Grow(spent[:0], len(variants))[:len(variants)]
	for _, i := range rand.Perm(len(variants)) {
		spent[i] = variants[i]()
	}
	return spent
}

// timed is the processor time of f.
func timed(f func()) func() time.Duration {
	return func() time.Duration {
		start := cpu.Time()
		f()
		return cpu.Time() - start
	}
}
