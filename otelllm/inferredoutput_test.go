package otelllm

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	kept = "call_0f9a8b7c6d5e4f30" // a call whose output comes back
	lost = "call_1e2d3c4b5a697887" // a call whose output does not
)

// callWords are the words of a protocol for histories of which a part may be missing.
type callWords struct {
	path          string
	user          string
	call, output  func(id string) string
	body          func(items ...string) string
	calls, answer string // answers: with both calls, and without
	refusal       string
}

var outputWords = map[string]callWords{
	"chat": {
		path: chatPath,
		user: `{"role":"user","content":"fix it"}`,
		call: func(id string) string {
			return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"run","arguments":"{}"}}]}`
		},
		output: func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"done"}` },
		body: func(items ...string) string {
			return `{"model":"m","stream":true,"messages":[` + strings.Join(items, ",") + `]}`
		},
		calls: sseOf(`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"`+kept+`","type":"function","function":{"name":"run","arguments":"{}"}},{"index":1,"id":"`+lost+`","type":"function","function":{"name":"run","arguments":"{}"}}]}}]}`,
			`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`),
		answer:  agentWords["chat"].text,
		refusal: `{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages","type":"invalid_request_error","code":null}}`,
	},
	"messages": {
		path: messagesPath,
		user: `{"role":"user","content":"fix it"}`,
		call: func(id string) string {
			return `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"run","input":{}}]}`
		},
		output: func(id string) string {
			return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"done"}]}`
		},
		body: func(items ...string) string {
			return `{"model":"m","stream":true,"max_tokens":9,"messages":[` + strings.Join(items, ",") + `]}`
		},
		calls: sseOf(`{"type":"message_start","message":{"id":"m1","role":"assistant","content":[]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"`+kept+`","name":"run","input":{}}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"`+lost+`","name":"run","input":{}}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`),
		answer:  agentWords["messages"].text,
		refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"tool_use ids were found without tool_result blocks"}}`,
	},
	"responses": {
		path: responsesPath,
		user: `{"role":"user","content":"fix it"}`,
		call: func(id string) string {
			return `{"type":"function_call","call_id":"` + id + `","name":"run","arguments":"{}"}`
		},
		output: func(id string) string {
			return `{"type":"function_call_output","call_id":"` + id + `","output":"done"}`
		},
		body: func(items ...string) string {
			return `{"model":"m","stream":true,"input":[` + strings.Join(items, ",") + `]}`
		},
		calls: sseOf(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"`+kept+`","name":"run","arguments":"{}","status":"completed"}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_2","call_id":"`+lost+`","name":"run","arguments":"{}","status":"completed"}}`,
			`{"type":"response.completed","response":{"id":"resp_1","status":"completed"}}`),
		answer:  responsesText,
		refusal: `{"error":{"message":"No tool output found for function call","type":"invalid_request_error","param":"input","code":null}}`,
	},
}

// An output that does not come back is named, in the client and by what its spans say. An
// output that may have been summarized away is not.
func TestInferredOutputs(t *testing.T) {
	refuse := func(w *callWords) func(http.ResponseWriter) {
		return func(out http.ResponseWriter) {
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(out, w.refusal)
		}
	}
	answer := func(w *callWords) func(http.ResponseWriter) { return streamed(w.answer) }
	reset := func(*callWords) func(http.ResponseWriter) { return resetting }
	type step struct {
		history string // k, l: the calls; K, L: their outputs; s: a summary instead of the question
		answer  func(w *callWords) func(http.ResponseWriter)
	}
	for name, tt := range map[string]struct {
		steps   []step // after the answer with both calls
		missing []string
		outcome semconv.RunOutcome
		class   semconv.Class
		cause   semconv.Cause
	}{
		"both come back": {
			steps:   []step{{"klKL", answer}},
			outcome: semconv.RunOutcomeSucceeded,
		},
		"one never comes, and the model answers": {
			steps:   []step{{"klK", answer}},
			missing: []string{lost}, outcome: semconv.RunOutcomeFailed,
			class: semconv.ClassToolOutputLost, cause: semconv.CauseOmittedFromRetry,
		},
		"one never comes, and the provider refuses": {
			steps:   []step{{"klK", refuse}},
			missing: []string{lost}, outcome: semconv.RunOutcomeFailed,
			class: semconv.ClassHistoryBroken, cause: semconv.CauseMissingOutput,
		},
		"one comes late": {
			steps:   []step{{"klK", refuse}, {"klKL", answer}},
			outcome: semconv.RunOutcomeRecovered,
		},
		"one is lost on retry, and the model answers": {
			steps:   []step{{"klKL", reset}, {"klK", answer}},
			missing: []string{lost}, outcome: semconv.RunOutcomeFailed,
			class: semconv.ClassToolOutputLost, cause: semconv.CauseOmittedFromRetry,
		},
		"one is lost on retry, and comes back": {
			steps:   []step{{"klKL", reset}, {"klK", refuse}, {"klKL", answer}},
			outcome: semconv.RunOutcomeRecovered,
		},
		"one is summarized away": {
			steps:   []step{{"skK", answer}},
			outcome: semconv.RunOutcomeSucceeded,
		},
	} {
		for wire, w := range outputWords {
			t.Run(name+"/"+wire, func(t *testing.T) {
				r := newRecorder(t)
				s := script{answers: []func(http.ResponseWriter){streamed(w.calls)}}
				bodies := []string{w.body(w.user)}
				for _, step := range tt.steps {
					s.answers = append(s.answers, step.answer(&w))
					items := []string{w.user}
					for _, item := range step.history {
						switch item {
						case 's':
							items[0] = strings.Replace(w.user, "fix it", "so far: it was fixed", 1)
						case 'k':
							items = append(items, w.call(kept))
						case 'l':
							items = append(items, w.call(lost))
						case 'K':
							items = append(items, w.output(kept))
						case 'L':
							items = append(items, w.output(lost))
						}
					}
					bodies = append(bodies, w.body(items...))
				}
				settle := time.Minute
				if tt.class == semconv.ClassHistoryBroken { // nothing follows the failure
					settle = time.Millisecond
				}
				url, rt := s.start(t)+w.path, inferring(r, settle, WithVerdicts()).NewTransport(base(t))
				for _, body := range bodies {
					_, _ = call(t.Context(), rt, url, body)
				}
				run := r.runs(t, 1)[0]
				d := r.Diagnosis()
				assert.Equal(t, int64(len(bodies)), run.get(semconv.RunRequestsKey), "all are one run")
				assert.Equal(t, tt.outcome, d.Outcome)
				assert.Equal(t, tt.class, d.Class)
				assert.Equal(t, tt.cause, d.Cause)
				assert.Equal(t, tt.missing, d.MissingOutputs)
				if d.Failed() {
					assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety)
				}
				assert.Equal(t, tt.outcome.String(), run.get(semconv.RunOutcomeKey))
				if tt.missing == nil {
					assert.Nil(t, run.get(semconv.HistoryMissingOutputsKey))
				} else {
					assert.Equal(t, tt.missing, run.get(semconv.HistoryMissingOutputsKey))
				}
			})
		}
	}
}
