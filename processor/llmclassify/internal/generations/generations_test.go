package generations

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var t0 = time.Unix(1_700_000_000, 0)

func after(d time.Duration) time.Time { return t0.Add(d) }

// What is added is kept for one period at least and for two at most.
func TestRotate(t *testing.T) {
	g := Of[[]int]{Period: 10, Began: t0}
	g.Now = append(g.Now, 1)
	_, turned := g.Rotate(after(9))
	assert.False(t, turned)
	g.Now = append(g.Now, 2)
	forgotten, turned := g.Rotate(after(10))
	assert.True(t, turned)
	assert.Empty(t, forgotten)
	assert.Empty(t, g.Now)
	assert.Equal(t, []int{1, 2}, g.Previous)
	_, turned = g.Rotate(after(19))
	assert.False(t, turned, "the period began with the generation")
	forgotten, turned = g.Rotate(after(20))
	assert.True(t, turned)
	assert.Equal(t, []int{1, 2}, forgotten)
	assert.Empty(t, g.Previous)
}

// What a turn moves to the older half is kept for a period from then on, if there is room.
func TestTurn(t *testing.T) {
	g := Of[int]{Now: 1, Previous: 2, Period: 10, Began: t0}
	_, turned := g.Rotate(after(9))
	assert.False(t, turned)
	assert.Equal(t, 2, g.Turn())
	assert.Equal(t, 1, g.Previous)
	assert.Zero(t, g.Now)
	_, turned = g.Rotate(after(18))
	assert.False(t, turned)
	forgotten, turned := g.Rotate(after(19))
	assert.True(t, turned)
	assert.Equal(t, 1, forgotten)

	g = Of[int]{Period: 10, Began: after(5)}
	g.Turn() // before the first call of Rotate
	_, turned = g.Rotate(after(14))
	assert.False(t, turned)

	g = Of[int]{Now: 1}
	_, turned = g.Rotate(after(time.Hour))
	assert.False(t, turned, "there is no period")
}

func TestCacheForgets(t *testing.T) {
	var forgotten []string
	c := NewCache[string, int](10, 100)
	c.Forgot = func(key string, _ int) { forgotten = append(forgotten, key) }
	assert.True(t, c.Put(t0, "asked for", 1))
	assert.True(t, c.Put(t0, "other", 2))
	for _, at := range []time.Duration{10, 20, 30} {
		value, ok := c.Get(after(at), "asked for")
		assert.True(t, ok)
		assert.Equal(t, 1, value)
	}
	_, ok := c.Get(after(30), "other")
	assert.False(t, ok)
	assert.Equal(t, []string{"other"}, forgotten)
	assert.Equal(t, 1, c.Len())

	value, ok := c.Take("asked for")
	assert.True(t, ok)
	assert.Equal(t, 1, value)
	_, ok = c.Take("asked for")
	assert.False(t, ok)
	assert.Len(t, forgotten, 1)
	assert.Zero(t, c.Len())

	c.Put(after(30), "taken from the older half", 3)
	c.Put(after(40), "newer", 4)
	_, ok = c.Take("taken from the older half")
	assert.True(t, ok)
	assert.Equal(t, 1, c.Size())
}

// Of more than the limit the older half goes, each entry with its size.
func TestCacheLimit(t *testing.T) {
	c := NewCache[int, int](0, 100)
	c.SizeOf = func(size int) int { return size }
	assert.False(t, c.Put(t0, -1, 101), "it has no room at all")
	assert.True(t, c.Put(t0, 0, 100))
	assert.True(t, c.Put(t0, 0, 50), "in place of the other")
	assert.Equal(t, 50, c.Size())
	assert.True(t, c.Put(t0, 1, 51))
	assert.Equal(t, 101, c.Size())
	assert.True(t, c.Put(t0, 2, 50))
	_, ok := c.Get(t0, 0)
	assert.False(t, ok)
	for key, size := range map[int]int{1: 51, 2: 50} {
		value, ok := c.Get(t0, key)
		assert.True(t, ok)
		assert.Equal(t, size, value)
	}
}

// Whatever is done with it, sizes and calls of Forgot agree with what is there.
func TestCacheAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	there := map[int]int{}
	c := NewCache[int, int](100, 200)
	c.SizeOf = func(size int) int { return size }
	c.Forgot = func(key, size int) {
		want, ok := there[key]
		require.True(t, ok)
		require.Equal(t, want, size)
		delete(there, key)
	}
	now := t0
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(10)))
		key, size := r.IntN(40), r.IntN(30)
		switch r.IntN(4) {
		case 0:
			want, ok := there[key]
			value, found := c.Take(key)
			require.Equal(t, ok, found)
			require.Equal(t, want, value)
			delete(there, key)
		case 1:
			value, found := c.Get(now, key)
			want, ok := there[key]
			require.Equal(t, ok, found)
			require.Equal(t, want, value)
		default:
			c.Take(key)
			delete(there, key)
			require.True(t, c.Put(now, key, size))
			there[key] = size
		}
		sum := 0
		for _, size := range there {
			sum += size
		}
		require.Equal(t, sum, c.Size())
		require.Len(t, there, c.Len())
		require.LessOrEqual(t, c.Size(), 2*200)
	}
}
