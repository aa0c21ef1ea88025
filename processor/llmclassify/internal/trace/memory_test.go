package trace

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// The set does what a map does, also for hashes that are spread badly.
func TestHashes(t *testing.T) {
	for name, spread := range map[string]func(*rand.Rand) uint64{
		"spread":       func(r *rand.Rand) uint64 { return r.Uint64() },
		"few, with 0":  func(r *rand.Rand) uint64 { return r.Uint64N(100) },
		"on one place": func(r *rand.Rand) uint64 { return r.Uint64N(100) << 32 },
		"at the end":   func(r *rand.Rand) uint64 { return 1<<40 - 1 - r.Uint64N(8) - r.Uint64N(16)<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var h hashes
			want := map[uint64]bool{}
			for range 20_000 {
				key := spread(r)
				if key == 0 {
					key = 1 // the same, to the set
				}
				h.add(key)
				want[key] = true
				other := spread(r)
				if h.n != len(want) || h.contains(other) != want[max(other, 1)] {
					t.Fatalf("%d of %d hashes, %x among them: %v", h.n, len(want), other, h.contains(other))
				}
			}
			for key := range want {
				assert.True(t, h.contains(key))
			}
			assert.LessOrEqual(t, 4*h.n, 3*len(h.slots))
		})
	}
}

func TestMemoryForgets(t *testing.T) {
	m := newMemory(t0, 10, 100)
	assert.True(t, m.empty())
	m.add(7)
	m.Rotate(after(10))
	assert.True(t, m.contains(7), "for one period at least")
	m.Rotate(after(20))
	assert.False(t, m.contains(7))

	for key := range uint64(1000) {
		m.add(key + 1)
		require.LessOrEqual(t, m.Now.n+m.Previous.n, 200)
		require.True(t, m.contains(key+1))
	}
}

// That marks were forgotten to make room is known, and not that they were for their age.
func TestMarksForgotten(t *testing.T) {
	m := newMemory(t0, 10, 100)
	fill := func(n int) (lost bool) {
		for range n {
			lost = m.add(rand.Uint64()) || lost
		}
		return lost
	}
	assert.False(t, fill(1000))
	m = newMemory(t0, 10, 100)
	assert.False(t, m.mark(7))
	assert.False(t, fill(199), "there is room for a generation more")
	assert.True(t, fill(1))
	assert.False(t, fill(1000))

	m.mark(7)
	m.Rotate(after(10))
	m.Rotate(after(20))
	assert.False(t, fill(1000))

	j := newJudged(t0, time.Hour, 0)
	j.Forgot(pcommon.TraceID{1})
	j.Rotate(t0.Add(time.Minute))
	for n := range byte(250) {
		for span := range byte(10) {
			j.run(pcommon.TraceID{n, 9}, id(span+1), true)
		}
	}
	assert.Equal(t, t0.Add(time.Minute), j.Lost())
}

// What is said of the memory of what was judged is what the heap says, or more.
func TestJudgedSize(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const others = 8 << 10 // what the runtime and earlier tests take meanwhile
	for _, limit := range []int{1000, 10_000, 100_000} {
		before := heap()
		m := newMemory(t0, 10, limit)
		r := rand.New(rand.NewPCG(5, 6))
		for range limit {
			m.add(r.Uint64())
		}
		grown := heap() - before
		t.Logf("%d bytes each of %d", grown/uint64(limit), limit)
		assert.LessOrEqual(t, grown, uint64(limit*judgedSize+others))
		runtime.KeepAlive(&m)
	}
}
