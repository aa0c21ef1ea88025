package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	semconvFolder = "../.."
	docsFolder    = "../../../docs/reference"
)

// projectsRegistry loads the project's registry.
func projectsRegistry(t *testing.T) *registry {
	t.Helper()
	reg, err := load(os.DirFS(filepath.Join(semconvFolder, "model")))
	require.NoError(t, err)
	return reg
}

func TestCommittedFilesAreFresh(t *testing.T) {
	files, err := generate(filepath.Join(semconvFolder, "model"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, f := range files {
		committed, err := os.ReadFile(f.path(semconvFolder, docsFolder))
		require.NoError(t, err)
		if string(committed) != string(f.content) {
			t.Errorf("%s is stale: run go generate ./semconv and commit what it writes", f.name)
		}
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	first, err := render(projectsRegistry(t))
	require.NoError(t, err)
	for range 10 {
		again, err := render(projectsRegistry(t))
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

func TestRun(t *testing.T) {
	semconv, docs := t.TempDir(), filepath.Join(t.TempDir(), "new", "folder")
	model := filepath.Join(semconv, "model")
	require.NoError(t, os.CopyFS(model, os.DirFS(filepath.Join(semconvFolder, "model"))))
	require.NoError(t, run(semconv, docs))
	files, err := generate(filepath.Join(semconvFolder, "model"))
	require.NoError(t, err)
	for _, f := range files {
		written, err := os.ReadFile(f.path(semconv, docs))
		require.NoError(t, err)
		assert.Equal(t, string(f.content), string(written), f.name)
		assert.Contains(t, string(written), "DO NOT EDIT.", f.name)
	}

	require.NoError(t, os.WriteFile(filepath.Join(model, "tool.yaml"), []byte("groups: []\n"), 0o644))
	fresh := filepath.Join(docs, "never")
	require.ErrorContains(t, run(semconv, fresh), `attribute "llm.tool.effect": it is defined neither here nor in OpenTelemetry`)
	assert.NoDirExists(t, fresh, "a broken registry has written something")
}

// The contract is written down a second time, by hand, so that the registry cannot change
// it accidentally.
func TestRegistryKeepsTheContract(t *testing.T) {
	reg := projectsRegistry(t)
	have := map[string]bool{}
	for _, d := range reg.definitions() {
		typ := d.typ
		if typ == typeEnum {
			typ += " " + d.goType
		}
		have["attribute "+d.id+" "+typ] = true
	}
	for _, e := range reg.enums() {
		words := []string{"enum", e.goType}
		for _, m := range e.members {
			words = append(words, m.value)
		}
		have[strings.Join(words, " ")] = true
	}
	for _, g := range reg.ofKind(kindEvent) {
		have["event "+g.name] = true
	}
	for _, g := range reg.ofKind(kindSpan) {
		if _, fixed := fixedSpanName(g); fixed {
			have["span "+g.spanName] = true
		}
	}
	for _, want := range lines(t, "contract.txt") {
		assert.True(t, have[want], "the contract says, and the registry does not: %s", want)
		delete(have, want)
	}
	for line := range have {
		t.Errorf("the registry says, and the contract does not: %s", line)
	}
}

// lines returns the lines of a file under testdata that are neither empty nor comments.
func lines(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	var all []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	require.NotEmpty(t, all, name)
	return all
}

func TestGoName(t *testing.T) {
	for name, want := range map[string]string{
		"llm.run.id":                "RunID",
		"llm.stream.tool_call_ids":  "StreamToolCallIDs",
		"llm.stream.text_chunks":    "StreamTextChunks",
		"llm.abort":                 "Abort",
		"clean_eof":                 "CleanEOF",
		"dns_not_found":             "DNSNotFound",
		"tls":                       "TLS",
		"http_error":                "HTTPError",
		"h2_goaway":                 "H2Goaway",
		"idle":                      "Idle",
		"closed_before_headers":     "ClosedBeforeHeaders",
		"llm.provider_error.kind":   "ProviderErrorKind",
		"llm.run.abandoned":         "RunAbandoned",
		"llm.failure.class":         "FailureClass",
		"llm.classification.client": "ClassificationClient",
	} {
		assert.Equal(t, want, goName(name), name)
	}
}

// A cause with the same name as a fact must also have the same description.
func TestCausesMeanWhatTheirFactsMean(t *testing.T) {
	briefs := map[string]map[string]string{}
	for _, e := range projectsRegistry(t).enums() {
		briefs[e.goType] = map[string]string{}
		for _, m := range e.members {
			briefs[e.goType][m.value] = m.brief
		}
	}
	for _, enum := range []struct{ name, prefix string }{
		{name: "TransportCause"},
		{name: "ProviderErrorKind"},
		{name: "WatchdogKind", prefix: "A watchdog. "},
		{name: "AbortSource"},
	} {
		require.NotEmpty(t, briefs[enum.name])
		for value, brief := range briefs[enum.name] {
			cause := value
			switch {
			case enum.name == "TransportCause" && value == "cancelled":
				continue // not a fault of the transport, so never a cause
			case enum.name == "AbortSource" && value == "consumer":
				cause = "consumer_closed"
			case enum.name == "AbortSource" && value == "watchdog":
				continue // the kind of the watchdog is the cause
			}
			assert.Equal(t, enum.prefix+brief, briefs["Cause"][cause], "%s %s", enum.name, value)
		}
	}
}
