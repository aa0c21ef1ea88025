package wire

import (
	"bytes"
	"math"
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
		return []byte(`{"kind":"` + strings.Repeat(string(rune('a'+n%26)), 1+n*41%1000) + `","text":"`)
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

// Whatever sizes come after one another, the newest is kept and the rest is bounded.
func TestRoom(t *testing.T) {
	sizes := []int{30, 600, 2000}
	const rounds = 7
	for order := range int(math.Pow(float64(len(sizes)), rounds)) {
		var s shapes[int]
		for i := range rounds {
			payload := []byte(`{"` + strings.Repeat(string(rune('a'+i)), sizes[order%len(sizes)]) + `":1}`)
			order /= len(sizes)
			s.begin()
			require.True(t, s.learn(nil, payload, i))
			means, _ := s.match(payload)
			require.NotNil(t, means)
			require.Equal(t, i, *means)
			size, held := 0, 0
			for _, sh := range s.known {
				size += len(sh.literal)
				held += cap(sh.literal)
			}
			require.Equal(t, int(s.size), size)
			require.LessOrEqual(t, size, maxLiterals)
			require.LessOrEqual(t, held, 2*maxLiterals)
		}
	}
}

// Shapes of like sizes replace one another in the memory that is there.
func TestLearningAllocatesNothing(t *testing.T) {
	var s shapes[int]
	payloads := make([][]byte, 3)
	for i, size := range []int{64, 128, 64} {
		payloads[i] = bytes.Repeat([]byte("x"), size-len(dataField))
	}
	run := func() { // each payload in each place
		for i := range len(payloads) * maxShapes {
			s.begin()
			s.learn(nil, payloads[i%len(payloads)], i)
		}
	}
	run()
	assert.Zero(t, testing.AllocsPerRun(10, run))
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
	for _, mark := range []string{`"`, `\"`, `\\`, `\u00e9`, `\u00g9`, `\x`, `\`, "\n", "\x00", "\x1f", "\x20", "é", "\xff"} {
		for at := range 3 * longString {
			for _, after := range []string{"", `"`, `y"`, `yyyyyyy"`, strings.Repeat("y", 40) + `"`} {
				b := []byte(`"` + strings.Repeat("x", at) + mark + after)
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

// asForm reads a payload whose members say by their names what they are: numbers,
// counts, texts and others are holes.
func (s *values) asForm(payload []byte) (count int, text, ok bool) {
	s.begin()
	c := cursor{b: payload}
	counts := []int{-1}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "n":
			s.number(&c)
		case "c":
			s.count(&c, counts, 0)
		case "t":
			text = s.filled(&c, whatText) || text
		case "o":
			s.filled(&c, whatOther)
		default:
			c.skip()
		}
	}
	return counts[0], text, c.end()
}

// A payload with other values in the same places is recognised, and says what it says
// when it is parsed. What differs in anything else is not, be it by one byte.
func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		learnt       string
		known, other []string
	}{
		{`{"n":1}`, []string{`{"n":0}`, `{"n":9}`, `{"n":10}`, `{"n":90}`, `{"n":1234567890123456}`}, []string{`{"n":}`, `{"n":01}`, `{"n":-1}`, `{"n":1.5}`, `{"n":"1"}`, "{\"n\":\xd0}", `{"n":1x}`, `{"m":1}`}},
		{`{"n":19.5}`, []string{`{"n":0.5}`, `{"n":2.5}`}, []string{`{"n":.5}`, `{"n":00.5}`, `{"n":09.5}`, `{"n":2}`, `{"n":2.6}`, `{"n":2.55}`}},
		{`{"n":19}`, []string{`{"n":9}`, `{"n":29}`}, []string{`{"n":09}`, `{"n":019}`}},
		{`{"n":-1,"t":""}`, []string{`{"n":-1,"t":"a"}`}, []string{`{"n":-2,"t":"a"}`, `{"n":1,"t":"a"}`, `{"n":-,"t":"a"}`}},
		{`{"n":null,"t":""}`, []string{`{"n":null,"t":"a"}`}, []string{`{"n":,"t":"a"}`, `{"n":1,"t":"a"}`, `{"n":1null,"t":"a"}`}},
		{`{"c":0}`, []string{`{"c":7}`, `{"c":90}`, `{"c":123456789012}`}, []string{`{"c":}`, `{"c":01}`, `{"c":1234567890123}`, `{"c":-1}`, `{"c":1.5}`, `{"c":null}`, "{\"c\":\xd0}"}},
		{"{\"c\": 5\n}", []string{"{\"c\": 17\n}"}, []string{"{\"c\": 5x\n}", "{\"c\": x\n}", "{\"c\": \n}", "{\"c\": 5,\"c\":6\n}", "{\"c\": 5}"}},
		{`{"t":"a","o":"b"}`, []string{`{"t":"","o":""}`, `{"t":"\"\\\u00e9","o":"é"}`}, []string{`{"t":"a","o":"\x"}`, `{"t":"a","o":"\`, "{\"t\":\"\x1f\",\"o\":\"b\"}", `{"t":null,"o":"b"}`}},
		{`{"t":"a","c":1,"n":2}`, []string{`{"t":"aa","c":21,"n":3}`, `{"t":"","c":0,"n":0}`}, []string{`{"t":"a","c":1,"n":2} `, `{"t":"a","c":1,"n":2}}`, `{"t":"a","c":1,"c":2}`}},
	} {
		t.Run(tt.learnt, func(t *testing.T) {
			var s shapes[int]
			_, _, ok := s.asForm([]byte(tt.learnt))
			require.True(t, ok)
			require.True(t, s.learn(nil, []byte(tt.learnt), 1))
			// check has a payload recognised, and compares with what it says.
			check := func(given string) bool {
				means, f := s.match([]byte(given))
				if means == nil {
					return false
				}
				counts := []int{-1}
				s.recount([]byte(given), counts)
				var v values
				count, text, ok := v.asForm([]byte(given))
				require.True(t, ok, "%q is not well-formed", given)
				require.Equal(t, []any{count, text}, []any{counts[0], f.has(whatText)}, given)
				return true
			}
			for _, given := range append(tt.known, tt.learnt) {
				assert.True(t, check(given), given)
				for at := range given {
					assert.False(t, check(given[:at]), "%s cut at %d", given, at)
					for b := range 256 {
						check(given[:at] + string([]byte{byte(b)}) + given[at:])
						check(given[:at] + string([]byte{byte(b)}) + given[at+1:])
					}
				}
			}
			for _, given := range tt.other {
				assert.False(t, check(given), given)
			}
		})
	}
	var s shapes[int]
	for _, payload := range []string{`{"c":null}`, `{"c":-1}`, `{"c":1.5}`, `{"c":"1"}`} {
		_, _, ok := s.asForm([]byte(payload))
		require.True(t, ok)
		assert.False(t, s.learn(nil, []byte(payload), 1), "%s is another sort of count", payload)
	}
}

// An event is taken with the blank line that ends it, if that has come.
func TestTake(t *testing.T) {
	for name, head := range map[string]string{"": "data: ", "x": "event: x\ndata: "} {
		var s shapes[int]
		const payload = `{"t":"a","n":1}`
		_, _, ok := s.asForm([]byte(payload))
		require.True(t, ok)
		require.True(t, s.learn([]byte(name), []byte(payload), 1))
		for _, end := range []string{"\n\n", "\r\n\r\n"} {
			event := head + `{"t":"","n":23}` + end
			for _, after := range []string{"", "\n", "data"} {
				means, f, n := s.take([]byte(event + after))
				require.NotNil(t, means)
				assert.Equal(t, len(event), n)
				assert.False(t, f.has(whatText))
			}
			for at := range event {
				means, _, n := s.take([]byte(event[:at]))
				assert.Nil(t, means)
				assert.Zero(t, n, "%q", event[:at])
			}
		}
		for _, other := range []string{"\n\n", "\n\n" + head, "\r\n\r\n", payload + "\n\n", head + payload + "\n", head + payload + "\n\r\n", head + payload + "\ndata: 1\n\n"} {
			_, _, n := s.take([]byte(other))
			assert.Zero(t, n, "%q", other)
		}
	}
}

// A head ends in another payload where it ends in the one that was learnt, by as much
// later as the values in it are longer. What stands behind it does not matter.
func TestHead(t *testing.T) {
	around := []string{`{"n":`, `,"o":"`, `","m":[],"t":"`, `"}`}
	with := func(values ...string) string {
		return around[0] + values[0] + around[1] + values[1] + around[2] + values[2] + around[3]
	}
	values, others := []string{"12", "ab", "text"}, []string{"345", "", "more words"}
	learnt, other := with(values...), with(others...)
	for _, name := range []string{"", "x", strings.Repeat("x", 100)} {
		var s shapes[int]
		assert.Zero(t, s.head([]byte(learnt)), "nothing was learnt")
		_, _, ok := s.asForm([]byte(learnt))
		require.True(t, ok)
		require.True(t, s.learn([]byte(name), []byte(learnt), 1))
		assert.Zero(t, s.head([]byte(learnt)), "no head is known")
		n, want := 0, 0
		for i, literal := range around {
			for at := range len(literal) {
				_, _, ok = s.asForm([]byte(learnt))
				require.True(t, ok)
				s.learnHead(n + at + 1)
				assert.Equal(t, n+at+1, s.head([]byte(learnt)))
				assert.Equal(t, want+at+1, s.head([]byte(other)))
				assert.Equal(t, want+at+1, s.head([]byte(other[:want+at+1]+"\x00")))
				for cut := range want + at + 1 {
					assert.Zero(t, s.head([]byte(other[:cut])), "cut at %d", cut)
					if cut >= want {
						assert.Zero(t, s.head([]byte(other[:cut]+"\x00"+other[cut+1:])), "another byte at %d", cut)
					}
				}
			}
			if n, want = n+len(literal), want+len(literal); i < len(values) {
				n, want = n+len(values[i]), want+len(others[i])
			}
		}
	}
}
