package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// rtFull is the same output with no id by which the server may refuse it.
var rtFull = strings.Replace(rtOutput, `"event_id":"c2",`, "", 1)

// asks lets the model ask for the call.
func asks(s *Session) {
	s.RecordReceived([]byte(rtSession))
	s.RecordSent([]byte(rtCreate))
	s.RecordReceived([]byte(rtCreated))
	s.RecordReceived([]byte(rtAdded))
	s.RecordReceived([]byte(rtCall))
	s.RecordReceived([]byte(rtDone("completed", "null")))
}

// answers lets the model answer once more.
func answers(s *Session) {
	for _, frame := range []string{rtCreated, rtText, rtDone("completed", "null")} {
		s.RecordReceived([]byte(strings.ReplaceAll(frame, `"r1"`, `"r2"`)))
	}
}

// TestUnrecordedCalls plays what may become of a call that the application does not record, in a
// run that it declares and in one that it does not.
func TestUnrecordedCalls(t *testing.T) {
	refused := `{"type":"error","event_id":"e8","error":{"type":"invalid_request_error","event_id":"c2"}}`
	lost, failed := semconv.ClassToolOutputLost, semconv.RunOutcomeFailed
	for _, tt := range []struct {
		name    string
		then    func(*Session)
		outcome semconv.RunOutcome
		class   semconv.Class
		cause   semconv.Cause
		missing []string
	}{
		{"the session closes", func(*Session) {}, failed, lost, semconv.CauseNeverAnswered, []string{"call_a"}},
		{"the person goes on", answers, failed, lost, semconv.CauseOmittedFromRetry, []string{"call_a"}},
		{"it is sent and answered", func(s *Session) {
			s.RecordSent([]byte(rtFull))
			answers(s)
		}, semconv.RunOutcomeSucceeded, semconv.ClassUnset, semconv.CauseUnset, nil},
		{"it is sent with an id and answered", func(s *Session) {
			s.RecordSent([]byte(rtOutput))
			answers(s)
		}, semconv.RunOutcomeSucceeded, semconv.ClassUnset, semconv.CauseUnset, nil},
		{"sending it fails", func(s *Session) { s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe) }, failed, lost, semconv.CauseDeliveryFailed, []string{"call_a"}},
		{"sending it fails, and the person goes on", func(s *Session) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			answers(s)
		}, failed, lost, semconv.CauseDeliveryFailed, []string{"call_a"}},
		{"the server refuses it", func(s *Session) {
			s.RecordSent([]byte(rtOutput))
			s.RecordReceived([]byte(refused))
		}, failed, lost, semconv.CauseDeliveryFailed, []string{"call_a"}},
		{"sending it fails once", func(s *Session) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			s.RecordSent([]byte(rtFull))
			answers(s)
		}, semconv.RunOutcomeRecovered, semconv.ClassUnset, semconv.CauseUnset, nil},
	} {
		for _, declared := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				r := spantest.New(t)
				llm := otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithVerdicts())
				ctx, end := t.Context(), func(error) {}
				if declared {
					var run *otelllm.Run
					ctx, run = llm.StartRun(ctx, "agent")
					end = run.End
				}
				session := NewSession(ctx, Config{Instrumentation: llm})
				asks(session)
				tt.then(session)
				session.Close(nil)
				end(nil)
				runs := r.Named("invoke_agent agent")
				require.Len(t, runs, 1)
				assert.Equal(t, tt.outcome.String(), spantest.Get(runs[0], semconv.RunOutcomeKey))
				assert.Equal(t, tt.missing, list(spantest.Get(runs[0], semconv.HistoryMissingOutputsKey)))
				if tt.class == semconv.ClassUnset {
					assert.Nil(t, spantest.Get(runs[0], semconv.FailureClassKey))
					assert.False(t, spantest.Failed(runs[0]))
					return
				}
				assert.Equal(t, tt.class.String(), spantest.Get(runs[0], semconv.FailureClassKey))
				assert.Equal(t, tt.cause.String(), spantest.Get(runs[0], semconv.FailureCauseKey))
				assert.Equal(t, classify.UserConfirmedRetry.String(), spantest.Get(runs[0], semconv.RetrySafetyKey))
				assert.True(t, spantest.Failed(runs[0]))
			})
		}
	}
}

func list(v any) []string {
	l, _ := v.([]string)
	return l
}

// TestHandoff plays a handoff to another agent whose answer cannot be sent, in each of the ways in
// which it may be recorded.
func TestHandoff(t *testing.T) {
	for name, hand := range map[string]func(ctx context.Context){
		"not at all": func(context.Context) {},
		"as a tool":  func(ctx context.Context) { endTool(ctx, nil) },
		"as a run":   func(ctx context.Context) { _, run := otelllm.StartRun(ctx, "billing"); run.End(nil) },
		"as a tool within a run": func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "billing")
			endTool(ctx, nil)
			run.End(nil)
		},
		"as a run within a tool": func(ctx context.Context) {
			ctx, tool := otelllm.StartTool(ctx, handoff)
			_, run := otelllm.StartRun(ctx, "billing")
			run.End(nil)
			tool.End(nil)
		},
		"as a tool that failed": func(ctx context.Context) { endTool(ctx, errors.New("secret")) },
		"as a run that failed":  func(ctx context.Context) { _, run := otelllm.StartRun(ctx, "billing"); run.End(errors.New("secret")) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, run := otelllm.StartRun(t.Context(), "triage")
			session := NewSession(ctx, Config{})
			asks(session)
			hand(ctx)
			session.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			session.Close(nil)
			run.End(nil)
			d := run.Diagnosis()
			assert.Equal(t, semconv.ClassToolOutputLost, d.Class)
			assert.Equal(t, semconv.CauseDeliveryFailed, d.Cause)
			assert.Equal(t, []string{"call_a"}, d.MissingOutputs)
			assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety)
			if name == "as a tool that failed" {
				assert.Contains(t, d.Summary, "f failed, and its error never reached the model (sending it failed).")
				facts, _ := agentrun.Of(ctx).Facts()
				v := classify.Judge(&facts)
				assert.Equal(t, semconv.ClassToolFailed, v.Tools[0].Class, "the tool keeps its own failure")
			}
		})
	}
}

var handoff = otelllm.ToolCall{ID: "call_a", Name: "f"}

func endTool(ctx context.Context, err error) {
	_, tool := otelllm.StartTool(ctx, handoff)
	tool.End(err)
}

// TestOutputsThatNothingAnswered plays a tool that failed and whose failure did not lead to an
// answer. Nothing recovers without one.
func TestOutputsThatNothingAnswered(t *testing.T) {
	toolFailed, lost := semconv.ClassToolFailed, semconv.ClassToolOutputLost
	for _, tt := range []struct {
		name  string
		then  func(*Session, *otelllm.Tool)
		class semconv.Class
		cause semconv.Cause
	}{
		{"sent, and the session closes", func(s *Session, _ *otelllm.Tool) { s.RecordSent([]byte(rtFull)) }, toolFailed, semconv.CauseExecutionError},
		{"sent, and the next answer is cut", func(s *Session, _ *otelllm.Tool) {
			s.RecordSent([]byte(rtFull))
			s.RecordSent([]byte(rtCreate))
		}, semconv.ClassStreamInterrupted, semconv.CauseClosedBeforeHeaders},
		{"kept, and never sent", func(s *Session, tool *otelllm.Tool) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			tool.RecordOutputCached()
		}, lost, semconv.CauseDeliveryFailed},
		{"kept, and the session goes on", func(s *Session, tool *otelllm.Tool) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			tool.RecordOutputCached()
			answers(s)
		}, lost, semconv.CauseDeliveryFailed},
		{"not sent, and the session goes on", func(s *Session, _ *otelllm.Tool) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			answers(s)
		}, lost, semconv.CauseDeliveryFailed},
		{"kept, and sent", func(s *Session, tool *otelllm.Tool) {
			s.RecordSendFailure([]byte(rtFull), io.ErrClosedPipe)
			tool.RecordOutputCached()
			s.RecordSent([]byte(rtFull))
			answers(s)
		}, semconv.ClassUnset, semconv.CauseUnset},
		{"sent and answered", func(s *Session, _ *otelllm.Tool) {
			s.RecordSent([]byte(rtFull))
			answers(s)
		}, semconv.ClassUnset, semconv.CauseUnset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, run := otelllm.StartRun(t.Context(), "assistant")
			session := NewSession(ctx, Config{})
			asks(session)
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f", Effect: otelllm.EffectReadOnly})
			tool.End(errors.New("secret"))
			tt.then(session, tool)
			session.Close(io.EOF)
			run.End(nil)
			d := run.Diagnosis()
			assert.Equal(t, tt.class, d.Class)
			assert.Equal(t, tt.cause, d.Cause)
			if tt.class == semconv.ClassUnset {
				assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
				return
			}
			if tt.class == lost {
				assert.Contains(t, d.Summary, "The tool f failed, and its error never reached the model (sending it failed).")
				assert.Contains(t, d.Evidence, "llm.tool.outcome=failed")
			}
			assert.NotEqual(t, semconv.RunOutcomeRecovered, d.Outcome)
			facts, _ := agentrun.Of(ctx).Facts()
			v := classify.Judge(&facts)
			assert.Equal(t, semconv.ClassToolFailed, v.Tools[0].Class)
		})
	}
}

// A client may execute a call as soon as its arguments are one JSON value, and a session that breaks
// after that may have run it. Before that no client can have executed it: what asks then is only that
// the history of the session was on the server.
func TestSessionBreaksWithinACall(t *testing.T) {
	piece := func(text string) string {
		return `{"type":"response.function_call_arguments.delta","event_id":"e4","response_id":"r1","item_id":"i1","output_index":0,"call_id":"call_a","delta":` + strconv.Quote(text) + `}`
	}
	pieces := []string{`{"to":`, `"a}"`, `,"n":{}`, `}`}
	session := strings.Replace(rtSession, `"type":"realtime"`, `"type":"realtime","tools":[{"type":"function","name":"f"}]`, 1)
	frames := []string{session, rtCreated, rtAdded}
	for _, text := range pieces {
		frames = append(frames, piece(text))
	}
	frames = append(frames, rtCall)
	for _, declared := range []bool{false, true} {
		for n := 2; n <= len(frames); n++ {
			input := strings.Join(pieces[:min(max(n-3, 0), len(pieces))], "")
			ran := json.Valid([]byte(input))
			var opts []otelllm.RunOption
			if declared {
				opts = append(opts, otelllm.WithToolsRecorded())
			}
			ctx, run := otelllm.StartRun(t.Context(), "agent", opts...)
			session := NewSession(ctx, Config{})
			session.RecordSent([]byte(rtCreate))
			for _, frame := range frames[:n] {
				session.RecordReceived([]byte(frame))
			}
			if ran && declared {
				endTool(ctx, nil)
			}
			session.Close(io.ErrUnexpectedEOF)
			d := run.Diagnosis()
			run.End(io.ErrUnexpectedEOF)
			assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety, "after %d frames: %s", n, d.Summary)
			assert.Equal(t, !ran, d.Retry.Reason == semconv.RetryReasonEvidenceIncomplete, "after %d frames: %s", n, d.Summary)
			assert.False(t, ran && strings.Contains(d.Summary, "had not run"), "after %d frames: %s", n, d.Summary)
		}
	}
}
