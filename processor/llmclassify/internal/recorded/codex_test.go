package recorded

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// codexSpan is a span of Codex CLI, reduced from a recording. Its event, if it has one, has
// the attributes that follow.
type codexSpan struct {
	harness.Span
	event map[string]string
}

func codexSpanOf(id, parent byte, name string, from, to float64, attrs ...attribute.KeyValue) codexSpan {
	return codexSpan{Span: harness.Span{Library: "codex_exec", ID: id, Parent: parent, Name: name, Kind: ptrace.SpanKindInternal, From: from, To: to, Attrs: attrs}}
}

func (s codexSpan) logged(name string, attrs ...string) codexSpan {
	s.event = map[string]string{"event.name": name}
	for i := 0; i < len(attrs); i += 2 {
		s.event[attrs[i]] = attrs[i+1]
	}
	return s
}

// codexTurn is the spans of a turn in the order in which they end: a request that was
// refused, the same once more, with a call, and the answer to its output.
func codexTurn() []codexSpan {
	usage := attribute.String("gen_ai.usage.output_tokens", "5")
	turn := attribute.String("turn_id", "turn")
	return []codexSpan{
		codexSpanOf(11, 10, "endpoint_session.stream_encoded_json_with", 1.0, 1.2).logged("codex.api_request", "http.response.status_code", "429", "attempt", "0"),
		codexSpanOf(10, 3, "try_run_sampling_request", 1.0, 1.2, turn),
		codexSpanOf(21, 20, "endpoint_session.stream_encoded_json_with", 2.2, 2.3).logged("codex.api_request", "http.response.status_code", "200", "attempt", "0"),
		codexSpanOf(23, 22, "handle_responses", 2.6, 2.7, usage),
		codexSpanOf(25, 24, "dispatch_tool_call_with_state", 2.5, 2.9).logged("codex.tool_result", "call_id", "call_1", "tool_name", "exec_command", "success", "true"),
		codexSpanOf(24, 22, "exec_command", 2.5, 2.9, attribute.String("call_id", "call_1"), attribute.Bool("aborted", false)),
		codexSpanOf(22, 20, "receiving_stream", 2.3, 3.0),
		codexSpanOf(20, 3, "try_run_sampling_request", 2.2, 3.0, turn),
		codexSpanOf(33, 32, "handle_responses", 3.5, 3.6, usage),
		codexSpanOf(32, 30, "receiving_stream", 3.2, 3.6),
		codexSpanOf(30, 4, "try_run_sampling_request", 3.1, 3.6, turn),
		codexSpanOf(3, 2, "run_sampling_request", 1.0, 3.0),
		codexSpanOf(4, 2, "run_sampling_request", 3.1, 3.6),
		codexSpanOf(2, 1, "run_turn", 0.9, 3.7),
		codexSpanOf(1, 0, "session_task.turn", 0.8, 3.7, attribute.String("turn.id", "turn")).logged("codex.turn_profile", "sampling_request_count", "3", "sampling_retry_count", "1"),
	}
}

// What records the end of an attempt of Codex is in spans beneath it, which are its parts,
// and none by themselves. Without it nothing is known of the attempt, and so of the turn.
func TestCodexTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		without []byte
		outcome semconv.RunOutcome
		class   semconv.Class
		refused semconv.Class // of the span of the first attempt
	}{
		{"complete", nil, semconv.RunOutcomeRecovered, semconv.ClassUnset, semconv.ClassProviderError},
		{"the last answer did not end", []byte{33}, semconv.RunOutcomeIncomplete, semconv.ClassUnclassified, semconv.ClassProviderError},
		{"the last attempt is lost", []byte{30}, semconv.RunOutcomeIncomplete, semconv.ClassRunAbandoned, semconv.ClassProviderError},
		{"the last attempt is lost with all of it", []byte{30, 32, 33}, semconv.RunOutcomeIncomplete, semconv.ClassRunAbandoned, semconv.ClassProviderError},
		{"what is between an attempt and its end is lost", []byte{32}, semconv.RunOutcomeIncomplete, semconv.ClassUnclassified, semconv.ClassProviderError},
		{"the refusal is lost, and counted", []byte{11}, semconv.RunOutcomeRecovered, semconv.ClassUnset, semconv.ClassUnset},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, s := range codexTurn() {
				if !slices.Contains(c.without, s.ID) {
					s.consume(t, h)
				}
			}
			h.Pass(t, harness.Settle)
			out := harness.SpansOf(h.Out())
			run := harness.VerdictOf(out[harness.SpanID(1)])
			assert.Equal(t, c.outcome, run.Outcome)
			assert.Equal(t, c.class, run.Class)
			assert.Equal(t, semconv.TriggerRunEnded, run.Trigger, "it does not wait for members that name it")
			assert.Equal(t, c.refused, harness.VerdictOf(out[harness.SpanID(10)]).Class)
			assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, run.Safety)
		})
	}
}

// Where the span of a turn is lost, its complete answers are no success of it: each of them
// may have asked for a tool.
func TestCodexTurnLost(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, s := range codexTurn() {
		if s.ID > 4 && s.ID < 30 {
			s.consume(t, h)
		}
	}
	h.Pass(t, 24*time.Hour)
	require.NoError(t, h.Shutdown(t.Context()))
	for _, span := range harness.SpansOf(h.Out()) {
		assert.NotContains(t, []semconv.RunOutcome{semconv.RunOutcomeSucceeded, semconv.RunOutcomeRecovered}, harness.VerdictOf(span).Outcome, span.Name())
	}
}

// A turn whose last answer was empty is no success.
func TestCodexEmptyTurn(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, s := range codexTurn() {
		if s.ID == 33 {
			s.Attrs = []attribute.KeyValue{attribute.String("gen_ai.usage.output_tokens", "0")}
		}
		s.consume(t, h)
	}
	h.Pass(t, harness.Settle)
	run := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	assert.Equal(t, semconv.RunOutcomeFailed, run.Outcome)
	assert.Equal(t, semconv.ClassEmptyCompletion, run.Class)
	assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, run.Safety)
}

func (s codexSpan) consume(t *testing.T, h *harness.Harness) {
	t.Helper()
	td := harness.TracesOf(t, s.Span)
	if s.event != nil {
		e := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Events().AppendEmpty()
		for key, value := range s.event {
			e.Attributes().PutStr(key, value)
		}
	}
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
}
