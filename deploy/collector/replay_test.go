package collector

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// demoTraces returns the spans of `make demo-collector` as its agents sent them, that is, without the verdicts. `make
// validate` runs the demo first and names its file; a plain `go test` has no traces and skips.
func demoTraces(t *testing.T, v vocabulary) []map[string]any {
	t.Helper()
	path := os.Getenv("DEMO_TRACES")
	if path == "" {
		t.Skip("DEMO_TRACES names no traces: run `make validate`, which makes some")
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var batches []map[string]any
	for line := range bytes.Lines(raw) {
		var batch map[string]any
		require.NoError(t, json.Unmarshal(line, &batch))
		eachScope(batch, func(scope map[string]any) {
			var spans []any
			for _, s := range list(scope["spans"]) {
				span := s.(map[string]any)
				if span["name"] == "llm.run.abandoned" { // created by the Collector
					continue
				}
				var attributes []any
				for _, a := range list(span["attributes"]) {
					if name, _ := a.(map[string]any)["key"].(string); !v.attributes[name].verdict {
						attributes = append(attributes, a)
					}
				}
				span["attributes"] = attributes
				spans = append(spans, span)
			}
			scope["spans"] = spans
		})
		batches = append(batches, batch)
	}
	require.NotEmpty(t, batches, path)
	return batches
}

// age shifts the times of all spans so that the last one ended the given time ago.
func age(t *testing.T, batches []map[string]any, ago time.Duration) {
	t.Helper()
	times := func(do func(holder map[string]any, key string, at int64)) {
		for _, batch := range batches {
			eachScope(batch, func(scope map[string]any) {
				for _, s := range list(scope["spans"]) {
					holders := append([]any{s}, list(s.(map[string]any)["events"])...)
					for _, h := range holders {
						for _, key := range []string{"startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"} {
							if text, ok := h.(map[string]any)[key].(string); ok {
								at, err := strconv.ParseInt(text, 10, 64)
								require.NoError(t, err)
								do(h.(map[string]any), key, at)
							}
						}
					}
				}
			})
		}
	}
	var last int64
	times(func(_ map[string]any, _ string, at int64) { last = max(last, at) })
	by := time.Now().Add(-ago).UnixNano() - last
	times(func(holder map[string]any, key string, at int64) { holder[key] = strconv.FormatInt(at+by, 10) })
}

// replay sends the batches as new traces.
func replay(t *testing.T, address string, batches []map[string]any) {
	t.Helper()
	renew(t, batches)
	send(t, address, batches)
}

// renew gives the traces new IDs.
func renew(t *testing.T, batches []map[string]any) {
	t.Helper()
	fresh := make([]byte, 4)
	_, err := rand.Read(fresh)
	require.NoError(t, err)
	for _, batch := range batches {
		eachScope(batch, func(scope map[string]any) {
			for _, s := range list(scope["spans"]) {
				span := s.(map[string]any)
				span["traceId"] = hex.EncodeToString(fresh) + span["traceId"].(string)[8:]
			}
		})
	}
}

// send sends the batches over OTLP/HTTP.
func send(t *testing.T, address string, batches []map[string]any) {
	t.Helper()
	for _, batch := range batches {
		body, err := json.Marshal(batch)
		require.NoError(t, err)
		resp, err := http.Post("http://"+address+"/v1/traces", "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
}

// pick copies the batches, with only the spans that keep returns true for.
func pick(t *testing.T, batches []map[string]any, keep func(span map[string]any) bool) []map[string]any {
	t.Helper()
	raw, err := json.Marshal(batches)
	require.NoError(t, err)
	var picked []map[string]any
	require.NoError(t, json.Unmarshal(raw, &picked))
	for _, batch := range picked {
		eachScope(batch, func(scope map[string]any) {
			scope["spans"] = slices.DeleteFunc(list(scope["spans"]), func(s any) bool { return !keep(s.(map[string]any)) })
		})
	}
	return picked
}

func eachScope(batch map[string]any, do func(map[string]any)) {
	for _, r := range list(batch["resourceSpans"]) {
		for _, s := range list(r.(map[string]any)["scopeSpans"]) {
			do(s.(map[string]any))
		}
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
