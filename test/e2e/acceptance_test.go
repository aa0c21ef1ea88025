package e2e

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// runAll runs cases concurrently, waits until the Collector has judged each of them, and stops it, so
// that nothing can arrive afterwards.
func runAll(t *testing.T, p *pipeline, cases []acceptance.Case) []acceptance.Result {
	t.Helper()
	world, err := acceptance.NewWorld(p.gateway)
	require.NoError(t, err)
	defer func() { assert.NoError(t, world.Close()) }()

	results := make([]acceptance.Result, len(cases))
	slots := make(chan struct{}, 4*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := len(cases) - 1; i >= 0; i-- { // the longest one is last
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result, err := world.Run(t.Context(), &cases[i], p.provider)
			assert.NoError(t, err, cases[i].Label())
			results[i] = result
		})
	}
	all.Wait()
	require.NoError(t, p.provider.ForceFlush(t.Context()))
	require.NoError(t, p.gateway.ForceFlush(t.Context()))
	// This does not fail the test: each case reports what is missing.
	assert.Eventually(t, func() bool {
		for i := range cases {
			if !cases[i].Complete(p.sink.runs(traceID(&results[i]))) {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "not every run was judged")
	p.stop(t)
	return results
}

func TestAcceptance(t *testing.T) {
	p := start(t)
	cases := acceptance.Cases()
	results := runAll(t, p, cases)
	if t.Failed() {
		t.Logf("the Collector's log:\n%.4000s", p.logs)
	}
	sent := byTrace(p.ended.Ended())

	for i := range cases {
		c, result := &cases[i], &results[i]
		t.Run(c.Label(), func(t *testing.T) {
			id := traceID(result)
			runs := p.sink.runs(id)
			for _, difference := range c.Diff(runs) {
				t.Error(difference)
			}
			wholeTrace(t, sent[result.TraceID], p.sink.trace(id))
			if len(runs) != 1 {
				return
			}
			run := &runs[0]
			t.Run("the client says the same", func(t *testing.T) {
				if !result.Observed {
					t.Skip("the process dies before the run has a diagnosis")
				}
				for _, difference := range c.DiffLive(result.Live, run) {
					t.Error(difference)
				}
			})
			t.Run("the facts match the server's record", func(t *testing.T) {
				requests := run.Requests
				if len(run.Served) > 0 { // the gateway sent the requests to the server
					requests = attempts(run.Served)
				}
				if c.Number == 23 {
					t.Skip("the agent did not read all of it")
				}
				trueFacts(t, result.Sent, requests)
			})
			if c.Number == 24 {
				// Its span was exported while the run was going on; the run's verdict includes it all
				// the same.
				assert.Equal(t, semconv.TriggerHoldExpired, run.Requests[2].Verdict.Trigger)
				assert.Equal(t, semconv.TriggerComplete, run.Verdict.Trigger)
				assert.Greater(t, run.End.Sub(run.Start), 2*maxHold, "the run has to last longer than spans are held")
			}
		})
	}
}

// attempts returns the requests that a gateway sent upstream.
func attempts(served []report.Span) []report.Span {
	return slices.DeleteFunc(slices.Clone(served), func(s report.Span) bool { return s.Kind != ptrace.SpanKindClient })
}

func traceID(r *acceptance.Result) pcommon.TraceID { return pcommon.TraceID(r.TraceID) }

func byTrace(spans []sdktrace.ReadOnlySpan) map[trace.TraceID][]sdktrace.ReadOnlySpan {
	m := make(map[trace.TraceID][]sdktrace.ReadOnlySpan)
	for _, s := range spans {
		id := s.SpanContext().TraceID()
		m[id] = append(m[id], s)
	}
	return m
}

// wholeTrace checks that the Collector exported each span that it received, once, with every
// attribute that the client recorded unchanged.
func wholeTrace(t *testing.T, sent []sdktrace.ReadOnlySpan, exported []report.Span) {
	t.Helper()
	got := make(map[pcommon.SpanID]report.Span, len(exported))
	for _, s := range exported {
		_, twice := got[s.ID]
		assert.False(t, twice, "span %s arrived twice", s.Name)
		got[s.ID] = s
	}
	assert.Len(t, exported, len(sent))
	for _, s := range sent {
		g, ok := got[pcommon.SpanID(s.SpanContext().SpanID())]
		if !assert.True(t, ok, "span %s is lost", s.Name()) {
			continue
		}
		for _, kv := range s.Attributes() {
			v, ok := g.Attributes.Get(string(kv.Key))
			if assert.True(t, ok, "span %s lost %s", s.Name(), kv.Key) {
				assert.Equal(t, asString(kv.Value), v.AsString(), "span %s: %s", s.Name(), kv.Key)
			}
		}
	}
}

// asString formats an attribute's value as pdata does.
func asString(v attribute.Value) string {
	var p pcommon.Value
	switch v.Type() {
	case attribute.STRINGSLICE:
		p = pcommon.NewValueSlice()
		for _, s := range v.AsStringSlice() {
			p.Slice().AppendEmpty().SetStr(s)
		}
	case attribute.FLOAT64:
		p = pcommon.NewValueDouble(v.AsFloat64())
	case attribute.INT64:
		p = pcommon.NewValueInt(v.AsInt64())
	case attribute.BOOL:
		p = pcommon.NewValueBool(v.AsBool())
	default:
		p = pcommon.NewValueStr(v.AsString())
	}
	return p.AsString()
}

// trueFacts compares what the client recorded with what the server sent.
func trueFacts(t *testing.T, truth []faultyllm.Record, requests []report.Span) {
	t.Helper()
	if len(truth) == 0 { // no connection was made
		return
	}
	if !assert.Len(t, requests, len(truth)) {
		return
	}
	for i, r := range truth {
		attrs := requests[i].Attributes
		number := func(key attribute.Key) int {
			v, _ := attrs.Get(string(key))
			if v == (pcommon.Value{}) {
				return 0
			}
			return int(v.Int())
		}
		if r.RequestID != "" {
			id, ok := attrs.Get(string(semconv.RequestIDKey))
			if assert.True(t, ok, "request %d: no request id", i+1) {
				assert.Equal(t, r.RequestID, id.Str())
			}
		}
		if status, ok := attrs.Get("http.response.status_code"); ok {
			assert.Equal(t, r.Status, int(status.Int()))
		} else {
			assert.Zero(t, r.Status)
		}
		if !r.Streamed || r.Ending == faultyllm.EndedByClient { // the client decides how much of it is read
			continue
		}
		assert.Equal(t, r.Sent.TextChunks, number(semconv.StreamTextChunksKey), "request %d: text chunks", i+1)
		assert.Equal(t, r.Sent.ReasoningChunks, number(semconv.StreamReasoningChunksKey), "request %d: reasoning chunks", i+1)
		assert.Equal(t, r.Sent.ToolInputsStarted, number(semconv.StreamToolInputsStartedKey), "request %d: tool inputs started", i+1)
		assert.Equal(t, r.Sent.ToolInputsCompleted, number(semconv.StreamToolInputsCompletedKey), "request %d: tool inputs completed", i+1)
		assert.Equal(t, r.Sent.Keepalives, number(semconv.StreamKeepalivesKey), "request %d: keepalives", i+1)
		if r.Sent.Bytes > 0 {
			assert.Equal(t, r.Sent.Bytes, number(semconv.StreamBytesKey), "request %d: bytes", i+1)
		}
	}
}
