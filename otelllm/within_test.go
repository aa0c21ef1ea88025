package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/otelllm/manual"
	"github.com/otelllm/otelllm-go/semconv"
)

// connReset is the error of a connection that was reset.
var connReset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// request starts a request with all facts observed, and with these outputs in its history.
func request(ctx context.Context, outputs ...string) *manual.Request {
	outputs = append([]string{}, outputs...)
	_, q := manual.Start(ctx, manual.RequestInfo{Model: "m", Stream: true, ProviderTools: []string{}, HistoryCalls: outputs, HistoryOutputs: outputs})
	q.RecordSent()
	return q
}

// execute starts a tool and ends it with err.
func execute(ctx context.Context, id string, effect otelllm.Effect, err error) {
	_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: id, Name: "pay", Effect: effect})
	tool.End(err)
}

// What an inner run did counts for every run around it: while it is open, when it has
// ended, and if a part of it begins or ends later.
func TestInnerRunsCount(t *testing.T) {
	for _, tt := range []struct {
		name   string
		inner  func(ctx context.Context)
		safety semconv.RetrySafety
		reason semconv.RetryReason
		tools  any // of the outer run's span
		within int // requests
	}{
		{"nothing", func(ctx context.Context) {
			_, run := otelllm.StartRun(ctx, "inner")
			run.End(nil)
		}, classify.SafeAutoRetry, semconv.RetryReasonNoOutput, nil, 0},
		{"a payment", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			execute(ctx, "call_1", otelllm.EffectNonIdempotent, nil)
			run.End(nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect, int64(1), 0},
		{"a payment that failed before any effect", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			execute(ctx, "call_1", otelllm.EffectNonIdempotent, otelllm.FailedBeforeEffect(io.EOF))
			run.End(nil)
		}, classify.SafeAutoRetry, semconv.RetryReasonNoOutput, int64(1), 0},
		{"a tool that only reads", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			execute(ctx, "call_1", otelllm.EffectReadOnly, nil)
			run.End(nil)
		}, classify.SafeAutoRetry, semconv.RetryReasonReadOnlyToolsOnly, int64(1), 0},
		{"a payment in a run that is open", func(ctx context.Context) {
			ctx, _ = otelllm.StartRun(ctx, "inner")
			execute(ctx, "call_1", otelllm.EffectNonIdempotent, nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect, int64(1), 0},
		{"a payment that outlives its run", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			_, _ = otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay", Effect: otelllm.EffectNonIdempotent})
			run.End(nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect, int64(1), 0},
		{"a payment two runs deeper", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			deeper, innermost := otelllm.StartRun(ctx, "innermost")
			execute(deeper, "call_1", otelllm.EffectNonIdempotent, nil)
			innermost.End(nil)
			run.End(nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect, int64(1), 0},
		{"a payment after the end of its run", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			deeper, innermost := otelllm.StartRun(ctx, "innermost")
			innermost.End(nil)
			run.End(nil)
			execute(deeper, "call_1", otelllm.EffectNonIdempotent, nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect, int64(1), 0},
		{"text", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			q := request(ctx)
			q.RecordText()
			q.RecordFinish("stop")
			q.End(nil)
			run.End(nil)
		}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput, nil, 1},
		{"text of a request that is open", func(ctx context.Context) {
			ctx, _ = otelllm.StartRun(ctx, "inner")
			request(ctx).RecordText()
		}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput, nil, 1},
		{"text of a request that outlives its run", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			q := request(ctx)
			run.End(nil)
			q.RecordText()
		}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput, nil, 1},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %v", tt.name, first), func(t *testing.T) {
				r := spantest.New(t)
				ctx, outer := otelllm.StartRun(t.Context(), "outer", otelllm.WithTracerProvider(r), otelllm.WithToolsRecorded())
				if first {
					tt.inner(ctx)
				}
				request(ctx).End(connReset)
				if !first {
					tt.inner(ctx)
				}
				check := func(d classify.Diagnosis) {
					t.Helper()
					assert.Equal(t, semconv.CauseConnectionReset, d.Cause)
					assert.Equal(t, tt.safety, d.Retry.Safety)
					assert.Equal(t, tt.reason, d.Retry.Reason)
				}
				check(outer.Diagnosis())
				outer.End(connReset)
				check(outer.Diagnosis())
				s := r.Named("invoke_agent outer")[0]
				tools := tt.tools
				if tools == nil {
					tools = int64(0)
				}
				assert.Equal(t, tools, spantest.Get(s, "llm.run.tools"))
				assert.Equal(t, int64(1+tt.within), spantest.Get(s, "llm.run.requests"))
			})
		}
	}
}

// What an inner run does is counted once, at any time.
func TestInnerRunsAreCountedOnce(t *testing.T) {
	ctx, _ := otelllm.StartRun(t.Context(), "outer", otelllm.WithToolsRecorded())
	inner, run := otelllm.StartRun(ctx, "inner")
	for i := range 3 {
		q := request(inner)
		q.RecordFinish("stop")
		q.End(nil)
		execute(inner, fmt.Sprint("call_", i), otelllm.EffectReadOnly, nil)
		seen, _ := agentrun.Of(ctx).Facts()
		assert.Equal(t, i+1, seen.Inner.Requests)
		assert.Equal(t, i+1, seen.Inner.Tools)
	}
	run.End(nil)
	assert.Zero(t, agentrun.Of(ctx).Kept().Runs, "the inner run is over")
	execute(inner, "late", otelllm.EffectReadOnly, nil)
	q := request(inner)
	require.Equal(t, 1, agentrun.Of(ctx).Kept().Runs, "the inner run goes on")
	seen, settled := agentrun.Of(ctx).Facts()
	assert.False(t, settled)
	assert.Equal(t, 4, seen.Inner.Tools)
	q.End(nil)
	assert.Zero(t, agentrun.Of(ctx).Kept().Runs)
	seen, settled = agentrun.Of(ctx).Facts()
	assert.True(t, settled)
	assert.Equal(t, 4, seen.Inner.Requests)
	assert.Equal(t, 4, seen.Inner.Tools)
	assert.Equal(t, classify.Counted(4), seen.AnnouncedRequests)
}

// A run keeps a bounded number of its inner runs, and all of their effects.
func TestInnerRunsAreBounded(t *testing.T) {
	for _, ends := range []bool{true, false} {
		ctx, outer := otelllm.StartRun(t.Context(), "outer")
		var first context.Context
		for i := range agentrun.MaxParts + 100 {
			inner, run := otelllm.StartRun(ctx, "inner")
			if i == 0 {
				first = inner //nolint:fatcontext // the runs are siblings, not nested
				execute(inner, "call_1", otelllm.EffectNonIdempotent, nil)
			}
			if ends {
				run.End(nil)
			}
		}
		if ends {
			assert.Zero(t, agentrun.Of(ctx).Kept().Runs)
		} else {
			assert.Equal(t, agentrun.MaxParts, agentrun.Of(ctx).Kept().Runs)
		}
		request(ctx).End(connReset)
		assert.Equal(t, semconv.RetryReasonToolSideEffect, outer.Diagnosis().Retry.Reason)
		execute(first, "call_2", otelllm.EffectReadOnly, nil)
		seen, _ := agentrun.Of(ctx).Facts()
		assert.Equal(t, 2, seen.Inner.Tools, "a run that goes on is still counted")
	}
}

// An open request is not a failure, and what it has done counts.
func TestOpenRequestsCount(t *testing.T) {
	for _, tt := range []struct {
		name   string
		open   func(*manual.Request)
		safety semconv.RetrySafety
		reason semconv.RetryReason
	}{
		{"nothing came", func(*manual.Request) {}, classify.UserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
		{"reasoning", (*manual.Request).RecordReasoning, classify.UserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
		{"text", (*manual.Request).RecordText, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		{"a call", func(q *manual.Request) { q.RecordToolCall("call_1", "pay") }, classify.UserConfirmedRetry, semconv.RetryReasonToolStateUnknown},
		{"a provider's tool", (*manual.Request).RecordProviderTool, classify.UserConfirmedRetry, semconv.RetryReasonProviderToolSideEffect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, run := otelllm.StartRun(t.Context(), "coder")
			open := request(ctx)
			tt.open(open)
			assert.Equal(t, semconv.RunOutcomeSucceeded, run.Diagnosis().Outcome, "nothing has failed so far")
			broken := request(ctx)
			broken.End(connReset)
			d := run.Diagnosis()
			assert.Equal(t, semconv.CauseConnectionReset, d.Cause)
			assert.Equal(t, tt.safety, d.Retry.Safety)
			assert.Equal(t, tt.reason, d.Retry.Reason)
			if tt.reason == semconv.RetryReasonEvidenceIncomplete {
				assert.Contains(t, d.MissingEvidence, string(semconv.RunIDKey))
			}
			open.RecordText()
			assert.NotEqual(t, classify.SafeAutoRetry, run.Diagnosis().Retry.Safety, "what it does next counts, too")
			run.End(connReset)
			assert.NotEqual(t, classify.SafeAutoRetry, run.Diagnosis().Retry.Safety)
			open.End(nil)
		})
	}
}

// An open request may do anything next, also one of a run within the run. When it has ended with
// nothing, the retry is safe again.
func TestOpenRequestsOfInnerRuns(t *testing.T) {
	for _, within := range []bool{false, true} {
		ctx, run := otelllm.StartRun(t.Context(), "outer", otelllm.WithToolsRecorded())
		inner := ctx
		if within {
			inner, _ = otelllm.StartRun(ctx, "inner")
		}
		open := request(inner)
		request(ctx).End(connReset)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, run.Diagnosis().Retry.Reason)
		open.End(connReset)
		assert.Equal(t, classify.SafeAutoRetry, run.Diagnosis().Retry.Safety)
	}
}

// Every tool is known to be recorded only if one was recorded, or if the author declares it.
func TestToolsRecorded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(ctx context.Context)
		opts  []otelllm.RunOption
		tools any
	}{
		{"nothing is known", func(context.Context) {}, nil, nil},
		{"declared", func(context.Context) {}, []otelllm.RunOption{otelllm.WithToolsRecorded()}, int64(0)},
		{"one was", func(ctx context.Context) { execute(ctx, "call_1", otelllm.EffectReadOnly, nil) }, nil, int64(1)},
		{"one was, but in an inner run", func(ctx context.Context) {
			ctx, run := otelllm.StartRun(ctx, "inner")
			execute(ctx, "call_1", otelllm.EffectReadOnly, nil)
			run.End(nil)
		}, nil, nil}, // it belongs to the inner run
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "coder", append(tt.opts, otelllm.WithTracerProvider(r))...)
			tt.do(ctx)
			_, within := otelllm.StartRun(ctx, "last")
			within.End(nil)
			var carried []string
			if tt.tools == int64(1) {
				carried = []string{"call_1"} // the model receives what the run's own tool returned
			}
			q := request(ctx, carried...)
			q.RecordToolCall("call_9", "pay")
			q.End(connReset)
			want := classify.SafeAutoRetry
			if tt.tools == nil {
				want = classify.UserConfirmedRetry
			}
			assert.Equal(t, want, run.Diagnosis().Retry.Safety)
			run.End(connReset)
			assert.Equal(t, want, run.Diagnosis().Retry.Safety)
			assert.Equal(t, tt.tools, spantest.Get(r.Named("invoke_agent coder")[0], "llm.run.tools"))
			var inherited any
			if tt.opts != nil {
				inherited = int64(0)
			}
			assert.Equal(t, inherited, spantest.Get(r.Named("invoke_agent last")[0], "llm.run.tools"), "the author's declaration applies to inner runs")
		})
	}
}

// A run that failed by its own verdict has the status Error. It has error.type only if it
// ended with an error.
func TestRunStatus(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opts      []otelllm.RunOption
		end       error // of its request
		err       error
		failed    bool
		described bool // the status has the summary
	}{
		{"success", []otelllm.RunOption{otelllm.WithVerdicts()}, nil, nil, false, false},
		{"cut", []otelllm.RunOption{otelllm.WithVerdicts()}, connReset, nil, true, true},
		{"cut, and not judged", nil, connReset, nil, false, false},
		{"cut and ended with the error", []otelllm.RunOption{otelllm.WithVerdicts()}, connReset, connReset, true, true},
		{"ended with an error", nil, nil, connReset, true, false},
		{"stopped", []otelllm.RunOption{otelllm.WithVerdicts()}, &otelllm.AbortError{Source: otelllm.AbortUser}, &otelllm.AbortError{Source: otelllm.AbortUser}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "coder", append(tt.opts, otelllm.WithTracerProvider(r))...)
			q := request(ctx)
			q.RecordText()
			if tt.end == nil {
				q.RecordFinish("stop")
			}
			q.End(tt.end)
			run.End(tt.err)
			s := r.Named("invoke_agent coder")[0]
			assert.Equal(t, tt.failed, spantest.Failed(s))
			summary := ""
			if tt.described {
				summary = run.Diagnosis().Summary
				assert.NotEmpty(t, summary)
			}
			assert.Equal(t, summary, s.Status().Description)
			assert.Equal(t, errors.Is(tt.err, syscall.ECONNRESET), spantest.Get(s, "error.type") != nil)
			assert.Equal(t, r.Diagnosis(), run.Diagnosis(), "the spans give the same diagnosis")
		})
	}
}

// The verdict on a part is judged over the recent parts. It is never less cautious than
// one over all parts, and nearly always the same.
func TestVerdictsOnRecentParts(t *testing.T) {
	level := func(d *classify.Diagnosis) semconv.RetrySafety { return d.Retry.Safety }
	var judged, same int
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		var opts []otelllm.RunOption
		records := rnd.IntN(4) > 0 // tools
		if records {
			opts = append(opts, otelllm.WithToolsRecorded())
		}
		ctx, run := otelllm.StartRun(t.Context(), "coder", opts...)
		var history []string
		effects := []otelllm.Effect{otelllm.EffectReadOnly, otelllm.EffectReadOnly, otelllm.EffectReadOnly, otelllm.EffectIdempotent, otelllm.EffectIdempotent, semconv.ToolEffectUnknown, otelllm.EffectNonIdempotent}
		effects = effects[:1+rnd.IntN(len(effects))]
		for step := range agentrun.MaxParts - 1 { // all are kept, to be compared with
			shown := history[max(0, len(history)-1-rnd.IntN(100)):]
			if rnd.IntN(40) == 0 {
				shown = nil // the history was summarised
			}
			q := request(ctx, shown[max(0, len(shown)-classify.MaxIDs):]...)
			switch rnd.IntN(10) {
			case 0:
				q.End(connReset)
			case 1:
				q.RecordToolInputStarted(fmt.Sprint("open_", step), "f")
				q.End(connReset)
			case 2:
				q.RecordResponseStarted(200)
				q.RecordProviderError(0, "overloaded_error", 0)
				q.End(nil)
			default:
				id := fmt.Sprint("call_", step)
				q.RecordToolCall(id, "f")
				q.RecordFinish("tool_calls")
				q.End(nil)
				if records && rnd.IntN(30) > 0 {
					var err error
					if rnd.IntN(10) == 0 {
						err = otelllm.FailedBeforeEffect(io.EOF)
					}
					execute(ctx, id, effects[rnd.IntN(len(effects))], err)
				}
				if rnd.IntN(20) > 0 {
					history = append(history, id)
				}
			}
			last := agentrun.Of(ctx).Kept().Requests - 1
			kept, _ := agentrun.Of(ctx).Facts()
			if f := &kept.Requests[last]; f.Failed == classify.No {
				require.Zero(t, agentrun.Of(ctx).JudgeRequest(f))
				continue
			}
			seen, _ := agentrun.Of(ctx).Facts()
			exact := classify.Judge(&seen).Requests[last]
			got := agentrun.Of(ctx).JudgeRequest(&seen.Requests[last])
			judged++
			if assert.ObjectsAreEqual(exact, got) {
				same++
			}
			if !assert.GreaterOrEqual(t, level(&got), level(&exact), "seed %d, step %d: %v instead of %v", seed, step, got.Retry, exact.Retry) {
				return
			}
			require.Equal(t, exact.Class, got.Class)
		}
		run.End(nil)
	}
	t.Logf("%d of %d are the same", same, judged)
	assert.Greater(t, same*100, judged*98)
}

// The verdict on a run of which parts were forgotten is never less cautious than one over
// all of its parts: what the forgotten ones show of tools that are not recorded counts, and
// so do the verdicts on them.
func TestVerdictOnRunWithForgottenParts(t *testing.T) {
	compared, forgotten := 0, 0
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test that can be repeated
		ctx, run := otelllm.StartRun(t.Context(), "coder")
		records := rnd.IntN(2) == 0 // tools, nearly all of them
		rare := 2 * agentrun.MaxParts
		var all classify.Run
		var tools []*agentrun.Tool
		var history []string
		for step := range 3 * agentrun.MaxParts {
			shown := slices.Clone(history[max(0, len(history)-1-rnd.IntN(4)):])
			if rnd.IntN(rare) == 0 {
				shown = append(shown, fmt.Sprint("earlier_", step))
			}
			info := manual.RequestInfo{Model: "m", Stream: true, ProviderTools: []string{}, HistoryCalls: append([]string{}, shown...), HistoryOutputs: append([]string{}, shown...)}
			if rnd.IntN(rare) == 0 {
				info.HistoryOutputs = info.HistoryOutputs[:len(info.HistoryOutputs)/2]
			}
			if rnd.IntN(rare) == 0 {
				info.HistoryCalls, info.HistoryOutputs = nil, nil
			}
			_, q := manual.Start(ctx, info)
			q.RecordSent()
			q.RecordResponseStarted(200)
			switch kind := rnd.IntN(rare); {
			case kind == 0:
				q.RecordProviderError(401, "invalid_api_key", 0)
				q.End(nil)
			case kind == 1:
				q.End(&otelllm.AbortError{Source: otelllm.AbortApplication})
			case kind == 2 || records && kind < rare/2:
				id := fmt.Sprint("call_", step)
				q.RecordToolCall(id, "f")
				q.RecordFinish("tool_calls")
				q.End(nil)
				if records && kind > 2 {
					_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: id, Effect: otelllm.EffectReadOnly})
					tool.End(nil)
					tools = append(tools, agentrun.Of(ctx).ToolOf(id))
				}
				history = append(history, id)
			default:
				q.End(connReset)
			}
			seen, _ := agentrun.Of(ctx).Facts()
			all.Requests = append(all.Requests, seen.Requests[len(seen.Requests)-1])
			if step%7 > 0 || !classify.Failed(&all.Requests[step]) {
				continue
			}
			full := seen
			full.Inner, full.Requests, full.Tools = classify.Effects{}, all.Requests, nil
			for _, tool := range tools {
				full.Tools = append(full.Tools, tool.Facts())
			}
			if full.AnnouncedTools.Observed() {
				full.AnnouncedTools = classify.Counted(len(full.Tools))
			}
			exact, got := classify.Judge(&full).Run, run.Diagnosis()
			compared++
			if len(seen.Requests) < len(all.Requests) {
				forgotten++
			}
			if !assert.GreaterOrEqual(t, got.Retry.Safety, exact.Retry.Safety, "seed %d, step %d: %v instead of %v", seed, step, got.Retry, exact.Retry) {
				return
			}
		}
		run.End(nil)
	}
	assert.Greater(t, forgotten*3, compared)
	t.Logf("%d verdicts, %d of them on runs of which parts were forgotten", compared, forgotten)
}

// A call of a request that was forgotten turns out to have run without a record when a
// later request carries its output, or may carry it: not every tool of the run is recorded.
func TestForgottenCallThatRanUnrecorded(t *testing.T) {
	for name, history := range map[string][]string{"carried": {"call_1"}, "not observed": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, run := otelllm.StartRun(t.Context(), "coder")
			execute(ctx, "call_0", otelllm.EffectReadOnly, nil)
			cut := func(history []string) {
				_, q := manual.Start(ctx, manual.RequestInfo{Model: "m", Stream: true, ProviderTools: []string{}, HistoryCalls: history, HistoryOutputs: history})
				q.RecordSent()
				q.RecordResponseStarted(200)
				q.End(connReset)
			}
			q := request(ctx, "call_0")
			q.RecordToolCall("call_1", "pay")
			q.End(connReset)
			for range agentrun.MaxParts {
				cut([]string{"call_0"})
			}
			require.Less(t, agentrun.Of(ctx).Kept().Requests, agentrun.MaxParts)
			assert.Equal(t, classify.SafeAutoRetry, run.Diagnosis().Retry.Safety, "the call was not executed")
			cut(history)
			for range 2 {
				d := run.Diagnosis()
				assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety)
				assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
				run.End(connReset)
			}
		})
	}
}

// The verdict on a tool is the same as one over all parts.
func TestVerdictsOnRecentTools(t *testing.T) {
	ctx, run := otelllm.StartRun(t.Context(), "coder", otelllm.WithVerdicts())
	for i := range 3 * agentrun.RecentParts {
		id := fmt.Sprint("call_", i)
		q := request(ctx)
		if i%3 == 0 {
			q.RecordToolInputStarted(id, "f")
			q.End(connReset)
		} else {
			q.RecordToolCall(id, "f")
			q.RecordFinish("tool_calls")
			q.End(nil)
		}
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: id, Name: "f"})
		tool.End([]error{nil, io.EOF, otelllm.ErrToolRejected}[i/3%3])
		seen, _ := agentrun.Of(ctx).Facts()
		f := agentrun.Of(ctx).ToolOf(id).Facts()
		exact := classify.Judge(&seen).Tools[len(seen.Tools)-1]
		assert.Equal(t, exact, agentrun.Of(ctx).JudgeTool(&f), i)
		assert.Equal(t, i%3 == 0 || i/3%3 > 0, exact.Failed(), i)
	}
	run.End(nil)
}

// TestRunsWithinAtOnce judges a run while its parts begin and end.
func TestRunsWithinAtOnce(t *testing.T) {
	ctx, outer := otelllm.StartRun(t.Context(), "outer", otelllm.WithVerdicts())
	done := make(chan struct{})
	const n = 8
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for j := range 20 {
				inner, run := otelllm.StartRun(ctx, "inner")
				q := request(inner)
				q.RecordText()
				execute(inner, fmt.Sprint("call_", i, "_", j), otelllm.EffectReadOnly, nil)
				q.End(connReset)
				run.End(connReset)
				_ = outer.Diagnosis()
			}
		}()
	}
	for range n {
		<-done
	}
	seen, settled := agentrun.Of(ctx).Facts()
	assert.True(t, settled)
	assert.Zero(t, agentrun.Of(ctx).Kept().Runs)
	assert.Equal(t, 20*n, seen.Inner.Requests)
	assert.Equal(t, 20*n, seen.Inner.Tools)
	outer.End(nil)
	assert.NotEqual(t, semconv.RunOutcomeIncomplete, outer.Diagnosis().Outcome)
}

// BenchmarkRunVerdicts measures a step of a run, a request and a tool. Every tenth request
// fails, and the run is asked for its diagnosis then.
func BenchmarkRunVerdicts(b *testing.B) {
	for _, steps := range []int{10, 100, 1000, 10000} {
		b.Run(strconv.Itoa(steps), func(b *testing.B) {
			r := spantest.New(b)
			r.UnregisterSpanProcessor(r.Spans)
			began := time.Now()
			n := 0
			for b.Loop() {
				ctx, run := otelllm.StartRun(b.Context(), "coder", otelllm.WithTracerProvider(r), otelllm.WithVerdicts())
				for step := range steps {
					id := fmt.Sprint("call_", step)
					q := request(ctx)
					if step%10 == 9 {
						q.End(connReset)
						_ = run.Diagnosis()
						continue
					}
					q.RecordToolCall(id, "f")
					q.RecordFinish("tool_calls")
					q.End(nil)
					execute(ctx, id, otelllm.EffectReadOnly, nil)
				}
				run.End(nil)
				n += steps
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/step")
		})
	}
}

// A recorded tool of an inner run does not mean that the tools of the outer run are
// recorded.
func TestInnerToolsDeclareNothing(t *testing.T) {
	r := spantest.New(t)
	ctx, outer := otelllm.StartRun(t.Context(), "outer", otelllm.WithTracerProvider(r))
	q := request(ctx)
	q.RecordToolCall("pay_1", "pay")
	q.RecordFinish("tool_calls")
	q.End(nil)
	inner, sub := otelllm.StartRun(ctx, "inner")
	execute(inner, "look_1", otelllm.EffectReadOnly, nil)
	sub.End(nil)
	request(ctx).End(connReset)
	assert.Equal(t, semconv.RetryReasonToolStateUnknown, outer.Diagnosis().Retry.Reason)
	outer.End(connReset)
	assert.Nil(t, spantest.Get(r.Named("invoke_agent outer")[0], "llm.run.tools"))
	assert.Equal(t, int64(1), spantest.Get(r.Named("invoke_agent inner")[0], "llm.run.tools"))
}

// BenchmarkRunEnd ends a run whose tools all failed and wait for the delivery of their outputs.
// The time for each tool is that of a run with few of them.
func BenchmarkRunEnd(b *testing.B) {
	for _, steps := range []int{100, 1500, 6000} {
		b.Run(strconv.Itoa(steps), func(b *testing.B) {
			provider := spantest.New(b)
			provider.UnregisterSpanProcessor(provider.Spans)
			var ending time.Duration
			for range b.N {
				ctx, run := otelllm.StartRun(b.Context(), "coder", otelllm.WithVerdicts(), otelllm.WithTracerProvider(provider))
				for i := range steps {
					id := "call_" + strconv.Itoa(i)
					q := request(ctx)
					q.RecordToolCall(id, "f")
					q.End(nil)
					execute(ctx, id, otelllm.EffectReadOnly, connReset)
				}
				begin := time.Now()
				run.End(connReset)
				ending += time.Since(begin)
			}
			b.ReportMetric(float64(ending.Nanoseconds())/float64(b.N*steps), "ns/step")
			b.ReportMetric(float64(ending.Milliseconds())/float64(b.N), "ms/end")
		})
	}
}
