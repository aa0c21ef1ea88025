package backend_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
)

var id = pcommon.TraceID{0x5b, 0x8e, 0xff, 15: 0x0c}

func oneSpan(trace pcommon.TraceID) ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(trace)
	span.SetSpanID(pcommon.SpanID{1})
	span.SetName("chat gpt")
	return td
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTraceIDs(t *testing.T) {
	for text, want := range map[string]pcommon.TraceID{
		"5b8eff0000000000000000000000000c": id,
		"5B8EFF0000000000000000000000000C": id,
		"c":                                {15: 0x0c}, // the form in which Jaeger shows an id with leading zeros
	} {
		got, err := backend.ParseTraceID(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for text, says := range map[string]string{
		"":                                  "it has 0 characters",
		"5b8eff0000000000000000000000000c0": "it has 33 characters",
		"a trace":                           "hexadecimal",
		"0":                                 "it is zero",
	} {
		_, err := backend.ParseTraceID(text)
		require.ErrorContains(t, err, says)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:16686", "ftp://host", "http://", "http://%zz"} {
		_, err := backend.NewJaeger(bad)
		require.ErrorContains(t, err, "not the address of a Jaeger", bad)
		_, err = backend.NewTempo(bad)
		require.ErrorContains(t, err, "not the address of a Tempo", bad)
	}
}

// No Tempo is built here. These are its responses according to its source: the protobuf
// of a message with the resource spans in field 1, and 404 with a text.
func TestTempo(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tempo/api/traces/"+id.String() {
			http.Error(w, "trace not found", http.StatusNotFound)
			return
		}
		assert.Equal(t, "application/protobuf", r.Header.Get("Accept"))
		var encoder ptrace.ProtoMarshaler
		body, err := encoder.MarshalTraces(oneSpan(id))
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "application/protobuf")
		_, _ = w.Write(body)
	})
	tempo, err := backend.NewTempo(url + "/tempo")
	require.NoError(t, err)
	td, err := tempo.Trace(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, oneSpan(id), td)
	_, err = tempo.Trace(t.Context(), pcommon.TraceID{9})
	require.ErrorIs(t, err, backend.ErrNotFound)
}

func TestInvalidResponses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		says   string
	}{
		{"a web page", 200, "<!DOCTYPE html><html>", "a web page"},
		{"not JSON", 200, "oops", "not JSON"},
		{"not OTLP", 200, `{"result":{"resourceSpans":7}}`, "not OTLP JSON"},
		{"no span", 200, `{"result":{"resourceSpans":[]}}`, backend.ErrNotFound.Error()},
		{"an error", 503, "later", "503 Service Unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			jaeger, err := backend.NewJaeger(url)
			require.NoError(t, err)
			_, err = jaeger.Trace(t.Context(), id)
			require.ErrorContains(t, err, tt.says)
		})
	}
	t.Run("no server", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		jaeger, err := backend.NewJaeger(srv.URL)
		require.NoError(t, err)
		_, err = jaeger.Search(t.Context(), "agent", nil, 1)
		require.ErrorContains(t, err, "ask Jaeger")
	})
	t.Run("a search that finds no ids", func(t *testing.T) {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[{"traceID":"x"}]}`)) })
		jaeger, err := backend.NewJaeger(url)
		require.NoError(t, err)
		_, err = jaeger.Search(t.Context(), "agent", map[string]string{"a": "b"}, 1)
		require.ErrorContains(t, err, "not a trace id")
	})
}
