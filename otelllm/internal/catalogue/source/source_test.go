package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLoadRefuses: each problem of an entry is found.
func TestLoadRefuses(t *testing.T) {
	const good = `{id: any-x, provider: any, status: 429, code: x, kind: rate_limited, passes: true, source: s}`
	for name, tt := range map[string]struct{ entry, problem string }{
		"good":                 {good, ""},
		"an unknown field":     {`{id: any-y, colour: red}`, "colour"},
		"an id twice":          {`{id: any-x, provider: any, status: 404, kind: not_found, source: s}`, "unique"},
		"the provider":         {`{id: any-y, provider: acme, status: 404, kind: not_found, source: s}`, "acme"},
		"the kind":             {`{id: any-y, provider: any, status: 404, kind: gone, source: s}`, "gone"},
		"the history":          {`{id: any-y, provider: any, status: 400, code: y, history: odd, source: s}`, "odd"},
		"no source":            {`{id: any-y, provider: any, status: 404, kind: not_found}`, "source"},
		"a short phrase":       {`{id: any-y, provider: any, phrase: quota, kind: not_found, source: s}`, "8 bytes"},
		"a phrase in capital":  {`{id: any-y, provider: any, phrase: Quota exceeded, kind: not_found, source: s}`, "lower case"},
		"nothing decides":      {`{id: any-y, provider: any, in_band: true, kind: not_found, source: s}`, "nothing decides"},
		"another meaning":      {`{id: any-y, provider: any, code: X, kind: not_found, source: s}`, "something else in any-x"},
		"another, exact":       {`{id: any-y, provider: any, status: 404, code: X, exact: true, kind: not_found, source: s}`, ""},
		"by another thing":     {`{id: any-y, provider: any, status: 429, by: luck, kind: quota_exhausted, source: s}`, "by may be"},
		"a period, no body":    {`{id: any-y, provider: any, status: 429, by: period, kind: quota_exhausted, source: s}`, "has an example"},
		"a period that passes": {`{id: any-y, provider: any, status: 429, by: period, kind: rate_limited, example: x, source: s}`, "quota_exhausted"},
		"a host of a code":     {`{id: any-y, provider: any, code: y, host: h, kind: not_found, source: s}`, "only a phrase"},
		"a wait nowhere":       {`{id: any-y, provider: any, code: y, kind: not_found, wait: soon, source: s}`, "soon"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, errorsFile), []byte("- "+good+"\n- "+tt.entry+"\n"), 0o600))
		if name == "good" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, errorsFile), []byte("- "+good+"\n"), 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, finishFile), []byte("- {id: any-f, provider: any, protocol: chat, reason: stop, means: good, source: s}\n"), 0o600))
		_, _, err := Load(dir)
		if tt.problem == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), tt.problem, name)
	}
}

// TestLoadIntermediaries: each problem is found.
func TestLoadIntermediaries(t *testing.T) {
	for file, problem := range map[string]string{
		"servers: [nginx]\nstatuses: [407]": "",
		"servers: [Nginx]":                  "lower case",
		"servers: [nginx/1.25]":             "slash",
		"servers: ['']":                     "lower case",
		"statuses: [200]":                   "200",
		"own: {types: [New_API_error]}":     "lower case",
		"colour: red":                       "colour",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, intermediariesFile), []byte(file), 0o600))
		_, err := LoadIntermediaries(dir)
		if problem == "" {
			require.NoError(t, err, file)
			continue
		}
		require.ErrorContains(t, err, problem, file)
	}
}

// TestLoadPeriodsRefuses: the words are unique and in the form in which texts are compared.
func TestLoadPeriodsRefuses(t *testing.T) {
	const rest = "short: [b]\nlimits: [c]\ncounted: [d]\nspent: [e]\nowners: [f]\n"
	for long, problem := range map[string]string{
		"[a]": "", "[]": "empty", "[Daily]": "lower case", "[per-day]": "blanks", "[a.]": "expression", "[a, a]": "unique", "[b]": "unique",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, periodsFile), []byte("long: "+long+"\n"+rest), 0o600))
		_, err := LoadPeriods(dir)
		if problem == "" {
			require.NoError(t, err, long)
			continue
		}
		require.ErrorContains(t, err, problem, long)
	}
}
