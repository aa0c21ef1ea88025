package wire

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An entry is found until it is removed, and nothing else is, for any number of entries.
func TestKnown(t *testing.T) {
	for _, most := range []int{maxLinear, 3 * maxLinear} {
		r := rand.New(rand.NewPCG(1, uint64(most)))
		var k openSet[int, int]
		want := map[int]int{}
		for step := range 5000 {
			key := r.IntN(most)
			if _, there := want[key]; there {
				k.remove(key)
				delete(want, key)
			} else {
				require.Equal(t, step, *k.add(key, step))
				want[key] = step
			}
			if r.IntN(100) == 0 {
				k.removeAll(func(key int, value *int) bool {
					require.Equal(t, want[key], *value)
					if key%3 > 0 {
						return false
					}
					delete(want, key)
					return true
				})
			}
			require.Len(t, k.list, len(want))
			for key := range most {
				value, there := want[key]
				found := k.find(key)
				require.Equal(t, there, found != nil, "%d of %d", key, most)
				if there {
					require.Equal(t, value, *found)
				}
			}
		}
	}

	var k openSet[int, int]
	for n := range 4 {
		k.add(n%2, n)
	}
	assert.Equal(t, 2, *k.find(0), "what came last")
	k.remove(0)
	assert.Equal(t, 0, *k.find(0), "what came before it")
	assert.Equal(t, 3, *k.find(1))
	k.clear()
	for n := range maxOpen {
		require.NotNil(t, k.add(n, n))
	}
	assert.Nil(t, k.add(maxOpen, maxOpen))
	assert.Nil(t, k.find(maxOpen))
}
