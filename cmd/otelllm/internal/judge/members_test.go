package judge

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Objects, lists and texts are read as encoding/json reads them, however they are written.
func TestMembers(t *testing.T) {
	seeds := []string{
		`{}`, ` { } `, `{"a":1}`, "{ \"a\" : [ 1 , {\"b\":\"]\"} ] ,\t\"a\":-0.5e-3 ,\r\n\"c\":null}", `{"":"","a\"b\\":"}","\u00e4\ud83d\ude00":"\ud83d","x":"ä` + "\xff" + `"}`,
		`{"s":"\\","t":true,"f":false,"n":12345678901234567890,"o":{"x":[[],[{}],"\"]"],"y":{}},"l":["a","b\n",null,""]}`,
	}
	random := rand.New(rand.NewPCG(41, 3))
	const alphabet = "{}[],:\"\\ \n\tabntfu01e.-\xff\xc3\xa4"
	valid := 0
	for i := range 30_000 {
		raw := []byte(seeds[i%len(seeds)])
		for range random.IntN(4) {
			raw[random.IntN(len(raw))] = alphabet[random.IntN(len(alphabet))]
		}
		var want map[string]json.RawMessage
		l, err := parseLine(raw)
		if json.Unmarshal(raw, &want) != nil || want == nil {
			require.ErrorContains(t, err, "not a JSON object", "%q", raw)
			continue
		}
		valid++
		got := make(map[string]json.RawMessage)
		members(t, raw, func(key, value []byte) {
			name, ok := textOf(key)
			require.True(t, ok)
			got[name] = value
		})
		require.Equal(t, want, got, "%q", raw)
		for _, value := range want {
			requireAsDecoded(t, value)
		}
		assert.NotNil(t, l.facts)
	}
	assert.Greater(t, valid, 5_000)
}

func members(t *testing.T, raw []byte, each func(key, value []byte)) {
	t.Helper()
	var trimmed json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &trimmed))
	eachMember(trimmed, each)
}

// requireAsDecoded compares a text, or the elements of a list.
func requireAsDecoded(t *testing.T, value json.RawMessage) {
	t.Helper()
	var text string
	isText := json.Unmarshal(value, &text) == nil && string(value) != "null"
	got, ok := textOf(value)
	require.Equal(t, isText, ok, "%q", value)
	require.Equal(t, text, got, "%q", value)
	var list, elements []json.RawMessage
	if json.Unmarshal(value, &list) == nil && list != nil {
		eachMember(value, func(key, element []byte) {
			require.Nil(t, key)
			elements = append(elements, element)
		})
		require.Len(t, elements, len(list), "%q", value)
		for i := range list {
			require.Equal(t, list[i], elements[i], "%q", value)
			requireAsDecoded(t, list[i])
		}
	}
}
