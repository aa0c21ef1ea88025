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

// However payloads alternate, the memory of the shapes is bounded, and a shape has the
// meaning that it was learned with.
func TestShapesAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var f fastPath
	begin := func(n int) []byte {
		return []byte(`{"kind":"` + strings.Repeat(string(rune('a'+n%26)), 1+n*41%1000) + `","text":"`)
	}
	for range 5000 {
		kind := r.IntN(40)
		text := strings.Repeat("word ", r.IntN(5))
		payload := append(append(begin(kind), text...), `"}`...)
		if delta := f.find([]byte("x"), payload); delta != nil {
			require.Equal(t, contentDelta{index: kind, text: text != ""}, *delta)
			_, n := f.take([]byte("event: x\ndata: " + string(payload) + "\n\ndata: next"))
			require.Equal(t, len("event: x\ndata: \n\n")+len(payload), n)
		} else {
			var v values
			c := cursor{b: payload, values: &v}
			filled := false
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "text" {
					filled = c.filled()
				} else {
					c.skip()
				}
			}
			require.True(t, c.end())
			f.learn([]byte("x"), payload, &v, contentDelta{index: kind, text: filled})
		}
		checkBounds(t, &f)
	}
	assert.Equal(t, maxShapes, int(f.kept))
}

func checkBounds(t *testing.T, f *fastPath) {
	t.Helper()
	size, held := 0, 0
	for _, sh := range f.shapes {
		if sh != nil {
			size += len(sh.literal)
			held += cap(sh.literal)
		}
	}
	require.Equal(t, int(f.size), size)
	require.LessOrEqual(t, size, maxLiterals)
	require.LessOrEqual(t, held, 2*maxLiterals)
}

// For any sequence of sizes the newest shape is kept, and the memory of all is bounded.
func TestRoom(t *testing.T) {
	sizes := []int{30, 600, 2000}
	const rounds = 7
	for order := range int(math.Pow(float64(len(sizes)), rounds)) {
		var f fastPath
		for i := range rounds {
			payload := []byte(`{"` + strings.Repeat(string(rune('a'+i)), sizes[order%len(sizes)]) + `":1}`)
			order /= len(sizes)
			require.True(t, f.learn(nil, payload, &values{}, contentDelta{index: i}))
			delta := f.find(nil, payload)
			require.NotNil(t, delta)
			require.Equal(t, i, delta.index)
			checkBounds(t, &f)
		}
	}
}

// Shapes of similar sizes replace one another without an allocation.
func TestLearningAllocatesNothing(t *testing.T) {
	var f fastPath
	payloads := make([][]byte, 3)
	for i, size := range []int{64, 128, 64} {
		payloads[i] = bytes.Repeat([]byte("x"), size-len(dataField))
	}
	var v values
	run := func() { // each payload in each place
		for i := range len(payloads) * maxShapes {
			f.learn(nil, payloads[i%len(payloads)], &v, contentDelta{index: i})
		}
	}
	run()
	assert.Zero(t, testing.AllocsPerRun(10, run))
}

// What does not fit, or has more values than a shape has holes, is not learned.
func TestNotLearned(t *testing.T) {
	var f fastPath
	learn := func(payload string) {
		var v values
		c := cursor{b: []byte(payload), values: &v}
		for ok := c.array(); ok; ok = c.element() {
			c.skipVarying()
		}
		require.True(t, c.end())
		f.learn(nil, []byte(payload), &v, contentDelta{})
	}
	learn(`[` + strings.Repeat(`"a",`, maxHoles) + `"a"]`)
	learn(`[` + strings.Repeat(" ", maxLiterals) + `"a"]`)
	assert.Zero(t, f.kept)
	learn(`[` + strings.Repeat(`"a",`, maxHoles-1) + `"a"]`)
	assert.Equal(t, 1, int(f.kept))
	f.reset()
	learn(`[` + strings.Repeat(" ", maxLiterals-len(dataField)-len(`[""]`)) + `"a"]`)
	assert.Equal(t, maxLiterals, int(f.size), "as much as there is room for")
}

// A payload is not learned if a reader asks whether an object or array is empty, and it is
// not: its content mostly differs.
func TestNestedValuesAreNotLearned(t *testing.T) {
	for payload, learned := range map[string]bool{
		`{"a":"b"}`: true, `{"a":""}`: true, `{"a":[]}`: true, `{"a":{}}`: true, `{"a":null}`: true, `{"a":1}`: true,
		`{"a":["b"]}`: false, `{"a":{"b":"c"}}`: false,
	} {
		var f fastPath
		var v values
		c := cursor{b: []byte(payload), values: &v}
		for _, ok := c.object(); ok; _, ok = c.key() {
			c.nonEmpty()
		}
		require.True(t, c.end())
		assert.Equal(t, learned, f.learn(nil, []byte(payload), &v, contentDelta{}), payload)
	}
}

// endOfString finds the same end of a string as the cursor, whatever the string has at any
// offset.
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

// asForm reads a payload whose members have a kind by their name: number, count, text or
// other. All of them are holes.
func asForm(payload []byte, v *values) (d contentDelta, ok bool) {
	v.reset()
	c := cursor{b: payload, values: v}
	d.counts = unknownGeminiUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "n", "o":
			c.skipVarying()
		case "c":
			d.counts[geminiThoughts] = c.varyingCount(geminiThoughts)
		case "t":
			d.text = c.filled() || d.text
		default:
			c.skip()
		}
	}
	return d, c.end()
}

// learnForm learns a payload as asForm reads it.
func learnForm(t *testing.T, f *fastPath, name, payload string) bool {
	t.Helper()
	var v values
	d, ok := asForm([]byte(payload), &v)
	require.True(t, ok)
	return f.learn([]byte(name), []byte(payload), &v, d)
}

// A payload with other values in the same places is recognised, and has the meaning that it
// has when it is parsed. A payload that differs in any other byte is not recognised.
func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		learned      string
		known, other []string
	}{
		{`{"n":1}`, []string{`{"n":0}`, `{"n":9}`, `{"n":10}`, `{"n":90}`, `{"n":1234567890123456}`}, []string{`{"n":}`, `{"n":01}`, `{"n":-1}`, `{"n":1.5}`, `{"n":"1"}`, "{\"n\":\xd0}", `{"n":1x}`, `{"m":1}`}},
		{`{"n":9}`, []string{`{"n":10}`, `{"n":0}`}, []string{`{"n":"9"}`, `{"n":-9}`}},
		{`{"n":0}`, []string{`{"n":10}`, `{"n":9}`}, []string{`{"n":00}`}},
		{`{"n":19.5}`, []string{`{"n":0.5}`, `{"n":2.5}`}, []string{`{"n":.5}`, `{"n":00.5}`, `{"n":09.5}`, `{"n":2}`, `{"n":2.6}`, `{"n":2.55}`}},
		{`{"n":19}`, []string{`{"n":9}`, `{"n":29}`}, []string{`{"n":09}`, `{"n":019}`}},
		{`{"n":-1,"t":"b"}`, []string{`{"n":-1,"t":"a"}`}, []string{`{"n":-1,"t":""}`, `{"n":-2,"t":"a"}`, `{"n":1,"t":"a"}`, `{"n":-,"t":"a"}`}},
		{`{"n":null,"t":"b"}`, []string{`{"n":null,"t":"a"}`}, []string{`{"n":null,"t":""}`, `{"n":,"t":"a"}`, `{"n":1,"t":"a"}`, `{"n":1null,"t":"a"}`}},
		{`{"c":0}`, []string{`{"c":7}`, `{"c":90}`, `{"c":123456789012}`}, []string{`{"c":}`, `{"c":01}`, `{"c":1234567890123}`, `{"c":-1}`, `{"c":1.5}`, `{"c":null}`, "{\"c\":\xd0}"}},
		{"{\"c\": 5\n}", []string{"{\"c\": 17\n}"}, []string{"{\"c\": 5x\n}", "{\"c\": x\n}", "{\"c\": \n}", "{\"c\": 5,\"c\":6\n}", "{\"c\": 5}"}},
		{`{"t":"","o":"b"}`, []string{`{"t":"","o":""}`}, []string{`{"t":"a","o":"b"}`, `{"t":null,"o":"b"}`}},
		{`{"t":"a","o":"b"}`, []string{`{"t":"b","o":""}`, `{"t":"\"\\\u00e9","o":"é"}`}, []string{`{"t":"","o":"b"}`, `{"t":"a","o":"\x"}`, `{"t":"a","o":"\`, "{\"t\":\"\x1f\",\"o\":\"b\"}", `{"t":null,"o":"b"}`}},
		{`{"t":"a","c":1,"n":2}`, []string{`{"t":"aa","c":21,"n":3}`, `{"t":"b","c":0,"n":0}`}, []string{`{"t":"","c":0,"n":0}`, `{"t":"a","c":1,"n":2} `, `{"t":"a","c":1,"n":2}}`, `{"t":"a","c":1,"c":2}`}},
	} {
		t.Run(tt.learned, func(t *testing.T) {
			var f fastPath
			require.True(t, learnForm(t, &f, "", tt.learned))
			// check reports whether a payload is recognised, and compares its meaning.
			check := func(given string) bool {
				got := f.find(nil, []byte(given))
				if got == nil {
					return false
				}
				want, ok := asForm([]byte(given), nil)
				require.True(t, ok, "%q is not well-formed", given)
				require.Equal(t, want, *got, given)
				return true
			}
			for _, given := range append(tt.known, tt.learned) {
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
	var f fastPath
	for _, payload := range []string{`{"c":null}`, `{"c":-1}`, `{"c":1.5}`, `{"c":"1"}`} {
		assert.False(t, learnForm(t, &f, "", payload), "%s is another kind of count", payload)
	}
	for learned, others := range map[string][]string{"": {"x"}, "x": {"", "y", "xx"}} {
		f.reset()
		require.True(t, learnForm(t, &f, learned, `{"c":1}`))
		assert.NotNil(t, f.find([]byte(learned), []byte(`{"c":2}`)))
		for _, name := range others {
			assert.Nil(t, f.find([]byte(name), []byte(`{"c":2}`)), "%q is not %q", name, learned)
		}
	}
}

// An event is taken with its blank line, once that has arrived.
func TestTake(t *testing.T) {
	for name, head := range map[string]string{"": "data: ", "x": "event: x\ndata: "} {
		var f fastPath
		const payload = `{"t":"a","n":1}`
		require.True(t, learnForm(t, &f, name, payload))
		for _, end := range []string{"\n\n", "\r\n\r\n"} {
			event := head + `{"t":"bb","n":23}` + end
			for _, after := range []string{"", "\n", "data"} {
				delta, n := f.take([]byte(event + after))
				require.NotNil(t, delta)
				assert.Equal(t, len(event), n)
				assert.True(t, delta.text)
			}
			for at := range event {
				delta, n := f.take([]byte(event[:at]))
				assert.Nil(t, delta)
				assert.Zero(t, n, "%q", event[:at])
			}
		}
		for _, other := range []string{"\n\n", "\n\n" + head, "\r\n\r\n", payload + "\n\n", head + payload + "\n", head + payload + "\n\r\n", head + `{"t":"","n":1}` + "\n\n", head + payload + "\ndata: 1\n\n"} {
			_, n := f.take([]byte(other))
			assert.Zero(t, n, "%q", other)
		}
	}
}
