package llmagentlogs

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// described are spans in words, with all that they have, in no order.
func described(tds []ptrace.Traces) (all []string) {
	marshaler := ptrace.JSONMarshaler{}
	for _, span := range spansOf(tds...) {
		one := ptrace.NewTraces()
		span.CopyTo(one.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
		text, err := marshaler.MarshalTraces(one)
		if err != nil {
			panic(err)
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	return all
}

// shuffled are the records of logs in another order, in other calls, some of them twice.
func shuffled(tb testing.TB, r *rand.Rand, logs ...plog.Logs) (calls []plog.Logs) {
	tb.Helper()
	var records []plog.Logs
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					one := plog.NewLogs()
					to := one.ResourceLogs().AppendEmpty()
					rl.Resource().CopyTo(to.Resource())
					scope := to.ScopeLogs().AppendEmpty()
					sl.Scope().CopyTo(scope.Scope())
					lr.CopyTo(scope.LogRecords().AppendEmpty())
					records = append(records, one)
				}
			}
		}
	}
	require.NotEmpty(tb, records)
	again := records[r.IntN(len(records))]
	records = append(records, again)
	r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for len(records) > 0 {
		n := 1 + r.IntN(min(len(records), 7))
		call := plog.NewLogs()
		for _, one := range records[:n] {
			copied := plog.NewLogs()
			one.CopyTo(copied)
			copied.ResourceLogs().MoveAndAppendTo(call.ResourceLogs())
		}
		calls, records = append(calls, call), records[n:]
	}
	return calls
}

// atOnce is what is made of calls that come within the time for which records wait.
func atOnce(tb testing.TB, calls []plog.Logs) []ptrace.Traces {
	tb.Helper()
	cfg := defaultConfig()
	h := newHarness(tb, cfg, nil)
	for _, ld := range calls {
		h.consume(tb, ld)
		h.pass(tb, cfg.Settle/time.Duration(2*len(calls)))
	}
	assert.Zero(tb, h.sink.SpanCount(), "the records wait")
	h.pass(tb, cfg.Quiet)
	h.pass(tb, cfg.MaxAge)
	return h.sink.AllTraces()
}

func checkOrder(t *testing.T, logs ...plog.Logs) {
	t.Helper()
	want := described(atOnce(t, logs))
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		if !assert.Equal(t, want, described(atOnce(t, shuffled(t, r, logs...))), "seed %d", seed) {
			return
		}
	}
}

// Neither the order of records nor the calls that bring them change a span, nor does a
// record that comes twice.
func TestOrderOfRecordings(t *testing.T) {
	recordings(t, func(t *testing.T, _, _, path string) { checkOrder(t, recordedLogs(t, path)...) })
}

func TestOrder(t *testing.T) {
	parts := [][]entry{
		answer(), calls(),
		{ranTool("call_1", true)},
		{ranTool("call_2", false)},
		{status(429)},
		{status(503)},
		{prompt},
		{headers, sse("output_text.delta"), broken(closedEarly)},
		{headers},
		{decided("denied")},
	}
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			entries := []entry{unattended, prompt}
			for range 1 + r.IntN(12) {
				entries = append(entries, parts[r.IntN(len(parts))]...)
			}
			checkOrder(t, codexLogs(t, "c1", at(0, entries...)...), codexLogs(t, "c2", at(time.Second, entries...)...))
		})
	}
}

// Records that come again after their turn is over give the same spans, which count once.
func TestDeliveredAgain(t *testing.T) {
	logs := codexLogs(t, "c1", at(0, slices.Concat([]entry{unattended, prompt}, calls(), []entry{ranTool("call_1", true)}, answer())...)...)
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	for range 3 {
		h.consume(t, logs)
		h.pass(t, cfg.Quiet)
	}
	once := len(h.spans())
	assert.Equal(t, []string{"chat", "tool", "chat", "run"}, partsOf(h.spans()), "they are known")
	h.pass(t, cfg.MaxAge) // now they are forgotten
	h.consume(t, logs)
	h.pass(t, cfg.Quiet)
	spans := h.spans()
	require.Len(t, spans, 2*once)
	for i := range once {
		assert.Equal(t, spans[i].SpanID(), spans[once+i].SpanID())
		assert.Equal(t, spans[i].TraceID(), spans[once+i].TraceID())
		assert.Equal(t, spans[i].ParentSpanID(), spans[once+i].ParentSpanID())
	}
	runs := 0
	for _, span := range judge(t, h.sink.AllTraces()...) {
		if value(span, "llm.run.outcome") != "" {
			runs++
		}
	}
	assert.Equal(t, 1, runs)
}
