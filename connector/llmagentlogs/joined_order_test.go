package llmagentlogs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	orderings = flag.Int("orders", 6, "how many orders TestOrderWithSpans plays of each recording")
	orderSeed = flag.Uint64("order-seed", 0, "the first seed of TestOrderWithSpans")
)

// recordedTurns calls test with the turns of which both logs and spans were recorded.
func recordedTurns(t *testing.T, test func(t *testing.T, agent string, logs []plog.Logs, own []ptrace.Traces)) {
	t.Helper()
	for fault := range claudeTruths {
		t.Run("claude-code/"+fault, func(t *testing.T) {
			logs, own := claudeRecording(t, fault)
			test(t, "claude-code", logs, own)
		})
	}
	t.Run("others", func(t *testing.T) {
		recordings(t, func(t *testing.T, agent, _, path string) {
			traces, err := filepath.Glob(strings.Replace(path, ".logs.", ".traces.", 1))
			require.NoError(t, err)
			if len(traces) > 0 {
				test(t, agent, recordedLogs(t, path), recordedTraces(t, traces[0]))
			}
		})
	})
}

// pieces are the spans of calls in another order, in other calls, some of them twice.
func pieces(r *rand.Rand, tds []ptrace.Traces) (calls []ptrace.Traces) {
	type one struct {
		rs   ptrace.ResourceSpans
		ss   ptrace.ScopeSpans
		span ptrace.Span
	}
	var all []one
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					all = append(all, one{rs, ss, span})
				}
			}
		}
	}
	for range min(len(all), 2) {
		all = append(all, all[r.IntN(len(all))])
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for len(all) > 0 {
		n := 1 + r.IntN(1+len(all)/3)
		call := ptrace.NewTraces()
		for _, s := range all[:n] {
			rs := call.ResourceSpans().AppendEmpty()
			s.rs.Resource().CopyTo(rs.Resource())
			ss := rs.ScopeSpans().AppendEmpty()
			s.ss.Scope().CopyTo(ss.Scope())
			s.span.CopyTo(ss.Spans().AppendEmpty())
		}
		calls, all = append(calls, call), all[n:]
	}
	return calls
}

// turnVerdict is the set of verdicts on the runs of one trace: of each the outcome, the
// failure and the retry. A run whose span was delivered twice has its verdict on both.
type turnVerdict map[string]bool

func turnVerdicts(spans []ptrace.Span) map[pcommon.TraceID]turnVerdict {
	all := make(map[pcommon.TraceID]turnVerdict)
	for _, span := range spans {
		if all[span.TraceID()] == nil {
			all[span.TraceID()] = turnVerdict{}
		}
		if outcome := value(span, semconv.RunOutcomeKey); outcome != "" {
			all[span.TraceID()][fmt.Sprint(outcome, " ", value(span, semconv.FailureClassKey), " ", value(span, semconv.FailureCauseKey), " ", value(span, semconv.RetrySafetyKey))] = true
		}
	}
	return all
}

func (v turnVerdict) well() bool {
	for said := range v {
		if strings.HasPrefix(said, "succeeded") || strings.HasPrefix(said, "recovered") {
			return true
		}
	}
	return false
}

// The logs of a turn, through the connector, and the agent's own spans, shuffled, in other
// calls, some twice: where all come before the turn is judged the verdicts are the same.
// Where some come after it, and where records come too late for the connector, no retry is
// called safe, and no turn is said to have gone well that is not; but Gemini CLI says that a
// turn is over, and what comes of it minutes later is not waited for.
func TestOrderWithSpans(t *testing.T) {
	recordedTurns(t, func(t *testing.T, agent string, logs []plog.Logs, own []ptrace.Traces) {
		made := atOnce(t, logs)
		want := turnVerdicts(judge(t, slices.Concat(own, made)...))
		for n := range uint64(*orderings) { //nolint:gosec // it is small
			seed := *orderSeed + n
			r := rand.New(rand.NewPCG(seed, 7))
			made := atOnce(t, shuffled(t, r, logs...))
			// Spans between LLM spans are kept from the first LLM span of their trace on.
			together := slices.Concat(made[:min(len(made), 1)], pieces(r, slices.Concat(own, made)))
			if !assert.Equal(t, want, turnVerdicts(judge(t, together...)), "together, seed %d", seed) {
				return
			}

			late := pieces(r, slices.Concat(own, madeLate(t, r, logs)))
			for trace, said := range turnVerdicts(judgeApart(t, r, late)) {
				for words := range said {
					assert.NotContains(t, words, semconv.RetrySafetySafeAutoRetry.String(), "late, seed %d", seed)
				}
				if w := want[trace]; len(w) > 0 && !w.well() && !strings.HasPrefix(agent, "gemini") {
					assert.False(t, said.well(), "late, seed %d: %v, not %v", seed, said, w)
				}
			}
		}
	})
}

// madeLate is what the connector makes of records that come up to minutes after they were
// made, in another order.
func madeLate(tb testing.TB, r *rand.Rand, logs []plog.Logs) []ptrace.Traces {
	tb.Helper()
	cfg := defaultConfig()
	h := newHarness(tb, cfg, nil)
	for _, ld := range shuffled(tb, r, logs...) {
		h.consume(tb, ld)
		h.pass(tb, time.Duration(r.Int64N(int64(cfg.Quiet))))
	}
	h.pass(tb, cfg.Quiet)
	h.pass(tb, cfg.MaxAge)
	return h.sink.AllTraces()
}

// judgeApart has spans judged that come in two parts: the second one when all spans of the
// first one have gone out.
func judgeApart(tb testing.TB, r *rand.Rand, calls []ptrace.Traces) []ptrace.Span {
	tb.Helper()
	p, sink := newProcessor(tb, func(cfg *llmclassify.Config) {
		cfg.Settle, cfg.MaxHold, cfg.RunTimeout = 2*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
	})
	first, total := r.IntN(len(calls)+1), 0
	for i, td := range calls {
		if i == first {
			require.Eventually(tb, func() bool { return sink.SpanCount() >= total }, 20*time.Second, time.Millisecond, "all went out")
		}
		total += td.SpanCount()
		require.NoError(tb, p.ConsumeTraces(tb.Context(), td))
	}
	require.NoError(tb, p.Shutdown(tb.Context()))
	return spansOf(sink.AllTraces()...)
}
