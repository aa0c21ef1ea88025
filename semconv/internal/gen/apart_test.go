package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two vocabularies under llm. are stored in one backend. No name of one may equal a name
// of the other, or be its namespace: a store that nests attributes cannot hold both a
// value and a namespace under one name.
func TestOurNamesAreNobodyElses(t *testing.T) {
	reg := projectsRegistry(t)
	var ours []string
	for _, d := range reg.definitions() {
		ours = append(ours, d.id)
	}
	require.Len(t, ours, 89)

	for _, list := range []struct {
		file string
		// known are our names whose namespace is a name of theirs. They are part of the
		// contract, so a store that nests attributes has to flatten them.
		known map[string]string
	}{
		{file: "openinference.txt"},
		{file: "openllmetry.txt"},
	} {
		t.Run(list.file, func(t *testing.T) {
			below := map[string]string{}
			for _, theirs := range lines(t, list.file) {
				require.Regexp(t, `^llm\.[a-z0-9_.]*[a-z0-9]$`, theirs)
				for _, our := range ours {
					switch {
					case our == theirs:
						t.Errorf("%s is a name of theirs", our)
					case strings.HasPrefix(theirs, our+"."):
						t.Errorf("%s is the namespace of their %s", our, theirs)
					case strings.HasPrefix(our, theirs+"."):
						below[our] = theirs
					}
				}
			}
			if list.known == nil {
				assert.Empty(t, below)
				return
			}
			assert.Equal(t, list.known, below, "our names below one of theirs")
		})
	}
}

func TestOurNamesAreNotOpenTelemetrys(t *testing.T) {
	standard, err := otelAttributes()
	require.NoError(t, err)
	for _, d := range projectsRegistry(t).definitions() {
		assert.False(t, standard[d.id], d.id)
		for name := range standard {
			assert.False(t, strings.HasPrefix(name, d.id+".") || strings.HasPrefix(d.id, name+"."), "%s and %s", d.id, name)
		}
	}
}

func TestOtelAttributes(t *testing.T) {
	standard, err := otelAttributes()
	require.NoError(t, err)
	assert.Greater(t, len(standard), 500)
	for _, name := range []string{"gen_ai.operation.name", "gen_ai.response.time_to_first_chunk", "error.type", "server.port", "http.request.resend_count"} {
		assert.True(t, standard[name], name)
	}
	for name := range standard {
		assert.Regexp(t, `^[a-z][a-z0-9]*([._][a-z0-9]+)*$`, name)
	}

	t.Chdir(t.TempDir())
	_, err = otelAttributes()
	assert.ErrorContains(t, err, "cannot find OpenTelemetry's attributes")
}
