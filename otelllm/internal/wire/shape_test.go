package wire

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However payloads alternate, what is kept of them is bounded, and means what it was
// learnt with.
func TestShapesAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s shapes[int]
	learnt := func(n int) []byte {
		return []byte(`{"kind":"` + strings.Repeat(string(rune('a'+n%26)), 1+n*7%900) + `","text":"`)
	}
	for range 5000 {
		kind := r.IntN(40)
		text := strings.Repeat("word ", r.IntN(5))
		payload := append(append(learnt(kind), text...), `"}`...)
		if means, f := s.match(payload); means != nil {
			require.Equal(t, kind, *means)
			require.Equal(t, text != "", f.has(whatText))
			_, _, n := s.take([]byte("event: x\ndata: " + string(payload) + "\n\ndata: next"))
			require.Equal(t, len("event: x\ndata: \n\n")+len(payload), n)
		} else {
			c := cursor{b: payload}
			s.begin()
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "text" {
					s.filled(&c, whatText)
				} else {
					c.skip()
				}
			}
			require.True(t, c.end())
			s.learn([]byte("x"), payload, kind)
		}
		if r.IntN(500) == 0 {
			s.forget(func(means *int) bool { return *means%2 == 0 })
		}
		size, held := 0, 0
		for i := range s.kept {
			size += len(s.known[i].literal)
			held += cap(s.known[i].literal)
		}
		require.Equal(t, int(s.size), size)
		require.LessOrEqual(t, size, maxLiterals)
		require.LessOrEqual(t, held, 2*maxLiterals)
	}
	assert.Equal(t, maxShapes, int(s.kept))
}

// What does not fit, or has more values than a shape has holes, is not learnt.
func TestNotLearnt(t *testing.T) {
	var s shapes[int]
	learn := func(payload string) {
		c := cursor{b: []byte(payload)}
		s.begin()
		for ok := c.array(); ok; ok = c.element() {
			s.filled(&c, whatOther)
		}
		require.True(t, c.end())
		s.learn(nil, []byte(payload), 1)
	}
	learn(`[` + strings.Repeat(`"a",`, maxHoles) + `"a"]`)
	learn(`[` + strings.Repeat(" ", maxLiterals) + `"a"]`)
	assert.Zero(t, s.kept)
	learn(`[` + strings.Repeat(`"a",`, maxHoles-1) + `"a"]`)
	assert.Equal(t, 1, int(s.kept))
	s.reset()
	learn(`[` + strings.Repeat(" ", maxLiterals-len(dataField)-len(`[""]`)) + `"a"]`)
	assert.Equal(t, maxLiterals, int(s.size), "as much as there is room for")
}

// Whatever stands wherever in a string, its end is found, and as the cursor finds it.
func TestEndOfString(t *testing.T) {
	for _, mark := range []string{`"`, `\"`, `\\`, `\u00e9`, `\u00g9`, `\x`, "\n", "\x00", "\x1f", "\x20", "é", "\xff"} {
		for at := range 3 * longString {
			for _, after := range []int{0, 1, 7, 40} {
				b := []byte(`"` + strings.Repeat("x", at) + mark + strings.Repeat("y", after) + `"`)
				c := cursor{b: b}
				_, ok := c.pass()
				end := endOfString(b, 1)
				require.LessOrEqual(t, end, len(b))
				require.Equal(t, ok, end < len(b) && b[end] == '"', "%q at %d", mark, at)
				if ok {
					require.Equal(t, c.i-1, end, "%q at %d", mark, at)
				}
			}
		}
	}
}
