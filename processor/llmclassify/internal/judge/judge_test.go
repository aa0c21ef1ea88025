package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// node is a span of these tests; times are seconds.
type node struct {
	id, parent, run byte
	role            trace.Role
	from, to        int
	service         string
	server, yields  bool
	facts           dialect.Facts
}

func id(n byte) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return pcommon.SpanID{7: n}
}

var (
	t0      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	traceID = pcommon.TraceID{15: 1}
)

func at(seconds int) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(t0.Add(time.Duration(seconds) * time.Second))
}

// given is a dialect that reads what it was given.
type given struct {
	dialect.GenAI
	facts dialect.Facts
}

func (g given) Read(_ ptrace.Span, into dialect.Facts) {
	switch {
	case into.Request != nil && g.facts.Request != nil:
		*into.Request = *g.facts.Request
	case into.Tool != nil && g.facts.Tool != nil:
		*into.Tool = *g.facts.Tool
	case into.Run != nil && g.facts.Run != nil:
		*into.Run = *g.facts.Run
	}
}

// drain puts nodes into a buffer, with the links of other spans, and takes them
// out at once. places are what trace.Locate said, by span.
func drain(t *testing.T, links map[byte]byte, nodes ...node) (releases []trace.Release, places map[byte]trace.Place) {
	t.Helper()
	places = map[byte]trace.Place{}
	spans := packed.Loose(func() ptrace.SpanSlice {
		slice := ptrace.NewSpanSlice()
		for range nodes {
			slice.AppendEmpty()
		}
		return slice
	}())
	buffer := trace.New(t0, trace.Config{
		MaxHold: time.Hour, Settle: time.Hour, RunTimeout: time.Hour, MaxSpansPerRun: 1000, MaxFactBytes: 1 << 20,
		Read: func(it *trace.Item) int {
			kind := [...]dialect.Kind{trace.Request: dialect.Request, trace.Tool: dialect.Tool, trace.Run: dialect.Run}[it.Role]
			return it.Known.Facts(ptrace.NewSpan(), kind).Size()
		},
	})
	origins := origin.NewTable(time.Hour, 1<<20)
	var arrivals []trace.Arrival
	for i, n := range nodes {
		rs := ptrace.NewResourceSpans()
		rs.Resource().Attributes().PutStr("service.name", n.service)
		from := origins.Intern(t0, rs, rs.ScopeSpans().AppendEmpty())
		arrivals = append(arrivals, trace.Arrival{Trace: traceID, Items: []*trace.Item{{
			ID: id(n.id), Parent: id(n.parent), Run: id(n.run), Role: n.role, Yields: n.yields, Start: at(n.from), End: at(n.to),
			Known: trace.Known{Reading: dialect.Reading{Dialect: given{facts: n.facts}}, Origin: from, Body: spans(i), Server: n.server},
		}}})
	}
	var seen []trace.Link
	for span, parent := range links {
		seen = append(seen, trace.Link{Trace: traceID, ID: id(span), Parent: id(parent)})
	}
	atOnce := buffer.Add(t0, arrivals, seen)
	for _, r := range atOnce {
		for _, m := range r.Members {
			places[m.ID[7]] = trace.Place{Run: r.RunID, Known: r.Run != nil, Above: m.Above}
		}
	}
	if of := buffer.Trace(traceID); of != nil {
		for _, a := range arrivals {
			if it := a.Items[0]; !it.Gone() {
				places[it.ID[7]] = trace.Locate(of, it)
			}
		}
	}
	return append(atOnce, buffer.Drain(t0, 1000)...), places
}

func TestLocate(t *testing.T) {
	run := func(n, parent byte, from, to int) node {
		return node{id: n, parent: parent, role: trace.Run, from: from, to: to}
	}
	yields := func(n, parent byte, from, to int) node {
		return node{id: n, parent: parent, role: trace.Run, from: from, to: to, yields: true}
	}
	req := func(n, parent byte, from, to int) node {
		return node{id: n, parent: parent, role: trace.Request, from: from, to: to}
	}
	tool := func(n, parent byte, from, to int) node {
		return node{id: n, parent: parent, role: trace.Tool, from: from, to: to}
	}
	byTime := func(run byte) trace.Place { return trace.Place{Run: id(run), Known: true, ByTime: true} }
	known := func(run byte) trace.Place { return trace.Place{Run: id(run), Known: true} }
	open := func(unseen byte) trace.Place { return trace.Place{Run: id(unseen), Open: true, Unseen: id(unseen)} }
	beneath := func(p trace.Place, above byte) trace.Place { p.Above = id(above); return p }
	for _, tt := range []struct {
		name  string
		nodes []node
		links map[byte]byte
		want  map[byte]trace.Place
	}{
		{
			name:  "named run, here or not",
			nodes: []node{run(1, 0, 0, 9), {id: 2, run: 1, parent: 8}, {id: 3, run: 7, parent: 1}},
			want:  map[byte]trace.Place{1: known(1), 2: known(1), 3: {Run: id(7), Open: true}},
		},
		{
			name:  "parent chain through tools, and through spans that were only seen",
			nodes: []node{run(1, 0, 0, 9), tool(3, 1, 2, 5), req(4, 3, 3, 4), req(5, 8, 6, 7)},
			links: map[byte]byte{8: 9, 9: 1},
			want:  map[byte]trace.Place{3: known(1), 4: beneath(known(1), 3), 5: known(1)},
		},
		{
			name:  "parent chain to a span that names its run",
			nodes: []node{{id: 2, run: 1}, req(3, 2, 1, 2)},
			want:  map[byte]trace.Place{3: {Run: id(1), Open: true, Above: id(2)}},
		},
		{
			name:  "the innermost run that it began within, where the chain breaks off",
			nodes: []node{run(1, 0, 0, 20), run(2, 1, 5, 10), req(3, 99, 6, 7), req(4, 98, 11, 12), req(5, 97, 30, 31)},
			want:  map[byte]trace.Place{3: byTime(2), 4: byTime(1), 5: open(97)},
		},
		{
			name:  "beside a run, under the same span that was not seen",
			nodes: []node{run(2, 99, 0, 20), req(3, 99, 5, 6)},
			want:  map[byte]trace.Place{3: open(99)},
		},
		{
			name:  "a tool is not within the run that it starts",
			nodes: []node{tool(3, 99, 1, 10), run(2, 3, 2, 9)},
			want:  map[byte]trace.Place{2: known(2), 3: open(99)},
		},
		{
			name: "another service's clock",
			nodes: []node{
				run(1, 0, 10, 20),
				{id: 2, parent: 99, from: 9, to: 12, service: "other"},
				{id: 3, parent: 98, from: 9, to: 12},
				{id: 4, parent: 97, from: 7, to: 12, service: "other"},
			},
			want: map[byte]trace.Place{2: byTime(1), 3: open(98), 4: open(97)},
		},
		{
			name:  "outside of the run, as the whole chain shows",
			nodes: []node{run(1, 8, 0, 9), req(2, 8, 1, 2)},
			links: map[byte]byte{8: 0},
			want:  map[byte]trace.Place{2: {Run: id(8)}},
		},
		{
			name:  "no run: those under one parent, and a root by itself",
			nodes: []node{req(2, 8, 1, 2), tool(3, 8, 2, 5), req(4, 3, 3, 4), req(5, 0, 1, 2), req(6, 5, 1, 2)},
			links: map[byte]byte{8: 0},
			want: map[byte]trace.Place{
				2: {Run: id(8)}, 3: {Run: id(8)}, 4: {Run: id(8), Above: id(3)}, 5: {Run: id(5)}, 6: {Run: id(5), Above: id(5)},
			},
		},
		{
			name: "a run that yields, with nothing above it",
			nodes: []node{
				yields(1, 8, 0, 9),
				{id: 2, parent: 1, run: 1},
				{id: 3, parent: 7, run: 1},
				yields(4, 0, 0, 9),
				{id: 5, parent: 4, run: 4},
				req(6, 4, 1, 2),
			},
			links: map[byte]byte{7: 8, 8: 0},
			want:  map[byte]trace.Place{1: known(1), 2: known(1), 3: known(1), 4: known(4), 5: known(4), 6: known(4)},
		},
		{
			name:  "a run that yields, with something above it that is not here",
			nodes: []node{yields(1, 8, 0, 9), {id: 2, parent: 1, run: 1, from: 1}, {id: 3, parent: 77, run: 1}, req(4, 1, 1, 2)},
			want: map[byte]trace.Place{
				1: {Run: id(1), Known: true, Open: true, Unseen: id(8)}, 2: {Run: id(1), Known: true, Open: true, Unseen: id(8)},
				3: {Run: id(1), Known: true, Open: true, Unseen: id(8)}, 4: {Run: id(1), Known: true, Open: true, Unseen: id(8)},
			},
		},
		{
			name:  "a run that yields to one by their time",
			nodes: []node{run(9, 0, 0, 20), yields(1, 8, 1, 9), {id: 2, parent: 1, run: 1, from: 2}, {id: 3, run: 1, from: 25}, req(4, 1, 1, 2)},
			want:  map[byte]trace.Place{1: byTime(9), 2: byTime(9), 3: byTime(9), 4: byTime(9)},
		},
		{
			name:  "a run that yields to one by their time, and a part that is beneath that one",
			nodes: []node{run(9, 0, 0, 20), yields(1, 8, 1, 9), {id: 2, parent: 7, run: 1, from: 2}, {id: 3, parent: 77, run: 1, from: 2}},
			links: map[byte]byte{7: 9},
			want:  map[byte]trace.Place{1: byTime(9), 2: known(9), 3: byTime(9)},
		},
		{
			name:  "a run that yields to one above it",
			nodes: []node{run(9, 0, 0, 20), yields(1, 8, 1, 9), {id: 2, parent: 1, run: 1}, {id: 3, run: 1}, {id: 4, parent: 7, run: 1}, req(5, 2, 2, 3)},
			links: map[byte]byte{8: 9, 7: 9},
			want:  map[byte]trace.Place{1: known(9), 2: known(9), 3: known(9), 4: known(9), 5: beneath(known(9), 2)},
		},
		{
			name: "a run that yields to a request, each of its requests to its own",
			nodes: []node{
				req(2, 8, 0, 4), yields(1, 7, 1, 9),
				{id: 3, parent: 1, run: 1},
				req(4, 8, 5, 9),
				{id: 5, parent: 6, run: 1},
			},
			links: map[byte]byte{8: 0, 7: 2, 6: 4},
			want: map[byte]trace.Place{
				1: {Run: id(8), Above: id(2)}, 2: {Run: id(8)}, 3: {Run: id(8), Above: id(2)},
				4: {Run: id(8)}, 5: {Run: id(8), Above: id(4)},
			},
		},
		{
			name: "a run that yields to another one that does, through a request that names that",
			nodes: []node{
				yields(1, 0, 0, 9), {id: 2, parent: 1, run: 1}, yields(3, 2, 1, 5), {id: 4, parent: 3, run: 3},
			},
			want: map[byte]trace.Place{1: known(1), 2: known(1), 3: beneath(known(1), 2), 4: beneath(known(1), 2)},
		},
		{
			name:  "runs that yield in a circle",
			nodes: []node{yields(1, 3, 0, 9), {id: 2, parent: 1, run: 1}, yields(3, 2, 1, 5), {id: 4, parent: 3, run: 3}},
			want:  map[byte]trace.Place{},
		},
		{
			name:  "a circle of parents",
			nodes: []node{req(2, 3, 1, 2), req(3, 2, 1, 2), req(4, 4, 1, 2)},
			want:  map[byte]trace.Place{4: {Run: id(4), Above: id(4), Endless: true}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, places := drain(t, tt.links, tt.nodes...)
			for n, want := range tt.want {
				assert.Equal(t, want, places[n], "span %d", n)
			}
		})
	}
}

func request(r classify.Request) dialect.Facts {
	if r.Basis == classify.Inferred {
		r.Basis = classify.Typed
	}
	return dialect.Facts{Request: &r}
}

var (
	overloaded = request(classify.Request{Status: 503, Ended: semconv.StreamEndHTTPError})
	reset      = request(classify.Request{Ended: semconv.StreamEndReadError, Transport: classify.Transport{Cause: semconv.TransportCauseConnectionReset}})
	aborted    = request(classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}})
	failedCall = request(classify.Request{Failed: classify.Yes})
	stopped    = request(classify.Request{Ended: semconv.StreamEndTerminalEvent, Finish: classify.FinishStop})
	nothing    = request(classify.Request{
		Ended: semconv.StreamEndTerminalEvent, Finish: classify.FinishStop,
		Text: classify.Counted(0), Reasoning: classify.Counted(0), ToolInputsStarted: classify.Counted(0),
		ToolCalls: classify.Counted(0), ProviderToolsStarted: classify.Counted(0),
	})
)

// causes are what is said of the failed spans of one release.
func causes(t *testing.T, release *trace.Release) (map[byte]semconv.Cause, Diagnoses) {
	t.Helper()
	d := new(Judge).Diagnose(release, trace.Inner{})
	require.Len(t, d.Members, len(release.Members))
	found := map[byte]semconv.Cause{}
	for i, verdict := range d.Members {
		if verdict != nil {
			found[release.Members[i].ID[7]] = verdict.Cause
		}
	}
	return found, d
}

// A request beneath another one's is its attempt, or another service's business.
func TestRequestsBeneathRequests(t *testing.T) {
	run := node{id: 1, role: trace.Run, to: 9, facts: dialect.Facts{Run: &classify.Run{Ended: classify.Yes}}}
	for _, tt := range []struct {
		name    string
		nodes   []node
		want    map[byte]semconv.Cause
		outcome semconv.RunOutcome
	}{
		{
			name: "our attempts beneath an instrumentation's call, the last one failed",
			nodes: []node{
				{id: 2, parent: 1, from: 1, to: 8, facts: failedCall},
				{id: 3, parent: 2, run: 1, from: 2, to: 3, facts: overloaded},
				{id: 4, parent: 2, run: 1, from: 4, to: 5, facts: reset},
			},
			want:    map[byte]semconv.Cause{2: semconv.CauseConnectionReset, 3: semconv.CauseOverloaded, 4: semconv.CauseConnectionReset},
			outcome: semconv.RunOutcomeFailed,
		},
		{
			name: "our attempts beneath a call that did not see that all was well",
			nodes: []node{
				{id: 2, parent: 1, from: 1, to: 8, facts: request(classify.Request{Ended: semconv.StreamEndEOF})},
				{id: 3, parent: 2, run: 1, from: 2, to: 3, facts: overloaded},
				{id: 4, parent: 2, run: 1, from: 4, to: 5, facts: stopped},
			},
			want:    map[byte]semconv.Cause{3: semconv.CauseOverloaded},
			outcome: semconv.RunOutcomeRecovered,
		},
		{
			name: "attempts without a named run, in one service",
			nodes: []node{
				{id: 2, parent: 1, from: 1, to: 8, facts: stopped},
				{id: 3, parent: 2, from: 2, to: 3, facts: overloaded},
				{id: 4, parent: 2, from: 4, to: 5, facts: stopped},
			},
			want:    map[byte]semconv.Cause{3: semconv.CauseOverloaded},
			outcome: semconv.RunOutcomeRecovered,
		},
		{
			name: "a gateway's attempts are not the agent's",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: stopped},
				{id: 3, parent: 2, from: 2, to: 7, service: "gateway", server: true, facts: stopped},
				{id: 4, parent: 3, from: 3, to: 4, service: "gateway", facts: overloaded},
				{id: 5, parent: 3, from: 5, to: 6, service: "gateway", facts: stopped},
			},
			want:    map[byte]semconv.Cause{4: semconv.CauseOverloaded},
			outcome: semconv.RunOutcomeSucceeded,
		},
		{
			name: "nor are those of a gateway that records only what it asks for",
			nodes: []node{
				{id: 2, parent: 1, from: 1, to: 8, facts: stopped},
				{id: 4, parent: 2, from: 3, to: 4, service: "gateway", facts: overloaded},
				{id: 5, parent: 2, from: 5, to: 6, service: "gateway", facts: stopped},
			},
			want:    map[byte]semconv.Cause{4: semconv.CauseOverloaded},
			outcome: semconv.RunOutcomeSucceeded,
		},
		{
			name: "a tool of the gateway's is not the agent's",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: stopped},
				{id: 3, parent: 2, from: 2, to: 7, service: "gateway", server: true, facts: stopped},
				{id: 4, parent: 3, role: trace.Tool, from: 3, to: 4, service: "gateway", facts: dialect.Facts{Tool: &classify.Tool{
					Start: at(3).AsTime(), End: at(4).AsTime(), Outcome: semconv.ToolOutcomeFailed,
				}}},
			},
			want:    map[byte]semconv.Cause{4: semconv.CauseExecutionError},
			outcome: semconv.RunOutcomeSucceeded,
		},
		{
			name: "an upstream failure behind an answer with nothing in it",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: nothing},
				{id: 3, parent: 2, from: 2, to: 7, service: "gateway", server: true, facts: failedCall},
				{id: 4, parent: 3, from: 3, to: 4, service: "gateway", facts: reset},
			},
			want: map[byte]semconv.Cause{
				2: semconv.CauseSwallowedError, 3: semconv.CauseConnectionReset, 4: semconv.CauseConnectionReset,
			},
			outcome: semconv.RunOutcomeFailed,
		},
		{
			name: "the same, known only by its time",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: nothing},
				{id: 4, parent: 99, from: 3, to: 4, service: "gateway", facts: reset},
			},
			want:    map[byte]semconv.Cause{2: semconv.CauseSwallowedError, 4: semconv.CauseConnectionReset},
			outcome: semconv.RunOutcomeFailed,
		},
		{
			name: "a gateway that was cancelled swallowed nothing",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: nothing},
				{id: 4, parent: 2, from: 3, to: 4, service: "gateway", server: true, facts: aborted},
			},
			want:    map[byte]semconv.Cause{2: semconv.CauseNoContent, 4: semconv.CauseUnknown},
			outcome: semconv.RunOutcomeFailed,
		},
		{
			name: "another request of the run that failed meanwhile swallowed nothing",
			nodes: []node{
				{id: 2, parent: 1, run: 1, from: 1, to: 8, facts: nothing},
				{id: 3, parent: 1, run: 1, from: 3, to: 4, facts: reset},
			},
			want:    map[byte]semconv.Cause{2: semconv.CauseNoContent, 3: semconv.CauseConnectionReset},
			outcome: semconv.RunOutcomeFailed,
		},
		{
			name: "a run within a tool is not beneath the request",
			nodes: []node{
				{id: 2, parent: 1, from: 1, to: 2, facts: stopped},
				{id: 3, parent: 1, role: trace.Tool, from: 2, to: 5, facts: dialect.Facts{Tool: &classify.Tool{}}},
				{id: 4, parent: 3, from: 3, to: 4, facts: overloaded},
				{id: 5, parent: 1, from: 6, to: 8, facts: stopped},
			},
			want:    map[byte]semconv.Cause{4: semconv.CauseOverloaded},
			outcome: semconv.RunOutcomeRecovered,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			releases, _ := drain(t, nil, append(tt.nodes, run)...)
			require.Len(t, releases, 1)
			for i := range releases[0].Members { // times of facts are those of spans
				m := &releases[0].Members[i]
				if r := m.Known.Facts(m.Span, [...]dialect.Kind{dialect.Request, dialect.Tool, dialect.Run}[m.Role]); r.Request != nil {
					r.Request.Start, r.Request.End = m.Start.AsTime(), m.End.AsTime()
				}
			}
			got, d := causes(t, &releases[0])
			assert.Equal(t, tt.want, got)
			require.NotNil(t, d.Run)
			assert.Equal(t, tt.outcome, d.Run.Outcome)
			assert.Equal(t, id(1), releases[0].Members[d.Carrier].ID)
		})
	}
}

func TestToolBeneathItsOwnCall(t *testing.T) {
	tool := func(call string, outcome semconv.ToolOutcome) dialect.Facts {
		return dialect.Facts{Tool: &classify.Tool{CallID: call, Outcome: outcome, Start: t0, End: t0.Add(time.Second)}}
	}
	for name, tt := range map[string]struct {
		inner dialect.Facts
		tools int
	}{
		"the same call":     {tool("call_1", semconv.ToolOutcomeFailed), 1},
		"without an id":     {tool("", semconv.ToolOutcomeFailed), 1},
		"a call of its own": {tool("call_2", semconv.ToolOutcomeFailed), 2},
	} {
		t.Run(name, func(t *testing.T) {
			releases, _ := drain(t, nil,
				node{id: 1, role: trace.Run, to: 9, facts: dialect.Facts{Run: &classify.Run{Ended: classify.Yes}}},
				node{id: 2, parent: 1, role: trace.Tool, from: 1, to: 4, facts: tool("call_1", semconv.ToolOutcomeSucceeded)},
				node{id: 3, parent: 2, role: trace.Tool, from: 2, to: 3, facts: tt.inner},
			)
			require.Len(t, releases, 1)
			j := Judge{relations: relations(&releases[0], nil)}
			j.assemble(&releases[0])
			run, tools := &j.run, j.tools
			assert.Len(t, run.Tools, tt.tools)
			assert.Len(t, tools, tt.tools)
			got, _ := causes(t, &releases[0])
			assert.Equal(t, map[byte]semconv.Cause{3: semconv.CauseExecutionError}, got, "it is judged, either way")
		})
	}
}

// Without a run span the last LLM span to end carries the verdict.
func TestCarrier(t *testing.T) {
	releases, _ := drain(t, map[byte]byte{8: 0},
		node{id: 2, parent: 8, from: 1, to: 5, facts: stopped}, node{id: 3, parent: 8, from: 2, to: 4, facts: stopped},
		node{id: 4, parent: 8, from: 1, to: 5, facts: stopped})
	require.Len(t, releases, 1)
	_, d := causes(t, &releases[0])
	require.NotNil(t, d.Run)
	assert.Equal(t, id(4), releases[0].Members[d.Carrier].ID)

	releases, _ = drain(t, nil, node{id: 2, parent: 8, from: 1, to: 5, facts: stopped})
	require.Len(t, releases, 1)
	_, d = causes(t, &releases[0])
	assert.Nil(t, d.Run, "its run may still come")
	assert.Equal(t, -1, d.Carrier)
}
