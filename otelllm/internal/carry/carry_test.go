package carry

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// However long an event becomes and in whatever pieces it comes, it is what append
// would have made of them, while others are put together at the same time.
func TestAppend(t *testing.T) {
	for _, piece := range []int{1, 100, Keep - 1, Keep, Keep + 1, medium - 1, medium + 1, large, large + 1} {
		var got, want [3][]byte
		for range 3 { // again, in what the first time gave back
			for len(want[0]) <= 2*large {
				for i := range got {
					b := bytes.Repeat([]byte{byte('a' + i + len(want[i])%20)}, piece)
					got[i], want[i] = Append(got[i], b), append(want[i], b...)
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
	b := Reset(Append(nil, make([]byte, Keep)))
	assert.Equal(t, Keep, cap(b))
	assert.Zero(t, testing.AllocsPerRun(10, func() { b = Reset(Append(b, make([]byte, 1000))) }))
	assert.Nil(t, Reset(nil))
}

// What a long event costs beside its buffers, which are lent, is their two slices.
func TestLongEventsShareBuffers(t *testing.T) {
	piece := make([]byte, Keep)
	allocs := testing.AllocsPerRun(1000, func() {
		var b []byte
		for range large / Keep {
			b = Append(b, piece)
		}
		Reset(b)
	})
	// The first piece has a buffer of its own; a garbage collection forgets what is
	// lent, and so, at times, does the race detector.
	assert.Less(t, allocs, 6.0)
}
