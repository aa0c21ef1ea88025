//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/judge"
	sdk "github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// plan is a plan as `otelllm judge` prints it, as far as every way must say the same.
type plan struct {
	Ran        []plannedCall `json:"ran"`
	MayHaveRun []plannedCall `json:"may_have_run"`
	NeverRan   []plannedCall `json:"never_ran"`
	More       bool          `json:"more"`
	Send       string        `json:"send"`
}

type plannedCall struct{ ID, Name, Output string }

// planOn is the plan on the span of a run.
func planOn(attrs map[string]any) plan {
	texts := func(key string) (list []string) {
		values, _ := attrs[key].([]any)
		for _, v := range values {
			list = append(list, fmt.Sprint(v))
		}
		return list
	}
	calls := func(space string) []plannedCall {
		list := []plannedCall{}
		names, outputs := texts(space+".names"), texts(space+".outputs")
		for i, id := range texts(space + ".ids") {
			c := plannedCall{ID: id}
			if i < len(names) {
				c.Name = names[i]
			}
			if i < len(outputs) {
				c.Output = outputs[i]
			}
			list = append(list, c)
		}
		return list
	}
	p := plan{Ran: calls("llm.resume.ran"), MayHaveRun: calls("llm.resume.may_have_run"), NeverRan: calls("llm.resume.never_ran")}
	p.Send, _ = attrs[string(semconv.ResumeSendKey)].(string)
	p.More, _ = attrs[string(semconv.ResumeMoreKey)].(bool)
	return p
}

// foundingSpans plays the incident to a program that records its run and its tool.
func foundingSpans(t *testing.T, refuses bool) []sdktrace.ReadOnlySpan {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	llm := sdk.New(sdk.WithTracerProvider(provider))
	ctx, run := llm.StartRun(t.Context(), "codex")
	srv := foundingServer(t, refuses)
	client := &http.Client{Transport: inContext{ctx, llm.NewTransport(nil)}}
	err := foundingAgent(client, srv, func() {
		_, tool := sdk.StartTool(ctx, sdk.ToolCall{ID: foundingCall, Name: foundingTool})
		tool.End(nil)
	})
	require.Error(t, err)
	run.End(err)
	require.NoError(t, provider.Shutdown(t.Context()))
	return spans.Ended()
}

// inContext sends requests in the context of a run.
type inContext struct {
	ctx  context.Context
	next http.RoundTripper
}

func (c inContext) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.next.RoundTrip(r.WithContext(c.ctx))
}

func foundingServer(t *testing.T, refuses bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { foundingModel(w, r, refuses) }))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// TestFoundingPlan reads the plan after the founding incident from Codex's session file, from the
// wire alone, from the spans of a program that records its run, and from the judge: it is one.
func TestFoundingPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		refuses bool
		// message is the error in the session file. Recorded is a refusal, of which Codex does not keep
		// the status; for a stream that broke it begins as in Codex' own source.
		message    string
		send       semconv.ResumeSend
		sendByFile semconv.ResumeSend // where the file knows less
	}{
		"the request with the output breaks off": {false, "stream disconnected before completion: x", semconv.ResumeSendRest, semconv.ResumeSendRest},
		"the request with the output is refused": {true, "", semconv.ResumeSendNothing, semconv.ResumeSendRest},
	} {
		t.Run(name, func(t *testing.T) {
			want := plan{
				Ran:        []plannedCall{{ID: foundingCall, Name: foundingTool, Output: "kept"}},
				MayHaveRun: []plannedCall{}, NeverRan: []plannedCall{}, Send: tt.send.String(),
			}
			byFile := want
			byFile.Send = tt.sendByFile.String()
			assert.Equal(t, byFile, foundingByFile(t, tt.message))
			assert.Equal(t, want, foundingByWire(t, tt.refuses), "the wire")

			var judged ptrace.Traces
			e, err := engine.Start(t.Context(), engine.Config{}, func(_ context.Context, td ptrace.Traces) error {
				judged = td
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, e.NewExporter().ExportSpans(t.Context(), foundingSpans(t, tt.refuses)))
			require.NoError(t, e.Shutdown(t.Context()))
			assert.Equal(t, []plan{want}, takePlans(judged), "the spans")

			raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(judged)
			require.NoError(t, err)
			var answer struct {
				Verdicts []struct {
					Verdict map[string]any
					Plan    plan
				}
			}
			require.NoError(t, json.Unmarshal(judge.New(judge.Options{}).Line(raw, 1), &answer))
			require.Len(t, answer.Verdicts, 1)
			assert.Equal(t, want, answer.Verdicts[0].Plan, "the judge")
			assert.Equal(t, want, planOn(answer.Verdicts[0].Verdict), "the judge")
		})
	}
}

// foundingByFile is the plan of the recorded session, in which the request with the output was
// refused. A message takes the place of the one about that.
func foundingByFile(t *testing.T, message string) plan {
	t.Helper()
	home := t.TempDir()
	codexSession(t, home, "call_no_end_dead")
	if message != "" {
		files, err := filepath.Glob(filepath.Join(home, ".codex", "sessions", "*", "*", "*", "*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		raw, err := os.ReadFile(files[0])
		require.NoError(t, err)
		changed := regexp.MustCompile(`"message":"[^"]*","codex_error_info"`).ReplaceAll(raw, []byte(`"message":"`+message+`","codex_error_info"`))
		require.NotEqual(t, string(raw), string(changed))
		require.NoError(t, os.WriteFile(files[0], changed, 0o600))
	}
	sessions := readHome(t, home)
	require.Len(t, sessions, 1)
	require.Len(t, sessions[0].Turns, 1)
	require.NotNil(t, sessions[0].Turns[0].Plan)
	raw, err := json.Marshal(sessions[0].Turns[0].Plan)
	require.NoError(t, err)
	var got plan
	require.NoError(t, json.Unmarshal(raw, &got))
	return got
}

// foundingByWire is the plan of `otelllm run`, which has the requests and no more.
func foundingByWire(t *testing.T, refuses bool) plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	p := otelllm(t, []string{"OPENAI_BASE_URL=" + foundingServer(t, refuses)}, append([]string{"run", "--json", file, "--"}, asking(t, "founding")...)...)
	assert.Equal(t, 0, p.run(t), "%s", &p.stderr)
	records := readRecords(t, file)
	require.Len(t, records, 1)
	return planOn(records[0].Attributes)
}

// takePlans takes the plans off spans.
func takePlans(td ptrace.Traces) (list []plan) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if _, ok := span.Attributes().Get(string(semconv.ResumeSendKey)); ok {
					list = append(list, planOn(span.Attributes().AsRaw()))
				}
				span.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool { return strings.HasPrefix(key, "llm.resume.") })
			}
		}
	}
	return list
}
