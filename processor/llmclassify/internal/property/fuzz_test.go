package property

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// FuzzConsumeTraces feeds hostile spans: no panic, every span comes out once
// with all that it had, and every bound holds.
func FuzzConsumeTraces(f *testing.F) {
	marshaler := ptrace.ProtoMarshaler{}
	paths, err := filepath.Glob(harness.Testdata("traces", "*", "*.yaml"))
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range sampled(paths) {
		td, err := golden.ReadTraces(path)
		require.NoError(f, err)
		data, err := marshaler.MarshalTraces(td)
		require.NoError(f, err)
		f.Add(data, uint8(0), false)
	}
	for seed := range 16 {
		f.Add([]byte(strings.Repeat(string(rune('a'+seed))+"\x00\xff\x01", 200+seed)), uint8(17*seed), true)
	}
	random := rand.NewChaCha8([32]byte{})
	for seed := range 16 {
		data := make([]byte, 1<<10)
		_, _ = random.Read(data) // never fails
		f.Add(data, uint8(16*seed+seed%4), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint8, made bool) {
		var td ptrace.Traces
		if made {
			td = hostileTraces(data[:min(len(data), 1<<11)])
		} else {
			var err error
			if td, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data); err != nil {
				return
			}
		}
		checkHostile(t, td, seed)
	})
}

// checkHostile sends td through a processor and demands every span back.
func checkHostile(t *testing.T, td ptrace.Traces, seed uint8) {
	t.Helper()
	cfg := harness.DefaultConfig()
	switch seed % 4 {
	case 1:
		cfg.MaxHeldBytes = 2000
	case 2:
		cfg.MaxSpansPerRun = 2
	case 3:
		cfg.MaxFactBytes = 1000
	}
	cfg.Shards = int(seed/16%3) + 1
	h := harness.New(t, cfg, nil)
	d := harness.NewDisk()
	if seed >= 128 {
		h.OpenOn(t, d)
	}
	want := inventory{}
	want.add(td, 1)
	again := ptrace.NewTraces() // everything is delivered twice
	td.CopyTo(again)
	want.add(td, 1)

	for i, call := range harness.SplitTraces(td, int(seed/4%4)+1) {
		if seed/8%2 == 0 || isRefused(t, h, call) {
			require.NoError(t, h.ConsumeTraces(t.Context(), call))
		}
		require.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
		require.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
		h.Pass(t, time.Duration(i)*time.Second)
	}
	h.Pass(t, cfg.MaxHold)
	if seed >= 192 { // it is killed, and another one goes on
		sink := h.Sink
		h = harness.New(t, cfg, sink)
		h.Sink = sink
		h.Clock.Advance(cfg.MaxHold + time.Minute)
		h.OpenOn(t, d)
		h.Pass(t, 0)
	}
	require.Zero(t, h.Load().Bytes, "nothing is held longer than max_hold")
	require.NoError(t, h.ConsumeTraces(t.Context(), again))
	h.Pass(t, cfg.RunTimeout)
	require.Zero(t, h.Load().Traces)
	require.NoError(t, h.Shutdown(t.Context()))
	require.Empty(t, d.Entries())
	for _, td := range h.Sink.AllTraces() {
		want.add(td, -1)
	}
	for key, n := range want {
		if seed >= 192 && n < 0 { // spans of a stored call that had gone come again
			continue
		}
		require.Zero(t, n, "%+d times too few: %q", n, key)
	}
}

// isRefused sends a copy of a call whose sender does not wait. It reports whether the call has
// to be sent again.
func isRefused(t *testing.T, h *harness.Harness, call ptrace.Traces) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sent := ptrace.NewTraces()
	call.CopyTo(sent)
	return h.ConsumeTraces(ctx, sent) != nil
}

// inventory counts spans by all that they have but verdicts, and the provider and model that
// come with the verdict on a run, byte for byte as they are on the wire, with their resource
// and scope.
type inventory map[string]int

func (v inventory) add(td ptrace.Traces, n int) {
	verdicts := []string{
		"llm.failure.", "llm.classification.", "llm.retry.safety", "llm.retry.reason",
		"llm.run.outcome", "llm.run.timeline", "llm.run.recovered_failures", "llm.history.missing_outputs",
		"gen_ai.provider.name", "gen_ai.request.model",
	}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.Name() == semconv.SpanRunAbandoned && span.StartTimestamp() == span.EndTimestamp() {
					continue // may have been added
				}
				one := ptrace.NewTraces()
				resource := one.ResourceSpans().AppendEmpty()
				resource.SetSchemaUrl(rs.SchemaUrl())
				rs.Resource().CopyTo(resource.Resource())
				scope := resource.ScopeSpans().AppendEmpty()
				scope.SetSchemaUrl(ss.SchemaUrl())
				ss.Scope().CopyTo(scope.Scope())
				alone := scope.Spans().AppendEmpty()
				span.CopyTo(alone)
				verdictattr.RemoveFrom(alone) // its status, where that is of the verdict
				alone.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool {
					return slices.ContainsFunc(verdicts, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
				})
				data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(one)
				if err != nil {
					panic(err)
				}
				v[string(data)] += n
			}
		}
	}
}

// hostileTraces makes spans of the vocabulary with ids, times, keys and values
// that the bytes choose, mostly wrong.
func hostileTraces(data []byte) ptrace.Traces {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	keys := []string{
		string(otelsemconv.GenAIOperationNameKey), string(otelsemconv.McpMethodNameKey), string(otelsemconv.ErrorTypeKey),
		string(otelsemconv.GenAIResponseFinishReasonsKey), string(otelsemconv.HTTPResponseStatusCodeKey),
		string(otelsemconv.GenAIToolCallIDKey), string(otelsemconv.GenAIRequestStreamKey),
		string(semconv.RunIDKey), string(semconv.RunRequestsKey), string(semconv.RunToolsKey),
		string(semconv.StreamEndKey), string(semconv.StreamPhaseKey), string(semconv.StreamTextChunksKey),
		string(semconv.StreamToolCallIDsKey), string(semconv.StreamOpenToolCallIDsKey), string(semconv.StreamLastProgressKey),
		string(semconv.HistoryToolCallsKey), string(semconv.HistoryToolOutputsKey), string(semconv.RequestProviderToolsKey),
		string(semconv.TransportCauseKey), string(semconv.ProviderErrorKindKey), string(semconv.ProviderErrorCodeKey),
		string(semconv.AbortSourceKey), string(semconv.WatchdogKindKey), string(semconv.RetryAfterKey),
		string(semconv.ToolEffectKey), string(semconv.ToolOutcomeKey), string(semconv.ToolOutputDeliveryKey),
		string(semconv.ClassificationTriggerKey), string(semconv.FailureClassKey), "other", "",
	}
	words := []string{
		"chat", "execute_tool", "invoke_agent", "tools/call", "stop", "error", "terminal_event", "read_error", "eof", "text",
		"tool_input", "connection_reset", "rate_limited", "user", "idle", "non_idempotent", "failed", "succeeded", "sent",
		"client", "late", "RateLimitError", "", "\xff\xfe", strings.Repeat("x", 1000), "bb00000000000001", "bb00000000000002",
	}
	var value func(v pcommon.Value, depth int)
	value = func(v pcommon.Value, depth int) {
		switch next() % 8 {
		case 0, 1, 2:
			v.SetStr(words[int(next())%len(words)])
		case 3:
			v.SetInt([]int64{0, 1, 2, 3, 200, 429, -1, math.MaxInt64, math.MinInt64}[next()%9])
		case 4:
			v.SetDouble([]float64{0, 1.5, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}[next()%7])
		case 5:
			v.SetBool(next()%2 == 0)
		case 6:
			slice := v.SetEmptySlice()
			for range next() % 80 {
				if e := slice.AppendEmpty(); depth < 4 {
					value(e, depth+1)
				}
			}
		case 7:
			if m := v.SetEmptyMap(); depth < 4 {
				value(m.PutEmpty(keys[int(next())%len(keys)]), depth+1)
			}
		}
	}
	id := func() (id pcommon.SpanID) {
		if n := next() % 8; n > 0 {
			id = pcommon.SpanID{0xbb, 7: n}
		}
		return id
	}
	ts := func() pcommon.Timestamp {
		if b := next(); b < 240 {
			return harness.At(float64(b) / 10)
		}
		return pcommon.Timestamp(binary.BigEndian.Uint64([]byte{next(), next(), next(), next(), next(), next(), next(), next()}))
	}
	td := ptrace.NewTraces()
	for len(data) > 0 {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", hex.EncodeToString([]byte{next() % 3}))
		if next()%2 == 0 {
			rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.37.0")
			rs.Resource().SetDroppedAttributesCount(uint32(next()))
			value(rs.Resource().Attributes().PutEmpty("resource.attribute"), 0)
		}
		ss := rs.ScopeSpans().AppendEmpty()
		if next()%2 == 0 {
			ss.SetSchemaUrl("https://opentelemetry.io/schemas/1.36.0")
			ss.Scope().SetName(words[int(next())%len(words)])
			ss.Scope().SetVersion("1.2.3")
			ss.Scope().SetDroppedAttributesCount(uint32(next()))
			value(ss.Scope().Attributes().PutEmpty("scope.attribute"), 0)
		}
		spans := ss.Spans()
		for range next()%8 + 1 {
			span := spans.AppendEmpty()
			if n := next() % 4; n > 0 {
				span.SetTraceID(harness.TraceID(n))
			}
			span.SetSpanID(id())
			span.SetParentSpanID(id())
			span.SetKind(ptrace.SpanKind(next() % 7))
			span.SetStartTimestamp(ts())
			span.SetEndTimestamp(ts())
			span.Status().SetCode(ptrace.StatusCode(next() % 4))
			if next()%4 == 0 {
				span.SetName(words[int(next())%len(words)])
				span.Status().SetMessage(words[int(next())%len(words)])
				span.TraceState().FromRaw("vendor=value")
				span.SetFlags(uint32(next()))
				span.SetDroppedAttributesCount(uint32(next()))
				span.SetDroppedEventsCount(uint32(next()))
				span.SetDroppedLinksCount(uint32(next()))
				link := span.Links().AppendEmpty()
				link.SetTraceID(harness.TraceID(next()))
				link.SetSpanID(id())
				link.TraceState().FromRaw("vendor=linked")
				link.SetFlags(uint32(next()))
				value(link.Attributes().PutEmpty("link.attribute"), 0)
			}
			span.Attributes().PutStr(keys[0], words[next()%4])
			for range next() % 12 {
				value(span.Attributes().PutEmpty(keys[int(next())%len(keys)]), 0)
			}
			if next()%4 == 0 {
				event := span.Events().AppendEmpty()
				event.SetName(otelsemconv.ExceptionEventName)
				event.SetTimestamp(ts())
				event.SetDroppedAttributesCount(uint32(next()))
				value(event.Attributes().PutEmpty(string(otelsemconv.ExceptionTypeKey)), 0)
			}
		}
	}
	return td
}
