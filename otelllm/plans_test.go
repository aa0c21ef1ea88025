package otelllm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// planAttributes returns the attributes of a span that are of a plan.
func planAttributes(s span) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	for _, kv := range s.Attributes() {
		if strings.HasPrefix(string(kv.Key), "llm.resume.") {
			m[kv.Key] = kv.Value.AsInterface()
		}
	}
	return m
}

// TestPlanOnTheRun checks that the span of a run that failed has the plan to go on, and no other.
func TestPlanOnTheRun(t *testing.T) {
	toolCall := strings.Join(ownStreams()[0].events, "")
	carries := `{"model":"gpt-5","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`
	for name, tt := range map[string]struct {
		sent   bool
		second string // the answer to the output, then the end, or a reset if a plan is wanted
		want   map[attribute.Key]any
	}{
		"its output is answered": {true, sseHead + firstText + chatStop + chatDone, map[attribute.Key]any{}},
		"the request with its output is cut": {true, sseHead + firstText, map[attribute.Key]any{
			"llm.resume.send": "rest", "llm.resume.ask": "visible_output",
			"llm.resume.ran.ids": []string{"call_1"}, "llm.resume.ran.names": []string{"pay"}, "llm.resume.ran.outputs": []string{"kept"},
		}},
		"its output is not sent": {false, "", map[attribute.Key]any{
			"llm.resume.send": "repaired_history", "llm.resume.ask": "tool_side_effect",
			"llm.resume.ran.ids": []string{"call_1"}, "llm.resume.ran.names": []string{"pay"}, "llm.resume.ran.outputs": []string{"lost"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			transport := NewTransport(base(t), WithTracerProvider(r), WithVerdicts())
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			_, err := call(ctx, transport, scriptedServer(t, sseHead+toolCall, nil)+chatPath, chatBody)
			require.NoError(t, err)
			_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "pay", Effect: EffectNonIdempotent})
			tool.End(nil)
			if tt.sent {
				then := nettest.HangUp
				if len(tt.want) > 0 {
					then = nettest.Reset
				}
				_, err = call(ctx, transport, scriptedServer(t, tt.second, then)+chatPath, carries)
			} else {
				tool.RecordOutputFailure(assert.AnError)
				err = assert.AnError
			}
			run.End(err)
			s := r.named("invoke_agent coder")[0]
			assert.Equal(t, tt.want, planAttributes(s))
			for _, other := range r.spans.Ended() {
				if other.Name() != s.Name() {
					assert.Empty(t, planAttributes(span{other}), other.Name())
				}
			}
		})
	}
}
