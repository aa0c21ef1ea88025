package collector

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestRedactionKnowsKeys checks that config-redaction.yaml masks the keys of every form that the client's own
// redaction knows by its prefix.
func TestRedactionKnowsKeys(t *testing.T) {
	text, err := os.ReadFile("config-redaction.yaml")
	require.NoError(t, err)
	var config struct {
		Processors struct {
			Redaction struct {
				BlockedValues []string `yaml:"blocked_values"`
			} `yaml:"redaction"`
		} `yaml:"processors"`
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	var blocked []*regexp.Regexp
	for _, p := range config.Processors.Redaction.BlockedValues {
		blocked = append(blocked, regexp.MustCompile(p))
	}
	require.NotEmpty(t, blocked)
	masked := func(s string) bool {
		for _, p := range blocked {
			s = p.ReplaceAllString(s, "****")
		}
		return strings.Contains(s, "****")
	}
	const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	sets := map[string]string{
		"b62": alphanumeric, "b64": alphanumeric + "_-", "std": alphanumeric + "+/", "low": alphanumeric[26:], "az": alphanumeric[:52],
		"cap": alphanumeric[:26] + "0123456789", "hex": "0123456789abcdef", "dig": "0123456789",
	}
	r := rand.New(rand.NewPCG(1, 2))
	part := regexp.MustCompile(`\{(\w+):(\d+)\}`)
	corpus, err := os.ReadFile("../../otelllm/internal/redact/testdata/keys.txt")
	require.NoError(t, err)
	n := 0
	for line := range strings.SplitSeq(strings.TrimSpace(string(corpus)), "\n") {
		issuer, pattern, ok := strings.Cut(line, "\t")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(pattern, "{") {
			continue
		}
		require.True(t, ok, line)
		n++
		key := part.ReplaceAllStringFunc(pattern, func(p string) string {
			m := part.FindStringSubmatch(p)
			length, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			var b strings.Builder
			for range length {
				b.WriteByte(sets[m[1]][r.IntN(len(sets[m[1]]))])
			}
			return b.String()
		})
		assert.True(t, masked("it says "+key+" there"), "%s: %s", issuer, key)
		assert.True(t, masked(key), "%s: %s", issuer, key)
	}
	assert.Greater(t, n, 100)
	// Ids, codes, types and hosts stay as they are. A name of words behind such a prefix does not.
	for _, file := range []string{"ids", "codes", "types", "hosts"} {
		text, err := os.ReadFile("../../otelllm/internal/redact/testdata/" + file + ".txt")
		require.NoError(t, err)
		for s := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			assert.False(t, masked(s), "%s: %s", file, s)
		}
	}
}
