package llmagentlogs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadatatest"
	"github.com/otelllm/otelllm-go/semconv"
)

// Requests and tools go out when they are over, so that llm_classify has them when the run
// ends, and the run when it is known to be over.
func TestPartsGoOutBeforeTheirRun(t *testing.T) {
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, calls(), []entry{ranTool("call_1", true)}, answer())...)...))
	h.pass(t, cfg.Settle-time.Millisecond)
	assert.Empty(t, h.spans())
	h.pass(t, time.Millisecond)
	assert.Equal(t, []string{"chat", "tool", "chat"}, partsOf(h.spans()))
	h.pass(t, cfg.Quiet-cfg.Settle-time.Millisecond)
	assert.Len(t, h.spans(), 3)
	h.pass(t, time.Millisecond)
	assert.Equal(t, []string{"chat", "tool", "chat", "run"}, partsOf(h.spans()))
	run := h.spans()[3]
	for _, span := range h.spans()[:3] {
		assert.Equal(t, run.TraceID(), span.TraceID())
		assert.Equal(t, run.SpanID(), span.ParentSpanID())
		assert.Equal(t, run.SpanID().String(), value(span, semconv.RunIDKey))
	}
	assert.Equal(t, "2", value(run, semconv.RunRequestsKey))
}

// Where it is not known that nothing goes on, a turn waits for max_age.
func TestPatience(t *testing.T) {
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{attended, prompt}, calls(), []entry{decided("approved")})...)...))
	h.pass(t, cfg.MaxAge-time.Millisecond)
	assert.Empty(t, runsOf(h.spans()), "a tool may run for long")
	h.pass(t, time.Millisecond)
	assert.Len(t, runsOf(h.spans()), 1)
	assert.Empty(t, h.open.byKey)
	assert.Zero(t, h.open.bytes)
}

// A producer that names the conversation of another one changes nothing of it.
func TestSameConversationOfAnother(t *testing.T) {
	mine := codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...)
	theirs := codexLogs(t, "c1", at(50*time.Millisecond, prompt, status(500))...)
	theirs.ResourceLogs().At(0).Resource().Attributes().PutStr("service.name", "another")
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, mine, theirs)
	h.pass(t, defaultQuiet)
	var ends []string
	for _, run := range runsOf(h.spans()) {
		ends = append(ends, value(run, semconv.RunEndKey))
	}
	assert.ElementsMatch(t, []string{"answer", "failure"}, ends)
}

func TestShutdownEndsTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []entry
		end     string
	}{
		"answered":      {slices.Concat([]entry{unattended, prompt}, answer()), "answer"},
		"failed":        {[]entry{unattended, prompt, status(503)}, "unclear"}, // there may be another attempt
		"a tool may go": {slices.Concat([]entry{unattended, prompt}, calls()), "unclear"},
		"a tool runs":   {[]entry{unattended, prompt, headers, sse("output_item.added"), completed, decided("approved")}, "unclear"},
		"a response":    {[]entry{unattended, prompt, sent, completed}, "unclear"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			require.NoError(t, h.Start(t.Context(), componenttest.NewNopHost()))
			h.consume(t, codexLogs(t, "c1", at(0, tt.entries...)...))
			require.NoError(t, h.Shutdown(t.Context()))
			require.NoError(t, h.Shutdown(t.Context()), "again")
			runs := runsOf(h.spans())
			require.Len(t, runs, 1)
			assert.Equal(t, tt.end, value(runs[0], semconv.RunEndKey))
			h.consume(t, codexLogs(t, "c2", at(0, tt.entries...)...))
		})
	}
}

// The goroutine of a connector that was started does what is due.
func TestStarted(t *testing.T) {
	sink := make(chan ptrace.Traces, 8)
	next, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		sink <- td
		return nil
	})
	require.NoError(t, err)
	h := newHarness(t, defaultConfig(), next)
	require.NoError(t, h.Start(t.Context(), componenttest.NewNopHost()))
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
	h.clock.advance(time.Second)
	h.clock.ticks <- h.clock.Now()
	assert.Equal(t, []string{"chat"}, partsOf(spansOf(<-sink)))
	require.NoError(t, h.Shutdown(t.Context()))
	assert.Equal(t, []string{"run"}, partsOf(spansOf(<-sink)))
}

// A next consumer that does not return holds up no shutdown.
func TestStuck(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	next, err := consumer.NewTraces(func(context.Context, ptrace.Traces) error {
		close(called)
		<-release
		return nil
	})
	require.NoError(t, err)
	h := newHarness(t, defaultConfig(), next)
	require.NoError(t, h.Start(t.Context(), componenttest.NewNopHost()))
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
	h.clock.advance(time.Second)
	h.clock.ticks <- h.clock.Now()
	<-called
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Shutdown(ctx), errStuck)
	close(release)
	h.done.Wait()
}

// What the next consumer refuses is sent again; what it never takes is lost, and counted.
func TestNextRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		lost int64
	}{
		"for a while": {errors.New("busy"), 0},
		"for good":    {consumererror.NewPermanent(errors.New("bad")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			refuse, sink := true, new(consumertest.TracesSink)
			next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
				if refuse {
					return tt.err
				}
				return sink.ConsumeTraces(ctx, td)
			})
			require.NoError(t, err)
			h := newHarness(t, defaultConfig(), next)
			h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
			h.pass(t, time.Second)
			refuse = false
			h.pass(t, time.Hour)
			assert.Equal(t, 2-int(tt.lost), sink.SpanCount())
			if tt.lost > 0 {
				metadatatest.AssertEqualConnectorLlmAgentLogsSpansLost(t, h.telemetry,
					[]metricdata.DataPoint[int64]{{Value: tt.lost}}, metricdatatest.IgnoreTimestamp())
			}
		})
	}
	always, err := consumer.NewTraces(func(context.Context, ptrace.Traces) error { return errors.New("busy") })
	require.NoError(t, err)
	h := newHarness(t, defaultConfig(), always)
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
	assert.ErrorContains(t, h.Shutdown(t.Context()), "2 spans are lost")
}

// One producer with very many conversations, and one with a very long one, use no more
// than max_bytes, and others get their spans all the same.
func TestMaxBytes(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxBytes = 1 << 20
	h := newHarness(t, cfg, nil)
	flood := func(conversation string, n int) plog.Logs {
		entries := []entry{unattended, prompt}
		for range n {
			entries = append(entries, headers, sse("output_text.delta"))
		}
		return codexLogs(t, conversation, at(0, entries...)...)
	}
	for i := range 2000 {
		h.consume(t, flood(strconv.Itoa(i), 2))
		assert.LessOrEqual(t, h.open.bytes, cfg.MaxBytes)
		assert.Less(t, h.made.bytes, cfg.MaxBytes/4)
		h.tick(t.Context()) // the spans go out
		assert.LessOrEqual(t, h.open.bytes, cfg.MaxBytes)
	}
	h.consume(t, flood("long", 5000))
	for k, conv := range h.open.byKey {
		assert.LessOrEqual(t, conv.bytes, cfg.MaxBytes/16, k.id)
	}
	assert.LessOrEqual(t, h.open.bytes, cfg.MaxBytes)
	h.consume(t, codexLogs(t, "mine", at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
	h.pass(t, cfg.Quiet)
	h.pass(t, cfg.MaxAge)
	assert.Empty(t, h.open.byKey)
	assert.Zero(t, h.open.bytes)
	evicted, answered := 0, 0
	for _, run := range runsOf(h.spans()) {
		switch value(run, semconv.RunEndKey) {
		case "evicted":
			evicted++
		case "answer":
			answered++
		}
	}
	assert.Greater(t, evicted, 100)
	assert.Equal(t, 1, answered)
	for _, span := range judge(t, h.sink.AllTraces()...) {
		if conversation := value(span, "gen_ai.conversation.id"); conversation != "mine" {
			require.Empty(t, value(span, semconv.RunOutcomeKey), "nothing is claimed of what was forgotten")
		}
	}
}

// A service with very many conversations does not cost another one its own: a turn in which
// a tool runs meanwhile ends as it does.
func TestFloodOfAnother(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxBytes = 1 << 20
	h := newHarness(t, cfg, nil)
	mine := func(at time.Duration, entries ...entry) {
		for i := range entries {
			entries[i].at = at + time.Duration(i)*time.Millisecond
		}
		ld := codexLogs(t, "mine", entries...)
		ld.ResourceLogs().At(0).Resource().Attributes().PutStr("service.name", "mine")
		h.consume(t, ld)
	}
	mine(0, slices.Concat([]entry{unattended, prompt}, calls(), []entry{decided("approved")})...)
	h.pass(t, cfg.Settle)
	for i := range 5000 {
		h.consume(t, codexLogs(t, strconv.Itoa(i), at(0, slices.Concat([]entry{unattended, prompt}, calls())...)...))
		h.tick(t.Context())
	}
	mine(time.Minute, slices.Concat([]entry{ranTool("call_1", true)}, answer())...)
	h.pass(t, cfg.Settle)
	h.pass(t, cfg.Quiet)
	forgotten := 0
	for _, run := range runsOf(h.spans()) {
		if value(run, "gen_ai.conversation.id") == "mine" {
			assert.Equal(t, "answer", value(run, semconv.RunEndKey))
			assert.Equal(t, "2", value(run, semconv.RunRequestsKey))
			return
		}
		forgotten++
	}
	t.Errorf("no run of its own, beside %d others", forgotten)
}

// Memory does not grow with the length of a turn.
func TestLongTurn(t *testing.T) {
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	h.consume(t, codexLogs(t, "c1", at(0, unattended, prompt)...))
	most := 0
	for i := range 200 {
		entries := slices.Concat(calls(), []entry{ranTool(fmt.Sprint("call_", i), true)})
		h.consume(t, codexLogs(t, "c1", at(time.Duration(i+1)*10*time.Second, entries...)...))
		h.pass(t, cfg.Settle)
		most = max(most, h.open.bytes)
	}
	assert.Less(t, most, 128<<10)
	h.consume(t, codexLogs(t, "c1", at(time.Hour, answer()...)...))
	h.pass(t, cfg.Quiet)
	runs := runsOf(h.spans())
	require.Len(t, runs, 1)
	assert.Equal(t, "201", value(runs[0], semconv.RunRequestsKey))
}

func TestTelemetry(t *testing.T) {
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	h.consume(t, codexLogs(t, "c1", at(0, slices.Concat([]entry{headers, unattended, prompt}, calls(), []entry{ranTool("call_1", true)})...)...))
	h.consume(t, geminiLogs(t, "s1", entry{name: "gemini_cli.user_prompt", attributes: attributes{"prompt_id": "p"}}))
	h.consume(t, logsOf(t, "other", "other", nil, []entry{{name: "my.event"}}))
	metadatatest.AssertEqualConnectorLlmAgentLogsConversations(t, h.telemetry, []metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
	h.pass(t, cfg.MaxAge)
	metadatatest.AssertEqualConnectorLlmAgentLogsConversations(t, h.telemetry, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualConnectorLlmAgentLogsBytesHeld(t, h.telemetry, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
	point := func(key, value string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String(key, value)), Value: n}
	}
	metadatatest.AssertEqualConnectorLlmAgentLogsRecords(t, h.telemetry,
		[]metricdata.DataPoint[int64]{point("agent", "codex", 9), point("agent", "gemini_cli", 1)}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualConnectorLlmAgentLogsRecordsDropped(t, h.telemetry,
		[]metricdata.DataPoint[int64]{point("reason", "no_turn", 1)}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualConnectorLlmAgentLogsSpans(t, h.telemetry,
		[]metricdata.DataPoint[int64]{point("kind", "run", 1), point("kind", "request", 1), point("kind", "tool", 1)}, metricdatatest.IgnoreTimestamp())
}

// Nothing of what people, models, tools or providers wrote is carried over.
func TestNoContent(t *testing.T) {
	contents := func(entries ...entry) []entry {
		for i := range entries {
			a := attributes{
				"error.message": canary("message"), "error": canary("error"), "arguments": canary("arguments"), "output": canary("output"),
				"function_args": canary("args"), "response_text": canary("response"), "tool_input": canary("input"), "body": canary("body"),
				"prompt": canary("prompt"), "prompt_text": canary("prompt"), "response": canary("response"), "request_text": canary("request"),
				"tool_parameters": canary("parameters"), "gen_ai.input.messages": canary("messages"), "gen_ai.output.messages": canary("messages"),
			}
			maps.Copy(a, entries[i].attributes)
			entries[i].attributes = a
		}
		return at(0, entries...)
	}
	made := madeOf(t, defaultConfig(),
		codexLogs(t, "c1", contents(slices.Concat([]entry{unattended, prompt}, calls(), []entry{decided("approved"), ranTool("call_1", false), status(500), headers, broken(canary("stream"))})...)...),
		claudeLogs(t, "s1", contents(claude("user_prompt", nil), claude("api_error", attributes{"status_code": 500}),
			claude("tool_result", attributes{"tool_name": "Bash", "success": "false", "error_type": canary("words and") + " more"}))...),
		geminiLogs(t, "s2", contents(gemini("user_prompt", attributes{}), gemini("api_request", attributes{}), gemini("api_error", attributes{"error.type": "TypeError"}),
			gemini("chat.content_retry", attributes{"error_type": canary("a") + " b"}), gemini("tool_call", attributes{"function_name": "f", "success": false}))...),
	)
	require.GreaterOrEqual(t, len(spansOf(made...)), 10)
	for fault := range claudeTruths {
		logs, _ := claudeRecording(t, fault)
		for _, ld := range logs {
			for _, rl := range ld.ResourceLogs().All() {
				for _, sl := range rl.ScopeLogs().All() {
					for _, lr := range sl.LogRecords().All() {
						for _, key := range []string{"prompt", "prompt_text", "response", "tool_input", "tool_parameters", "body", "user.id", "user.email"} {
							lr.Attributes().PutStr(key, canary(key))
						}
					}
				}
			}
		}
		made = append(made, madeOf(t, defaultConfig(), logs...)...)
	}
	for _, td := range slices.Concat(made, []ptrace.Traces{}) {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "CANARY")
	}
}

// In no span is a string of the recordings that is not a name, an id or a word of the
// vocabulary.
func TestNoContentOfRecordings(t *testing.T) {
	may := func(key, text string) bool {
		return len(text) <= 64 && !strings.ContainsAny(text, " \n{}\"") || strings.HasPrefix(key, "service.")
	}
	recordings(t, func(t *testing.T, _, _, path string) {
		for _, td := range madeOf(t, defaultConfig(), recordedLogs(t, path)...) {
			for _, rs := range td.ResourceSpans().All() {
				for key, v := range rs.Resource().Attributes().All() {
					assert.True(t, may(key, v.AsString()) && slices.Contains(resourceKeys[:], key), "%s=%s", key, v.AsString())
				}
			}
		}
		for _, span := range spansOf(madeOf(t, defaultConfig(), recordedLogs(t, path)...)...) {
			for key, v := range span.Attributes().All() {
				if key != "gen_ai.response.finish_reasons" {
					assert.True(t, may(key, v.AsString()), "%s=%s", key, v.AsString())
				}
			}
			assert.Zero(t, span.Events().Len())
		}
	})
}
