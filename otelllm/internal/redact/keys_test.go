package redact

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// sets are the sets of characters of testdata/keys.txt.
var sets = map[string]string{
	"b62": alphanumeric, "b64": alphanumeric + "_-", "std": alphanumeric + "+/", "low": "abcdefghijklmnopqrstuvwxyz0123456789",
	"az": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "cap": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "hex": "0123456789abcdef", "dig": "0123456789",
}

var inPattern = regexp.MustCompile(`\{(\w+):(\d+)\}`)

// keyOf returns a random key of the form of a pattern.
func keyOf(r *rand.Rand, pattern string) string {
	return inPattern.ReplaceAllStringFunc(pattern, func(part string) string {
		m := inPattern.FindStringSubmatch(part)
		n, _ := strconv.Atoi(m[2])
		key := make([]byte, n)
		for i := range key {
			key[i] = sets[m[1]][r.IntN(len(sets[m[1]]))]
		}
		return string(key)
	})
}

// TestKeys checks that no field records a key of any form that a scanner of secrets knows, at
// any position of the value, nor the first 56 characters of a longer one.
func TestKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, line := range values(t, "keys") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		issuer, pattern, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		least := 1.0
		if strings.HasPrefix(pattern, "{") {
			least = 0.85 // without a prefix only its randomness shows it
		}
		for name, field := range fields {
			n := 100 / sample.Every(5)
			found := 0
			for range n {
				key := keyOf(r, pattern)
				around := [...][2]string{{"", ""}, {"key:", ""}, {"invalid_", ""}, {"a.", ".b"}, {"req_", ""}}[r.IntN(5)]
				if least < 1 && around[0] == "req_" { // the rest of an id is random
					around[0] = ""
				}
				if r.IntN(2) == 0 {
					key = key[:min(len(key), 56)]
				}
				if got := field(around[0] + key + around[1]); !strings.Contains(got, key[len(key)/2:]) {
					found++
				}
			}
			assert.GreaterOrEqual(t, float64(found)/float64(n), least, "%s: %s", name, issuer)
		}
	}
}

// TestKnownIDs checks that ids with a known prefix are recorded as providers and gateways make them; those of
// hex digits in fields of other kinds, too.
func TestKnownIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, prefix := range idPrefixes {
		for _, form := range []string{"{hex:32}", "{hex:48}", "{b62:24}", "{b62:29}", "{low:26}", "{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}", "{b64:40}"} {
			for range 50 {
				id := keyOf(r, prefix+form)
				if hasToken(id) { // by chance: a dash may be followed by a short prefix
					continue
				}
				assert.Equal(t, id, ID(id))
				if strings.HasPrefix(form, "{hex:") && !strings.Contains(form, "-") {
					assert.Equal(t, id, Code(id))
					assert.Equal(t, id, Name(id))
					assert.Equal(t, id, Label(id))
				}
			}
		}
	}
	for _, id := range []string{
		"resp_0123456789abcdef0123456789abcdef", "chatcmpl-0123456789abcdef0123456789abcdef", "msg_01XFDUDYJgAACzvnptvVoYEL", "toolu_01A09q90qw90lq917835lq9x",
		"req_011CQxXyZabc123DEFghi456", "rs_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b", "fc_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
	} {
		assert.Equal(t, id, ID(id))
		assert.Equal(t, id, Code(id))
		assert.Equal(t, id, Label(id))
	}
}
