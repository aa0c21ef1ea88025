package otelllm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// inferring is an Instrumentation whose inferred runs wait this long for further attempts.
func inferring(r *recorder, settle time.Duration, opts ...Option) *Instrumentation {
	return New(append([]Option{WithTracerProvider(r), WithInferredRuns(InferredRuns{RetryWait: settle})}, opts...)...)
}

// watched returns where to send requests, and the client to send them with, so that with
// sees them: in a gateway in front of upstream, or in the client.
func watched(t *testing.T, with *Instrumentation, upstream string, gateway bool) (target string, client *http.Client) {
	t.Helper()
	if !gateway {
		return upstream, &http.Client{Transport: with.NewTransport(http.DefaultTransport)}
	}
	u, err := url.Parse(upstream)
	require.NoError(t, err)
	server := httptest.NewServer(with.NewHandler(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) }}))
	t.Cleanup(server.Close)
	return server.URL, &http.Client{}
}

// wordsOf are the requests of an agent and the answers of a model in one protocol.
type wordsOf struct {
	path string
	// body returns the body of the n-th request of a turn: with the outputs of n calls.
	body func(task string, n int, callID string) string
	call func(id string) string // an answer with one call
	text string                 // an answer without
}

func sseOf(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		typ := struct{ Type string }{}
		if json.Unmarshal([]byte(e), &typ) == nil && typ.Type != "" {
			b.WriteString("event: " + typ.Type + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

var agentWords = map[string]wordsOf{
	"chat": {
		path: chatPath,
		body: func(task string, n int, id string) string {
			list := `{"role":"system","content":"be good"},{"role":"user","content":"` + task + `"}`
			list += strings.Repeat(`,{"role":"assistant","content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"run","arguments":"{}"}}]},{"role":"tool","tool_call_id":"`+id+`","content":"done"}`, n)
			return `{"model":"m","stream":true,"messages":[` + list + `]}`
		},
		call: func(id string) string {
			return sseOf(`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"`+id+`","type":"function","function":{"name":"run","arguments":"{}"}}]}}]}`,
				`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`)
		},
		text: sseOf(`{"id":"c2","choices":[{"index":0,"delta":{"content":"ok"}}]}`, `{"id":"c2","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`),
	},
	"messages": {
		path: messagesPath,
		body: func(task string, n int, id string) string {
			list := `{"role":"user","content":"` + task + `"}`
			if n > 0 { // the mark wanders
				list = `{"role":"user","content":[{"type":"text","text":"` + task + `","cache_control":{"type":"ephemeral"}}]}`
			}
			list += strings.Repeat(`,{"role":"assistant","content":[{"type":"tool_use","id":"`+id+`","name":"run","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+id+`","content":"done"}]}`, n)
			return `{"model":"m","stream":true,"max_tokens":9,"system":"be good","messages":[` + list + `]}`
		},
		call: func(id string) string {
			return sseOf(`{"type":"message_start","message":{"id":"m1","role":"assistant","content":[]}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"`+id+`","name":"run","input":{}}}`,
				`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)
		},
		text: sseOf(`{"type":"message_start","message":{"id":"m2","role":"assistant","content":[]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`),
	},
	"responses": {
		path: responsesPath,
		body: func(task string, n int, id string) string {
			list := `{"role":"user","content":[{"type":"input_text","text":"` + task + `"}]}`
			list += strings.Repeat(`,{"type":"function_call","call_id":"`+id+`","name":"run","arguments":"{}"},{"type":"function_call_output","call_id":"`+id+`","output":"done"}`, n)
			return `{"model":"m","stream":true,"instructions":"be good","input":[` + list + `]}`
		},
		call: responsesCall, text: responsesText,
	},
	"responses by id": {
		path: responsesPath,
		body: func(task string, n int, id string) string {
			if n > 0 {
				return `{"model":"m","stream":true,"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"` + id + `","output":"done"}]}`
			}
			return `{"model":"m","stream":true,"input":"` + task + `"}`
		},
		call: responsesCall, text: responsesText,
	},
	"gemini": {
		path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
		body: func(task string, n int, _ string) string {
			list := `{"role":"user","parts":[{"text":"` + task + `"}]}`
			list += strings.Repeat(`,{"role":"model","parts":[{"functionCall":{"name":"run","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"run","response":{"output":"done"}}}]}`, n)
			return `{"contents":[` + list + `],"systemInstruction":{"parts":[{"text":"be good"}]}}`
		},
		call: func(string) string {
			return sseOf(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"run","args":{}}}]},"finishReason":"STOP"}],"responseId":"g1"}`)
		},
		text: sseOf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP"}],"responseId":"g2"}`),
	},
}

func init() {
	agentWords["interactions"] = interactionsWords(func(task string, n int, id string) string {
		list := `{"type":"user_input","content":[{"type":"text","text":"` + task + `"}]}`
		list += strings.Repeat(`,{"type":"function_call","id":"`+id+`","name":"run","arguments":{}},{"type":"function_result","call_id":"`+id+`","name":"run","result":"done"}`, n)
		return `{"model":"m","stream":true,"store":false,"system_instruction":"be good","input":[` + list + `]}`
	})
	agentWords["interactions by id"] = interactionsWords(func(task string, n int, id string) string {
		if n > 0 {
			return `{"model":"m","stream":true,"previous_interaction_id":"v1_1","input":[{"type":"function_result","call_id":"` + id + `","name":"run","result":"done"}]}`
		}
		return `{"model":"m","stream":true,"input":"` + task + `"}`
	})
	agentWords["cohere"] = wordsOf{
		path: "/v2/chat",
		body: agentWords["chat"].body,
		call: func(id string) string {
			return sseOf(`{"type":"message-start","id":"m1"}`,
				`{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"`+id+`","type":"function","function":{"name":"run","arguments":""}}}}}`,
				`{"type":"tool-call-end","index":0}`, `{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}`)
		},
		text: sseOf(`{"type":"message-start","id":"m2"}`, `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"ok"}}}}`, `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`),
	}
}

func interactionsWords(body func(task string, n int, callID string) string) wordsOf {
	return wordsOf{
		path: "/v1beta/interactions",
		body: body,
		call: func(id string) string {
			return sseOf(`{"event_type":"interaction.created","interaction":{"id":"v1_1","status":"in_progress"}}`,
				`{"event_type":"step.start","index":0,"step":{"type":"function_call","id":"`+id+`","name":"run","arguments":{}}}`,
				`{"event_type":"step.stop","index":0}`, `{"event_type":"interaction.completed","interaction":{"id":"v1_1","status":"requires_action"}}`)
		},
		text: sseOf(`{"event_type":"interaction.created","interaction":{"id":"v1_2","status":"in_progress"}}`,
			`{"event_type":"step.start","index":0,"step":{"type":"model_output"}}`, `{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"ok"}}`,
			`{"event_type":"step.stop","index":0}`, `{"event_type":"interaction.completed","interaction":{"id":"v1_2","status":"completed"}}`),
	}
}

func responsesCall(id string) string {
	item := `{"type":"function_call","id":"fc_1","call_id":"` + id + `","name":"run","arguments":"{}","status":"completed"}`
	return sseOf(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"`+id+`","name":"run","arguments":""}}`,
		`{"type":"response.output_item.done","output_index":0,"item":`+item+`}`,
		`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[`+item+`]}}`)
}

var responsesText = sseOf(`{"type":"response.created","response":{"id":"resp_2","status":"in_progress"}}`,
	`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`,
	`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"ok"}`,
	`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}`,
	`{"type":"response.completed","response":{"id":"resp_2","status":"completed"}}`)

// script is a server that gives one answer after the other.
type script struct {
	mu      sync.Mutex
	answers []func(http.ResponseWriter)
}

func (s *script) start(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		answer := s.answers[0]
		s.answers = s.answers[1:]
		s.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func streamed(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

func unavailable(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

func resetting(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		nettest.Reset(c)
	}
}

// runs returns the spans of the runs that have ended, once there are n of them.
func (r *recorder) runs(t *testing.T, n int) (runs []span) {
	t.Helper()
	require.Eventually(t, func() bool {
		runs = r.named("invoke_agent agent")
		return len(runs) >= n
	}, 10*time.Second, time.Millisecond)
	require.Len(t, runs, n)
	return runs
}

// requests returns the spans of the requests that have ended.
func (r *recorder) requests() (list []span) {
	for _, s := range r.spans.Ended() {
		if s.SpanKind() == trace.SpanKindClient {
			list = append(list, span{s})
		}
	}
	return list
}

func TestInferredRun(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	for name, words := range agentWords {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			i := inferring(r, time.Minute)
			s := script{answers: []func(http.ResponseWriter){streamed(words.call(id)), streamed(words.text)}}
			url, rt := s.start(t)+words.path, i.NewTransport(base(t))
			for n := range 2 {
				_, err := call(t.Context(), rt, url, words.body("fix it", n, id))
				require.NoError(t, err)
			}

			run := r.runs(t, 1)[0]
			assert.Equal(t, true, run.get(semconv.RunInferredKey))
			assert.Equal(t, "answer", run.get(semconv.RunEndKey))
			assert.Equal(t, int64(2), run.get(semconv.RunRequestsKey))
			assert.Nil(t, run.get(semconv.RunToolsKey))
			assert.False(t, run.failed())
			assert.Len(t, run.get("gen_ai.conversation.id"), 16)
			for _, q := range r.requests() {
				assert.Equal(t, run.SpanContext().SpanID(), q.Parent().SpanID())
				assert.Equal(t, run.SpanContext().SpanID().String(), q.get(semconv.RunIDKey))
				assert.Equal(t, run.get("gen_ai.conversation.id"), q.get("gen_ai.conversation.id"))
				assert.Equal(t, int64(1), q.get(semconv.RequestAttemptKey))
			}
			tool := r.named("execute_tool run")[0]
			assert.Equal(t, run.SpanContext().SpanID(), tool.Parent().SpanID())
			assert.Equal(t, "history", tool.get(semconv.ToolObservedKey))
			assert.Equal(t, r.requests()[0].EndTime(), tool.StartTime())
			assert.Equal(t, r.requests()[1].StartTime(), tool.EndTime())
			assert.Equal(t, semconv.RunOutcomeSucceeded, r.Diagnosis().Outcome)
			assert.Len(t, r.spans.Ended(), 4)
		})
	}
}

// A 503 and then an answer: one run, and the attempts are numbered.
func TestInferredRunRecovers(t *testing.T) {
	for name, words := range agentWords {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			s := script{answers: []func(http.ResponseWriter){unavailable, unavailable, streamed(words.text)}}
			url, rt := s.start(t)+words.path, inferring(r, time.Minute).NewTransport(base(t))
			for range 3 {
				_, err := call(t.Context(), rt, url, words.body("fix it", 0, ""))
				require.NoError(t, err)
			}
			run := r.runs(t, 1)[0]
			assert.Equal(t, "answer", run.get(semconv.RunEndKey))
			for n, q := range r.requests() {
				assert.Equal(t, int64(n+1), q.get(semconv.RequestAttemptKey))
				assert.Equal(t, run.SpanContext().TraceID(), q.SpanContext().TraceID())
			}
			d := r.Diagnosis()
			assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
			assert.Equal(t, 2, d.RecoveredFailures)
		})
	}
}

// The connection is reset after a tool ran, and no further attempt comes.
func TestInferredRunFails(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	for name, words := range agentWords {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			s := script{answers: []func(http.ResponseWriter){streamed(words.call(id)), resetting, resetting}}
			url, rt := s.start(t)+words.path, inferring(r, time.Millisecond).NewTransport(base(t))
			_, err := call(t.Context(), rt, url, words.body("fix it", 0, id))
			require.NoError(t, err)
			_, err = call(t.Context(), rt, url, words.body("fix it", 1, id))
			require.Error(t, err)

			run := r.runs(t, 1)[0]
			assert.Equal(t, "failure", run.get(semconv.RunEndKey))
			assert.True(t, run.failed())
			assert.Equal(t, "connection_reset", run.get("error.type"))
			assert.Equal(t, r.requests()[1].EndTime(), run.EndTime(), "the time to settle is not the run's")
			d := r.Diagnosis()
			assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome)
			assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety)
			assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
		})
	}
}

// Two turns are two runs of one conversation, the second with a link to the first.
func TestInferredTurns(t *testing.T) {
	words := agentWords["chat"]
	r := newRecorder(t)
	s := script{answers: []func(http.ResponseWriter){streamed(words.text), streamed(words.text)}}
	url, rt := s.start(t)+words.path, inferring(r, time.Minute).NewTransport(base(t))
	first := `{"role":"user","content":"one"}`
	for _, list := range []string{first, first + `,{"role":"assistant","content":"ok"},{"role":"user","content":"two"}`} {
		_, err := call(t.Context(), rt, url, `{"model":"m","stream":true,"messages":[`+list+`]}`)
		require.NoError(t, err)
	}
	runs := r.runs(t, 2)
	assert.Equal(t, runs[0].get("gen_ai.conversation.id"), runs[1].get("gen_ai.conversation.id"))
	assert.NotEqual(t, runs[0].SpanContext().TraceID(), runs[1].SpanContext().TraceID())
	require.Len(t, runs[1].Links(), 1)
	assert.Equal(t, runs[0].SpanContext().SpanID(), runs[1].Links()[0].SpanContext.SpanID())
}

// Agents with the same words are told apart by the ids of their calls.
func TestInferredInterleaved(t *testing.T) {
	words := agentWords["messages"]
	r := newRecorder(t)
	s := script{}
	ids := []string{"toolu_01AbCdEfGhIjKlMn0", "toolu_02AbCdEfGhIjKlMn9"}
	for _, id := range ids {
		s.answers = append(s.answers, streamed(words.call(id)))
	}
	s.answers = append(s.answers, streamed(words.text), streamed(words.text))
	url, rt := s.start(t)+words.path, inferring(r, time.Minute).NewTransport(base(t))
	for n := range 2 {
		for _, id := range ids {
			_, err := call(t.Context(), rt, url, words.body("fix it", n, id))
			require.NoError(t, err)
		}
	}
	runs := r.runs(t, 2)
	requests := r.requests()
	require.Len(t, requests, 4)
	for n := range 2 {
		assert.Equal(t, requests[n].SpanContext().TraceID(), requests[n+2].SpanContext().TraceID())
	}
	assert.NotEqual(t, runs[0].SpanContext().TraceID(), runs[1].SpanContext().TraceID())
}

// A caller's own span keeps the trace. The requests below other spans name the run.
func TestInferredUnderASpan(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	r := newRecorder(t)
	s := script{answers: []func(http.ResponseWriter){unavailable, streamed(words.call(id)), streamed(words.text)}}
	url, rt := s.start(t)+words.path, inferring(r, time.Minute).NewTransport(base(t))
	ctx, first := r.Tracer("app").Start(t.Context(), "turn")
	for range 2 {
		_, err := call(ctx, rt, url, words.body("fix it", 0, id))
		require.NoError(t, err)
	}
	ctx, step := r.Tracer("app").Start(ctx, "step")
	_, err := call(ctx, rt, url, words.body("fix it", 1, id))
	require.NoError(t, err)
	run := r.runs(t, 1)[0]
	assert.Equal(t, first.SpanContext().SpanID(), run.Parent().SpanID())
	parents := []trace.SpanID{run.SpanContext().SpanID(), run.SpanContext().SpanID(), step.SpanContext().SpanID()}
	for n, q := range r.requests() {
		assert.Equal(t, parents[n], q.Parent().SpanID(), n)
		assert.Equal(t, run.SpanContext().SpanID().String(), q.get(semconv.RunIDKey))
	}
}

// No run is inferred within a declared one, or right below another instrumentation's run.
func TestNothingInferredWithinARun(t *testing.T) {
	words := agentWords["chat"]
	r := newRecorder(t)
	i := inferring(r, time.Minute)
	s := script{answers: []func(http.ResponseWriter){streamed(words.text), streamed(words.text)}}
	url, rt := s.start(t)+words.path, i.NewTransport(base(t))
	ctx, run := i.StartRun(t.Context(), "coder")
	_, err := call(ctx, rt, url, words.body("fix it", 0, ""))
	require.NoError(t, err)
	run.End(nil)
	ctx, _ = r.Tracer("adk").Start(t.Context(), "invoke_agent adk", trace.WithAttributes(otelsemconv.GenAIOperationNameInvokeAgent))
	_, err = call(ctx, rt, url, words.body("fix it", 0, ""))
	require.NoError(t, err)
	assert.Empty(t, r.named("invoke_agent agent"))
}

// An agent that never sends the outputs may have wanted the call alone, or wait for a person:
// nothing is claimed of it.
func TestInferredIdle(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["messages"]
	r := newRecorder(t)
	i := inferring(r, time.Minute, WithInferredRuns(InferredRuns{OutputWait: time.Millisecond}))
	s := script{answers: []func(http.ResponseWriter){streamed(words.call(id))}}
	url, rt := s.start(t)+words.path, i.NewTransport(base(t))
	_, err := call(t.Context(), rt, url, words.body("fix it", 0, id))
	require.NoError(t, err)
	assert.Equal(t, "unclear", r.runs(t, 1)[0].get(semconv.RunEndKey))
	assert.Equal(t, classify.Diagnosis{}, r.Diagnosis())
}

// Shutdown ends the runs that wait.
func TestInferredShutdown(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	r := newRecorder(t)
	i := inferring(r, time.Minute)
	s := script{answers: []func(http.ResponseWriter){streamed(words.call(id))}}
	url, rt := s.start(t)+words.path, i.NewTransport(base(t))
	_, err := call(t.Context(), rt, url, words.body("fix it", 0, id))
	require.NoError(t, err)
	require.Empty(t, r.named("invoke_agent agent"))
	require.NoError(t, i.Shutdown(t.Context()))
	run := r.runs(t, 1)[0]
	assert.Equal(t, "shutdown", run.get(semconv.RunEndKey))
	assert.Equal(t, "shutdown", run.get(semconv.AbortSourceKey))
}

// Shutdown does not abort a run whose request was redirected: its client may have followed to where no model is.
func TestInferredShutdownAfterARedirect(t *testing.T) {
	words := agentWords["chat"]
	r := newRecorder(t)
	i := inferring(r, time.Minute)
	s := script{answers: []func(http.ResponseWriter){func(w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}}}
	url, rt := s.start(t)+words.path, i.NewTransport(base(t))
	_, err := call(t.Context(), rt, url, words.body("fix it", 0, ""))
	require.NoError(t, err)
	require.NoError(t, i.Shutdown(t.Context()))
	assert.Equal(t, "unclear", r.runs(t, 1)[0].get(semconv.RunEndKey))
	assert.Equal(t, semconv.RunOutcomeUnset, r.Diagnosis().Outcome)
}

// The end of the client is the end of a run that waits for the outputs of its tools, and changes nothing of others.
func TestInferredClientEnded(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	for _, tt := range []struct {
		by      semconv.RunEnd
		answer  string
		end     string
		outcome semconv.RunOutcome
		safety  semconv.RetrySafety
	}{
		{semconv.RunEndProcessDied, words.call(id), "process_died", semconv.RunOutcomeIncomplete, classify.UserConfirmedRetry},
		{semconv.RunEndShutdown, words.call(id), "shutdown", semconv.RunOutcomeAborted, classify.NoRetry},
		{semconv.RunEndUnset, words.call(id), "unclear", semconv.RunOutcomeUnset, 0},
		{semconv.RunEndProcessDied, words.text, "answer", semconv.RunOutcomeSucceeded, 0},
	} {
		r := newRecorder(t)
		i := inferring(r, time.Minute, WithInferredRuns(InferredRuns{OneAgent: true}))
		s := script{answers: []func(http.ResponseWriter){streamed(tt.answer)}}
		url, rt := s.start(t)+words.path, i.NewTransport(base(t))
		_, err := call(t.Context(), rt, url, words.body("fix it", 0, id))
		require.NoError(t, err)
		i.EndInferredRunsBy(tt.by)
		assert.Equal(t, tt.end, r.runs(t, 1)[0].get(semconv.RunEndKey))
		d := r.Diagnosis()
		assert.Equal(t, tt.outcome, d.Outcome, tt.end)
		assert.Equal(t, tt.safety, d.Retry.Safety, "%s: %s", tt.end, d.Summary)
	}
}

// A run that has its answer only waits for a repetition: Shutdown does not abort it. One whose
// repetition has begun is aborted.
func TestInferredShutdownAfterTheAnswer(t *testing.T) {
	words := agentWords["chat"]
	for _, repeats := range []bool{false, true} {
		r := newRecorder(t)
		i := inferring(r, time.Minute, WithInferredRuns(InferredRuns{OneAgent: true}))
		begun, shut := make(chan struct{}), make(chan struct{})
		s := script{answers: []func(http.ResponseWriter){streamed(words.text), func(w http.ResponseWriter) {
			streamed(words.text[:20])(w)
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-shut
		}}}
		url, rt := s.start(t)+words.path, i.NewTransport(base(t))
		_, err := call(t.Context(), rt, url, words.body("fix it", 0, ""))
		require.NoError(t, err)
		require.Empty(t, r.named("invoke_agent agent"), "it waits")
		ended := make(chan struct{})
		if repeats {
			go func() {
				defer close(ended)
				_, _ = call(t.Context(), rt, url, words.body("fix it", 0, ""))
			}()
			<-begun
		} else {
			close(ended)
		}
		require.NoError(t, i.Shutdown(t.Context()))
		close(shut)
		<-ended
		run := r.runs(t, 1)[0]
		if repeats {
			assert.Equal(t, "shutdown", run.get(semconv.RunEndKey))
			continue
		}
		assert.Equal(t, "answer", run.get(semconv.RunEndKey))
		assert.Empty(t, run.get(semconv.AbortSourceKey))
	}
}

// A body that is not in memory is read as it is sent: the request has a trace of its own,
// and names its run.
func TestInferredLate(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	r := newRecorder(t)
	s := script{answers: []func(http.ResponseWriter){streamed(words.call(id)), streamed(words.text)}}
	with := inferring(r, time.Minute)
	url, rt := s.start(t)+words.path, with.NewTransport(base(t))
	for n := range 2 {
		body := struct{ io.Reader }{strings.NewReader(words.body("fix it", n, id))}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		require.NoError(t, err)
		req.Header.Set("User-Agent", "codex_exec/0.169.0 (Debian)")
		req.Header.Set("Session-Id", "01a203c0-9208-7863-86fa-f6e890e736b3")
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Empty(t, r.named("invoke_agent codex_exec"), "the client may send the same again")
	with.EndInferredRuns()
	runs := r.named("invoke_agent codex_exec")
	require.Len(t, runs, 1)
	assert.Equal(t, "answer", runs[0].get(semconv.RunEndKey))
	assert.Equal(t, "01a203c0-9208-7863-86fa-f6e890e736b3", runs[0].get("gen_ai.conversation.id"))
	for _, q := range r.requests() {
		assert.Equal(t, runs[0].SpanContext().SpanID().String(), q.get(semconv.RunIDKey))
		require.Len(t, q.Links(), 1)
	}
	// No Collector has all of its spans in one trace.
	assert.Equal(t, "succeeded", runs[0].get(semconv.RunOutcomeKey))
	assert.Equal(t, "client", runs[0].get(semconv.ClassificationTriggerKey))
}

// A gateway's requests belong to the runs of the agents behind it; its own attempts are a
// part of the requests that it serves.
func TestInferredBehindAGateway(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	for name, words := range agentWords {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			i := inferring(r, time.Minute)
			s := script{answers: []func(http.ResponseWriter){streamed(words.call(id)), streamed(words.text)}}
			upstream, rt := s.start(t), i.NewTransport(base(t))
			gateway := httptest.NewServer(i.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				out, err := http.NewRequestWithContext(req.Context(), req.Method, upstream+req.URL.Path, req.Body)
				if err != nil {
					panic(err)
				}
				out.Header = req.Header
				resp, err := rt.RoundTrip(out) //nolint:contextcheck // out has the request's
				if err != nil {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				defer resp.Body.Close()
				w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
				w.WriteHeader(resp.StatusCode)
				_, _ = io.Copy(w, resp.Body)
			})))
			t.Cleanup(gateway.Close)
			for n := range 2 {
				_, err := call(t.Context(), base(t), gateway.URL+words.path, words.body(fmt.Sprint("fix ", name), n, id))
				require.NoError(t, err)
			}
			run := r.runs(t, 1)[0]
			assert.Equal(t, int64(2), run.get(semconv.RunRequestsKey))
			assert.Len(t, r.named("execute_tool run"), 1)
		})
	}
}

// panickingErr is a context whose Err panics.
type panickingErr struct{ context.Context }

func (panickingErr) Err() error { panic("secret") }

// A panic after a request was found to belong to a run does not keep the run open.
func TestInferredPanic(t *testing.T) {
	words := agentWords["chat"]
	r := newRecorder(t)
	rt := inferring(r, time.Millisecond).NewTransport(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
	}))
	req, err := http.NewRequestWithContext(panickingErr{t.Context()}, http.MethodPost, "http://host"+words.path, strings.NewReader(words.body("fix it", 0, "")))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "unclear", r.runs(t, 1)[0].get(semconv.RunEndKey))
}

// Right below another instrumentation's run a gateway infers none. The headers of a request
// are those that it came with, whatever its handler does to them before it reads the body.
func TestInferredAtAGateway(t *testing.T) {
	const id = "01a203c0-9208-7863-86fa-f6e890e736b3"
	words := agentWords["chat"]
	r := newRecorder(t)
	served := inferring(r, time.Minute, WithInferredRuns(InferredRuns{RepeatWait: time.Millisecond})).NewHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		clear(req.Header)
		_, _ = io.Copy(io.Discard, req.Body)
		streamed(words.text)(w)
	}))
	declared := false
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if declared {
			ctx, run := r.Tracer("adk").Start(req.Context(), "adk", trace.WithAttributes(otelsemconv.GenAIOperationNameInvokeAgent))
			defer run.End()
			req = req.WithContext(ctx)
		}
		served.ServeHTTP(w, req)
	}))
	t.Cleanup(gateway.Close)
	send := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+words.path, strings.NewReader(words.body("fix it", 0, "")))
		require.NoError(t, err)
		req.Header.Set("User-Agent", "codex_exec/0.169.0 (Debian)")
		req.Header.Set("Thread-Id", id)
		resp, err := base(t).RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	runs := func() []span { return r.named("invoke_agent codex_exec") }
	send()
	require.Eventually(t, func() bool { return len(runs()) == 1 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, id, runs()[0].get("gen_ai.conversation.id"))
	declared = true
	send()
	require.Eventually(t, func() bool { return len(r.named("adk")) == 1 }, 10*time.Second, time.Millisecond)
	assert.Len(t, runs(), 1)
}

// What begins after Shutdown begins a run of its own.
func TestInferredAfterShutdown(t *testing.T) {
	words := agentWords["chat"]
	r := newRecorder(t)
	i := inferring(r, time.Minute)
	s := script{answers: []func(http.ResponseWriter){unavailable, streamed(words.text)}}
	url, rt := s.start(t)+words.path, i.NewTransport(base(t))
	_, err := call(t.Context(), rt, url, words.body("fix it", 0, ""))
	require.NoError(t, err)
	require.NoError(t, i.Shutdown(t.Context()))
	_, err = call(t.Context(), rt, url, words.body("fix it", 0, ""))
	require.NoError(t, err)
	runs := r.runs(t, 2)
	assert.Equal(t, "shutdown", runs[0].get(semconv.RunEndKey))
	assert.Equal(t, "answer", runs[1].get(semconv.RunEndKey))
	assert.Equal(t, runs[1].SpanContext().SpanID(), r.requests()[1].Parent().SpanID())
}
