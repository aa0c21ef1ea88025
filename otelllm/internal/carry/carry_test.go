package carry

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The result of Append is that of append, for an event of any length in pieces of any
// size, while other goroutines assemble theirs.
func TestAppend(t *testing.T) {
	for _, piece := range []int{1, 100, Keep - 1, Keep, Keep + 1, medium - 1, medium + 1, large, large + 1} {
		var got, want [3][]byte
		for range 3 { // again, in the buffers that were returned
			for len(want[0]) <= 2*large {
				for i := range got {
					b := bytes.Repeat([]byte{byte('a' + i + len(want[i])%20)}, piece)
					var ok bool
					got[i], ok = Append(got[i], b)
					assert.True(t, ok)
					want[i] = append(want[i], b...)
				}
			}
			for i := range got {
				assert.True(t, bytes.Equal(want[i], got[i]), "pieces of %d bytes", piece)
				got[i], want[i] = Reset(got[i]), want[i][:0]
				assert.Empty(t, got[i])
				assert.LessOrEqual(t, cap(got[i]), Keep)
			}
		}
	}
}

func TestResetKeepsWhatIsSmall(t *testing.T) {
	b := Reset(appended(t, nil, make([]byte, Keep)))
	assert.Equal(t, Keep, cap(b))
	assert.Zero(t, testing.AllocsPerRun(10, func() { b = Reset(appended(t, b, make([]byte, 1000))) }))
	assert.Nil(t, Reset(nil))
}

// A long event allocates, other than its pooled buffers, only their two slices.
func TestLongEventsShareBuffers(t *testing.T) {
	piece := make([]byte, Keep)
	allocs := testing.AllocsPerRun(1000, func() {
		var b []byte
		for range large / Keep {
			b = appended(t, b, piece)
		}
		Reset(b)
	})
	// The first piece has a new buffer; a garbage collection empties the pools, and so,
	// at times, does the race detector.
	assert.Less(t, allocs, 6.0)
}

func appended(t *testing.T, to, b []byte) []byte {
	t.Helper()
	sum, ok := Append(to, b)
	if !ok {
		t.Fatal("there is no room")
	}
	return sum
}

// What all streams hold is bounded: beyond the bound a buffer stays unchanged until another
// one is returned.
func TestMost(t *testing.T) {
	before := Held()
	var all [][]byte
	piece := make([]byte, 10<<20)
	for {
		b, ok := Append(nil, piece)
		if !ok {
			assert.Nil(t, b)
			break
		}
		all = append(all, b)
		assert.LessOrEqual(t, Held(), int64(Most))
	}
	assert.GreaterOrEqual(t, Held(), int64(Most-2*len(piece)))
	small, ok := Append(nil, make([]byte, Keep))
	assert.True(t, ok, "what a stream keeps anyway does not count")
	kept, ok := Append(small, piece)
	assert.False(t, ok)
	assert.Len(t, kept, Keep)

	Drop(all[0])
	kept, ok = Append(small, piece)
	assert.True(t, ok)
	assert.Len(t, kept, Keep+len(piece))
	Reset(kept)
	for _, b := range all[1:] {
		assert.Nil(t, Reset(b))
	}
	assert.Equal(t, before, Held())
}

// The accounting is right for any sizes.
func TestHeldIsExact(t *testing.T) {
	before := Held()
	for size := 1; size < 3*large; size += size/3 + 1 {
		var b []byte
		for len(b) < 4*large {
			b = appended(t, b, make([]byte, size))
			want := int64(0)
			if cap(b) > Keep {
				want = int64(cap(b))
			}
			if !assert.Equal(t, before+want, Held(), "pieces of %d bytes", size) {
				return
			}
		}
		Drop(b)
	}
	assert.Equal(t, before, Held())
}
