// Package property has tests of the properties that hold for all traces: in any order of arrival, over kills, restarts
// and damaged storage, with a next consumer that refuses calls, and under a race of many senders.
package property

import (
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// The verdicts on a trace do not depend on the order in which its spans arrive, on the
// calls that bring them, on what else is in those, and on the number of shards.

var (
	orderings = flag.Int("orders", 0, "how many orders TestOrder and its like play of each trace; 0 for 2, and 1 of a sample")
	orderSeed = flag.Uint64("order-seed", 0, "the first seed of TestOrder")
)

// placed is a span with where it came from.
type placed struct {
	resource ptrace.ResourceSpans
	scope    ptrace.ScopeSpans
	ptrace.Span
}

// recordedTrace is the spans of one trace.
type recordedTrace struct {
	name  string
	spans []placed
	// uncounted: a run announces no numbers, so that it waits for its parts for settle and no
	// longer
	uncounted bool
	made      bool // at random: of several services, the spans of which may be taken for one another's by their time
}

// arrivals is how the spans of a recordedTrace arrive.
type arrivals struct {
	cfg    *llmclassify.Config
	limits trace.Limits
	calls  []arriving
	// After play:
	whole     map[harness.SpanKey]semconv.RetrySafety // how safe it is to do again what each run did
	forgotten bool                                    // there was no room for the facts of some spans that went early
}

// arriving is one call, and the time that passes before it.
type arriving struct {
	after time.Duration
	end   processEnd    // of the process before that
	down  time.Duration // until the next one begins
	spans []placed
	// refusals is how often the next consumer refuses the other spans of the call, so that its sender
	// repeats it.
	refusals int
	// refused: there is no memory for the call, and its sender sends it again after others.
	refused bool
}

// processEnd is how a process ends, if it does.
type processEnd int

const (
	goesOn processEnd = iota
	killed
	stopped
)

func (e processEnd) String() string { return [...]string{"goes on", "killed", "stopped"}[e] }

func (c *arriving) traces() ptrace.Traces {
	td := ptrace.NewTraces()
	var last *placed
	var to ptrace.SpanSlice
	for i := range c.spans {
		p := &c.spans[i]
		if last == nil || last.scope != p.scope {
			rs := td.ResourceSpans().AppendEmpty()
			p.resource.Resource().CopyTo(rs.Resource())
			ss := rs.ScopeSpans().AppendEmpty()
			p.scope.Scope().CopyTo(ss.Scope())
			to = ss.Spans()
		}
		p.CopyTo(to.AppendEmpty())
		last = p
	}
	return td
}

func (a *arrivals) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "shards %d, max_spans_per_run %d, max_held_bytes %d, %+v", a.cfg.Shards, a.cfg.MaxSpansPerRun, a.cfg.MaxHeldBytes, a.limits)
	for _, c := range a.calls {
		if c.end != goesOn {
			fmt.Fprintf(&out, "\n  %v for %v", c.end, c.down)
		}
		fmt.Fprintf(&out, "\n  after %v, %d refusals, refused %v:", c.after, c.refusals, c.refused)
		for _, p := range c.spans {
			fmt.Fprintf(&out, " %v", p)
		}
	}
	return out.String()
}

func (p placed) String() string {
	id := p.SpanID()
	return fmt.Sprintf("%x(%s)", id[5:], p.Name())
}

func (p placed) key() harness.SpanKey { return harness.SpanKey{Trace: p.TraceID(), ID: p.SpanID()} }

func (p placed) isLLM() bool { return p.head().Kind != dialect.Other }

func (p placed) head() dialect.Head {
	head, _ := dialect.Default().In(p.scope.Scope().Name()).Recognise(p.Span)
	return head
}

// play lets the spans arrive, and the time pass until nothing is held. It returns what is
// said of them, and the traces on which the order may have an influence: spans that are not
// held came when they could not be taken into account, see [arrivals.tooSoonOrLate].
func (a *arrivals) play(t *testing.T) (harness.Outcome, map[pcommon.TraceID]bool) {
	t.Helper()
	var d *harness.Disk
	if slices.ContainsFunc(a.calls, func(c arriving) bool { return c.end != goesOn }) {
		d = harness.NewDisk()
	}
	a.refuse()
	next := new(harness.FlakyNext)
	h := a.start(t, d, next, nil, 0)
	a.whole = map[harness.SpanKey]semconv.RetrySafety{}
	excused := map[pcommon.TraceID]bool{}
	for i := range a.calls {
		if a.calls[i].end == stopped {
			require.NoError(t, h.Shutdown(t.Context()))
		}
		if a.calls[i].end != goesOn {
			h = a.start(t, d, next, h, a.calls[i].down)
			for _, p := range a.calls[i].spans { // what was above them, or explained them, is not known any more
				excused[p.TraceID()] = true
			}
		}
		h.PassStepwise(t, a.calls[i].after)
		a.tooSoonOrLate(i, harness.OutcomeOf(h.Out()), excused)
		a.calls[i].send(t, h, next)
	}
	h.PassStepwise(t, 2*a.cfg.MaxHold)
	for key, did := range h.Effects() {
		a.whole[key] = trace.Repeat(did).Safety
	}
	h.PassStepwise(t, 2*a.cfg.RunTimeout)
	_, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_facts_forgotten")
	a.forgotten = err == nil // the counter appears with the first
	return harness.OutcomeOf(h.Out()), excused
}

// refuse lets the next consumer refuse some of several calls, always the same ones.
func (a *arrivals) refuse() {
	if len(a.calls) == 1 {
		return
	}
	g := rand.New(rand.NewPCG(uint64(len(a.calls)), uint64(a.calls[0].after))) //nolint:gosec // not negative
	for i := range a.calls {
		if g.IntN(4) == 0 {
			a.calls[i].refusals = 1 + g.IntN(2)
		}
	}
}

// start starts a process, so long after another one if there was one.
func (a *arrivals) start(t *testing.T, d *harness.Disk, next *harness.FlakyNext, before *harness.Harness, down time.Duration) *harness.Harness {
	t.Helper()
	h := harness.New(t, a.cfg, next)
	h.Sink, h.Limits = &next.TracesSink, a.limits
	if before != nil {
		h.Clock.Advance(before.Clock.Now().Add(down).Sub(harness.T0))
	}
	if d != nil {
		if before == nil { // spans come after they ended, by the clocks of their producers
			h.Clock.Advance(max(a.latest().Sub(harness.T0), 0))
		}
		h.OpenOn(t, d)
	}
	return h
}

// latest is when the last span ended.
func (a *arrivals) latest() time.Time {
	var end pcommon.Timestamp
	for i := range a.calls {
		for _, p := range a.calls[i].spans {
			end = max(end, p.EndTimestamp())
		}
	}
	return end.AsTime()
}

// send sends a call until it is taken.
func (c *arriving) send(t *testing.T, h *harness.Harness, next *harness.FlakyNext) {
	t.Helper()
	next.Fail = harness.Down
	if c.refused {
		require.Error(t, h.WithoutMemory(t, c.traces()))
		next.Fail = nil
		return
	}
	for range c.refusals {
		err := h.ConsumeTraces(t.Context(), c.traces())
		if err == nil { // everything is held
			next.Fail = nil
			return
		}
		if !errors.Is(err, tenant.ErrFull) {
			require.ErrorIs(t, err, harness.ErrDown)
		}
	}
	next.Fail = nil
	err := h.ConsumeTraces(t.Context(), c.traces())
	for errors.Is(err, tenant.ErrFull) { // until what waits is sent again
		h.Pass(t, forward.FirstRetry)
		err = h.ConsumeTraces(t.Context(), c.traces())
	}
	require.NoError(t, err)
}

// interrupted is the same with some ends of the process.
func (a *arrivals) interrupted(g *rand.Rand) *arrivals {
	a.calls[g.IntN(len(a.calls))].end = killed
	for i := range a.calls {
		if g.IntN(4) == 0 {
			a.calls[i].end = stopped
		}
		a.calls[i].down = []time.Duration{0, time.Second, 10 * time.Second, time.Minute}[g.IntN(4)]
	}
	return a
}

// tooSoonOrLate finds the traces of which a call brings a span that is not held, but counts
// for one that is, at the wrong time: a span above an LLM span while nothing else of its
// trace is here (only traces with LLM spans cost the memory of what is above these), and
// one of those or an exchange when the LLM span has gone, because its run was complete.
func (a *arrivals) tooSoonOrLate(call int, gone harness.Outcome, excused map[pcommon.TraceID]bool) {
	if a.calls[call].refused {
		return
	}
	parents := map[harness.SpanKey]pcommon.SpanID{}
	known := map[pcommon.TraceID]bool{}
	for i := range a.calls {
		for _, p := range a.calls[i].spans {
			parents[p.key()] = p.ParentSpanID()
			known[p.TraceID()] = known[p.TraceID()] || i <= call && p.isLLM() && !a.calls[i].refused
		}
	}
	beneath := map[harness.SpanKey][]harness.SpanKey{} // LLM spans, by what is above them
	for i := range a.calls {
		for _, p := range a.calls[i].spans {
			for at, depth := p.key(), 0; p.isLLM() && !parents[at].IsEmpty() && depth < len(parents); depth++ {
				at = harness.SpanKey{Trace: at.Trace, ID: parents[at]}
				beneath[at] = append(beneath[at], p.key())
			}
		}
	}
	isGone := func(key harness.SpanKey) bool { return len(gone[key]) > 0 }
	for _, p := range a.calls[call].spans {
		switch above := beneath[p.key()]; {
		case p.isLLM():
		case p.head().Exchange && isGone(harness.SpanKey{Trace: p.TraceID(), ID: p.ParentSpanID()}),
			len(above) > 0 && !known[p.TraceID()],
			slices.ContainsFunc(above, isGone):
			excused[p.TraceID()] = true
		}
	}
}

// inTime is what is wanted, without the verdicts on runs that announce no numbers and of which
// a part arrives when they do not wait for it any more: no call has brought it before.
func (a *arrivals) inTime(want harness.Outcome) harness.Outcome {
	arrived := map[harness.SpanKey]time.Duration{}
	at := time.Duration(0)
	for i := range a.calls {
		c := &a.calls[i]
		at += c.after
		if c.end != goesOn {
			at += c.down
		}
		for _, p := range c.spans {
			if _, before := arrived[p.key()]; !before && p.isLLM() {
				arrived[p.key()] = at
			}
		}
	}
	last := map[pcommon.TraceID]time.Duration{}
	for key, at := range arrived {
		last[key.Trace] = max(last[key.Trace], at)
	}
	want = maps.Clone(want)
	for i := range a.calls {
		for _, p := range a.calls[i].spans {
			head := p.head()
			announces := head.Requests.Observed() && head.Tools.Observed()
			if head.Kind == dialect.Run && !announces && last[p.TraceID()] > arrived[p.key()]+a.cfg.Settle {
				delete(want, p.key())
			}
		}
	}
	return want
}

// recordings are all recorded traces: those of this package, those of the dialects, and
// those of published agents, beside the folder that OTELLLM_FIXTURES names.
func recordedTraces(t *testing.T) (list []recordedTrace) {
	t.Helper()
	paths, err := filepath.Glob(harness.Testdata("traces", "*", "in.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range sampled(paths) {
		td, err := golden.ReadTraces(path)
		require.NoError(t, err)
		list = append(list, recordedTracesOf(filepath.Base(filepath.Dir(path)), td)...)
	}
	paths, err = filepath.Glob(filepath.Join("..", "dialect", "testdata", "traces", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range sampled(paths) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
		require.NoError(t, err)
		list = append(list, recordedTracesOf(filepath.Base(path), td)...)
	}
	for seed := range uint64(12 / sample.Every(6)) {
		list = append(list, recordedTracesOf(fmt.Sprint("tree_", seed), harness.TracesOf(t, makeTree(seed).spans...))...)
		list[len(list)-1].made = true
	}
	for seed := range uint64(12 / sample.Every(6)) {
		list = append(list, recordedTracesOf(fmt.Sprint("uncounted_", seed), harness.TracesOf(t, uncountedTrace(seed)...))...)
		list[len(list)-1].uncounted = true
	}
	if dir := os.Getenv("OTELLLM_FIXTURES"); dir != "" {
		paths, err = filepath.Glob(filepath.Join(dir, "..", "agents", "*", "*.traces.jsonl.gz"))
		require.NoError(t, err)
		for _, path := range sampled(paths) {
			name := filepath.Base(filepath.Dir(path)) + "_" + strings.TrimSuffix(filepath.Base(path), ".traces.jsonl.gz")
			list = append(list, recordedTracesOf(name, harness.ReadLines(t, path))...)
		}
	}
	return list
}

// sampled is one path in ten where a sample is checked, and all of them otherwise.
func sampled(paths []string) (some []string) {
	for i := 0; i < len(paths); i += sample.Every(10) {
		some = append(some, paths[i])
	}
	return some
}

// uncountedTrace is a run that failed and announces no numbers, with requests and tools of
// which some make it unsafe to repeat, and with runs within it.
func uncountedTrace(seed uint64) (spans []harness.Span) {
	g := rand.New(rand.NewPCG(seed, 2))
	part := func(id, run byte, from float64, kinds int) harness.Span {
		r := harness.RequestSpan(id, run, from, from+0.5)
		switch g.IntN(kinds) {
		case 0, 1:
			return r.Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
		case 2:
			return r.Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2})
		default:
			return harness.ToolSpan(id, from, from+0.5, fmt.Sprint("call_", id), semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).
				Under(run).With(semconv.RunID(harness.SpanID(run).String()))
		}
	}
	end := 1 + float64(g.IntN(8))
	spans = append(spans, harness.UncountedRun(0, end)[0], part(2, 1, end-0.9, 2))
	for id := byte(3); id < 3+byte(g.IntN(4)); id++ {
		spans = append(spans, part(id, 1, float64(id-3), 4))
	}
	for id := byte(10); id < 10+10*byte(g.IntN(2)); id += 10 {
		spans = append(spans, harness.Unannounced(harness.RunSpan(id, 0.1, 0.9, 1, 0)).Failed("429").Under(1).In("inner"), part(id+1, id, 0.2, 4).In("inner"))
	}
	return spans
}

// recordedTracesOf are the traces with LLM spans.
func recordedTracesOf(name string, td ptrace.Traces) (list []recordedTrace) {
	byTrace := map[pcommon.TraceID]int{}
	var llm []bool
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			in := dialect.Default().In(ss.Scope().Name())
			for _, span := range ss.Spans().All() {
				i, ok := byTrace[span.TraceID()]
				if !ok {
					i = len(list)
					byTrace[span.TraceID()] = i
					list, llm = append(list, recordedTrace{}), append(llm, false)
				}
				list[i].spans = append(list[i].spans, placed{rs, ss, span})
				head, _ := in.Recognise(span)
				llm[i] = llm[i] || head.Kind != dialect.Other
			}
		}
	}
	with := list[:0]
	for i := range list {
		if llm[i] {
			list[i].name = name
			if len(list) > 1 {
				list[i].name = fmt.Sprintf("%s_%d", name, i)
			}
			list[i].beginAt(harness.T0)
			with = append(with, list[i])
		}
	}
	return with
}

// beginAt moves the times of a recorded trace, by whole seconds, so that it begins at about this time:
// what is played beside it is of that time as well.
func (r *recordedTrace) beginAt(at time.Time) {
	var begin pcommon.Timestamp
	for _, p := range r.spans {
		if start := p.StartTimestamp(); begin == 0 || start > 0 && start < begin {
			begin = start
		}
	}
	by := at.Sub(begin.AsTime()).Truncate(time.Second)
	moved := func(time pcommon.Timestamp) pcommon.Timestamp {
		if time == 0 {
			return 0
		}
		return pcommon.NewTimestampFromTime(time.AsTime().Add(by))
	}
	for _, p := range r.spans {
		p.SetStartTimestamp(moved(p.StartTimestamp()))
		p.SetEndTimestamp(moved(p.EndTimestamp()))
		for _, event := range p.Events().All() {
			event.SetTimestamp(moved(event.Timestamp()))
		}
	}
}

// clone is the same trace, which can be changed.
func (r *recordedTrace) clone() *recordedTrace {
	c := &recordedTrace{name: r.name, made: r.made, uncounted: r.uncounted}
	for _, p := range r.spans {
		c.spans = append(c.spans, p.copy())
	}
	return c
}

func (p placed) copy() placed {
	span := ptrace.NewSpan()
	p.CopyTo(span)
	p.Span = span
	return p
}

// of is the same trace under another id.
func (r *recordedTrace) of(id pcommon.TraceID) *recordedTrace {
	c := r.clone()
	for _, p := range c.spans {
		p.SetTraceID(id)
	}
	return c
}

func (r *recordedTrace) llm() (list []placed) {
	for _, p := range r.spans {
		if p.isLLM() {
			list = append(list, p)
		}
	}
	return list
}

// changed is the trace with changes that other recordings could have: they are taken by
// chance, and named.
func (r *recordedTrace) changed(g *rand.Rand) *recordedTrace {
	c := r.clone()
	for _, change := range []struct {
		name string
		do   func(*recordedTrace, *rand.Rand)
	}{
		{"without some", (*recordedTrace).lose},
		{"with steps between", (*recordedTrace).addSteps},
		{"with exchanges", (*recordedTrace).addExchanges},
		{"by a clock of seconds", (*recordedTrace).coarsen},
	} {
		if g.IntN(3) == 0 {
			change.do(c, g)
			c.name += ", " + change.name
		}
	}
	return c
}

// lose loses some spans.
func (r *recordedTrace) lose(g *rand.Rand) {
	for range 1 + g.IntN(1+len(r.spans)/4) {
		if len(r.spans) > 1 {
			at := g.IntN(len(r.spans))
			r.spans = slices.Delete(r.spans, at, at+1)
		}
	}
}

// coarsen makes the clock's grain a second: many spans begin at the same time.
func (r *recordedTrace) coarsen(*rand.Rand) {
	for _, p := range r.spans {
		p.SetStartTimestamp(p.StartTimestamp() / 1e9 * 1e9)
		p.SetEndTimestamp(p.EndTimestamp() / 1e9 * 1e9)
	}
}

// addSteps puts spans that are no LLM spans above some of them.
func (r *recordedTrace) addSteps(g *rand.Rand) {
	for _, p := range r.llm() {
		if g.IntN(2) != 0 {
			continue
		}
		step := placed{p.resource, p.scope, ptrace.NewSpan()}
		step.SetTraceID(p.TraceID())
		step.SetSpanID(newSpanID(g))
		step.SetParentSpanID(p.ParentSpanID())
		step.SetName("step")
		step.SetStartTimestamp(p.StartTimestamp())
		step.SetEndTimestamp(p.EndTimestamp())
		p.SetParentSpanID(step.SpanID())
		r.spans = append(r.spans, step)
	}
}

// addExchanges puts exchanges of an HTTP client beneath some of the LLM spans.
func (r *recordedTrace) addExchanges(g *rand.Rand) {
	for _, p := range r.llm() {
		if g.IntN(2) != 0 {
			continue
		}
		for range 1 + g.IntN(3) {
			x := placed{p.resource, p.scope, ptrace.NewSpan()}
			x.SetTraceID(p.TraceID())
			x.SetSpanID(newSpanID(g))
			x.SetParentSpanID(p.SpanID())
			x.SetName("POST")
			x.SetKind(ptrace.SpanKindClient)
			from := uint64(p.StartTimestamp())
			took := max(uint64(p.EndTimestamp()), from) - from
			at := from + g.Uint64N(took+1)
			x.SetStartTimestamp(pcommon.Timestamp(at))
			x.SetEndTimestamp(pcommon.Timestamp(at + g.Uint64N(from+took-at+1)))
			x.Attributes().PutStr(string(otelsemconv.HTTPRequestMethodKey), "POST")
			x.Attributes().PutStr(string(otelsemconv.URLFullKey), "https://api.example.com/v1/chat/completions")
			status := []int64{200, 200, 429, 500, 0}[g.IntN(5)]
			if status > 0 {
				x.Attributes().PutInt(string(otelsemconv.HTTPResponseStatusCodeKey), status)
			}
			if status >= 400 {
				x.Status().SetCode(ptrace.StatusCodeError)
			}
			if code := []string{"", "", "ECONNRESET", "UND_ERR_BODY_TIMEOUT"}[g.IntN(4)]; code != "" && status < 400 {
				x.Attributes().PutStr(string(otelsemconv.ErrorTypeKey), code)
				x.Status().SetCode(ptrace.StatusCodeError)
			}
			if g.IntN(4) == 0 {
				x.Attributes().PutInt(string(otelsemconv.HTTPRequestResendCountKey), int64(g.IntN(3)))
			}
			r.spans = append(r.spans, x)
		}
	}
}

func newSpanID(g *rand.Rand) (id pcommon.SpanID) {
	binary.LittleEndian.PutUint64(id[:], g.Uint64()|1)
	return id
}

func (r *recordedTrace) together() *arrivals {
	return &arrivals{cfg: harness.DefaultConfig(), calls: []arriving{{spans: r.spans}}}
}

// shuffled is a way in which the spans arrive within settle.
func (r *recordedTrace) shuffled(g *rand.Rand) *arrivals {
	a := &arrivals{cfg: harness.DefaultConfig()}
	a.cfg.Shards = 1 + g.IntN(4)
	a.deliver(g, r.spans, harness.Settle)
	return a
}

// sentAgain is a way in which the spans arrive within settle, in calls of which some are
// refused and arrive again within max_trace. What is not held of them comes too late to count.
func (r *recordedTrace) sentAgain(g *rand.Rand) *arrivals {
	a := r.shuffled(g)
	type timed struct {
		arriving
		at time.Duration
	}
	var list []timed
	at := time.Duration(0)
	for _, c := range a.calls {
		at += c.after
		if g.IntN(2) == 0 {
			list = append(list, timed{c, at})
			continue
		}
		passed := placed{c.spans[0].resource, c.spans[0].scope, ptrace.NewSpan()}
		passed.SetTraceID(pcommon.TraceID{15: 3})
		passed.SetSpanID(newSpanID(g))
		c.spans = append(slices.Clip(c.spans), passed)
		list = append(list, timed{c, at + time.Duration(g.Int64N(int64(harness.MaxHold/2)))})
		c.refused = true
		list = append(list, timed{c, at})
	}
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	a.calls, at = nil, 0
	for _, c := range list {
		c.after, at = c.at-at, c.at
		a.calls = append(a.calls, c.arriving)
	}
	return a
}

// scattered is a way in which spans arrive late, or go early.
func (r *recordedTrace) scattered(g *rand.Rand) *arrivals {
	a := &arrivals{cfg: harness.DefaultConfig()}
	a.cfg.Shards = 1 + g.IntN(4)
	within, ways := harness.Settle, 4
	if r.uncounted {
		ways = 2
	}
	switch g.IntN(ways) {
	case 0:
		a.cfg.MaxSpansPerRun = 1 + g.IntN(4)
	case 1:
		a.cfg.MaxHeldBytes = 1000 + g.IntN(10000)
	default:
		within = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, 3 * time.Hour}[g.IntN(4)]
	}
	a.deliver(g, r.spans, within)
	return a
}

// deliver delivers spans within a time: in any order, in some calls, some of them twice.
func (a *arrivals) deliver(g *rand.Rand, list []placed, within time.Duration) {
	spans := make([]placed, 0, len(list))
	for _, i := range g.Perm(len(list)) {
		spans = append(spans, list[i])
	}
	for _, p := range list {
		if g.IntN(8) == 0 {
			spans = slices.Insert(spans, g.IntN(len(spans)+1), p)
		}
	}
	n := 1 + g.IntN(min(len(spans), 8))
	for i := range n {
		a.calls = append(a.calls, arriving{after: time.Duration(g.Int64N(int64(within) / int64(n))), spans: spans[i*len(spans)/n : (i+1)*len(spans)/n]})
	}
}

// excuse excuses a trace that was made at random: where its spans go early or come late, they
// are taken for one another's. Whether a run is safe to repeat is compared all the same.
func (r *recordedTrace) excuse(traces map[pcommon.TraceID]bool) {
	for _, p := range r.spans {
		if r.made {
			traces[p.TraceID()] = true
		}
	}
}

func seedOf(name string, seed uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// with is two traces in one.
func (r *recordedTrace) with(other *recordedTrace) *recordedTrace {
	return &recordedTrace{made: r.made || other.made, uncounted: r.uncounted || other.uncounted, name: r.name + " and " + other.name, spans: append(slices.Clip(r.spans), other.spans...)}
}

// Whatever the order in which spans arrive within settle, the verdicts are the same; and
// where spans go early or come late, none is less careful. A failure names the trace, its
// changes and the seed: -run 'TestOrder/^name$' -order-seed N -orders 1 plays it again.
func TestOrder(t *testing.T) {
	all := recordedTraces(t)
	strict, careful := 0, 0
	for i := range all {
		t.Run(all[i].name, func(t *testing.T) {
			for n := range cmp.Or(*orderings, 2/sample.Every(2)) {
				seed := *orderSeed + uint64(n) //nolint:gosec // not negative
				g := seedOf(all[i].name, seed)
				r := all[i].changed(g)
				together := r.together()
				want, _ := together.play(t)
				whole := together.whole
				if g.IntN(3) == 0 { // another trace in the same calls
					other := all[g.IntN(len(all))].of(pcommon.TraceID{15: 2}).changed(g)
					together := other.together()
					also, _ := together.play(t)
					maps.Copy(want, also)
					maps.Copy(whole, together.whole)
					r = r.with(other)
				}
				for range 3 {
					a := r.shuffled(g)
					got, excused := a.play(t)
					wrong, n, m := got.Expect(want, excused, whole)
					strict, careful = strict+n, careful+m
					if len(wrong) > 0 {
						t.Fatalf("%s, seed %d:\n  %s\n%v", r.name, seed, strings.Join(wrong, "\n  "), a)
					}
				}
				for _, a := range []*arrivals{r.scattered(g), r.sentAgain(g), r.shuffled(g).interrupted(g), r.scattered(g).interrupted(g)} {
					got, excused := a.play(t)
					r.excuse(excused)
					if wrong := got.Carelessness(a.inTime(want), excused, whole); len(wrong) > 0 {
						t.Errorf("%s, seed %d:\n  %s\n%v", r.name, seed, strings.Join(wrong, "\n  "), a)
					}
				}
			}
		})
	}
	t.Logf("%d traces had to be judged alike, %d no less carefully", strict, careful)
	if strict+careful > 100 {
		require.Greater(t, strict, careful)
	}
}

// tinyLimits are limits of one or a few.
func tinyLimits(g *rand.Rand) trace.Limits {
	few := func() int { return 1 + g.IntN(3) }
	return trace.Limits{Sweep: few(), Within: few(), FreeWork: few(), Early: few(), Kept: few()}
}

// TestOrderInParts is TestOrder where the work for each trace is done in small parts, and
// few facts of a run are kept. What is forgotten may be what stopped a run: success is then
// not compared, and whether it is safe to repeat is.
func TestOrderInParts(t *testing.T) {
	all := recordedTraces(t)
	for i := range all {
		t.Run(all[i].name, func(t *testing.T) {
			for n := range cmp.Or(*orderings, 2/sample.Every(2)) {
				seed := *orderSeed + uint64(n) //nolint:gosec // not negative
				g := seedOf(all[i].name, seed)
				r := all[i].changed(g)
				together := r.together()
				want, _ := together.play(t)
				for _, a := range []*arrivals{r.shuffled(g), r.scattered(g)} {
					a.limits = tinyLimits(g)
					got, excused := a.play(t)
					r.excuse(excused)
					if a.forgotten {
						for trace := range want.Traces() {
							excused[trace] = true
						}
					}
					if wrong := got.Carelessness(a.inTime(want), excused, together.whole); len(wrong) > 0 {
						t.Errorf("%s, seed %d:\n  %s\n%v", r.name, seed, strings.Join(wrong, "\n  "), a)
					}
				}
			}
		})
	}
}
