package collector

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// spansPerCall is the number of spans that an SDK sends at once by default.
const spansPerCall = 512

// shape is a kind of trace that is large in one respect.
type shape struct {
	name string
	// write writes a trace of about n spans.
	write func(w *writer, n int)
	// largest is the largest size to measure, in spans; zero for 10⁵.
	largest int
	// config is llm_classify's.
	config map[string]any
	// pause is the time between two calls, for what is to happen in several turns.
	pause time.Duration
}

// early makes llm_classify release what has no end after a fraction of a second.
var early = map[string]any{"max_hold": "200ms", "settle": "50ms"}

// room makes llm_classify hold a large run until its end.
var room = map[string]any{"max_spans_per_run": 1 << 20, "max_held_bytes": 1 << 30}

var shapes = []shape{
	{name: "runs of 20 in a trace", write: func(w *writer, n int) {
		for w.spans < n {
			run := w.id()
			for range 10 {
				w.other(w.request(w.id(), run, run))
			}
			w.run(run, w.root, 10, 0)
		}
	}},
	{name: "requests of a run", config: room, write: func(w *writer, n int) {
		run := w.id()
		for range n - 1 {
			w.request(w.id(), run, run)
		}
		w.run(run, w.root, n-1, 0)
	}},
	{name: "failed requests of a run", config: room, write: func(w *writer, n int) {
		run := w.id()
		for range n - 1 {
			fail(w.request(w.id(), run, run))
		}
		w.run(run, w.root, n-1, 0)
	}},
	{name: "calls and tools of a run", config: room, write: func(w *writer, n int) {
		run := w.id()
		for i := range (n - 1) / 2 {
			call := "call_" + strconv.Itoa(i)
			w.request(w.id(), run, run).Attributes().PutEmptySlice(string(semconv.StreamToolCallIDsKey)).AppendEmpty().SetStr(call)
			w.tool(run, call)
		}
		w.run(run, w.root, (n-1)/2, (n-1)/2)
	}},
	{name: "open runs, ended one by one", largest: 40_000, write: func(w *writer, n int) { openRuns(w, n, 1) }},
	{name: "open runs, ended in batches", largest: 40_000, write: func(w *writer, n int) { openRuns(w, n, spansPerCall) }},
	{name: "open runs, ended without counts", largest: 40_000, config: early, write: func(w *writer, n int) {
		openRuns(w, n, spansPerCall)
		for _, td := range w.calls {
			for _, s := range spansOf(td).All() {
				s.Attributes().Remove(string(semconv.RunRequestsKey))
				s.Attributes().Remove(string(semconv.RunToolsKey))
			}
		}
	}},
	{name: "runs within runs", largest: 40_000, write: func(w *writer, n int) {
		ids := make([]pcommon.SpanID, n/2)
		for i := range ids {
			ids[i] = w.id()
		}
		for i, run := range slices.Backward(ids) { // as they end
			w.request(w.id(), run, run)
			above := w.root
			if i > 0 {
				above = ids[i-1]
			}
			w.run(run, above, len(ids)-i, 0)
		}
	}},
	{name: "runs beneath a circle of parents", largest: 40_000, config: early, write: func(w *writer, n int) {
		one, other := w.id(), w.id()
		w.span(one, other, "handle")
		w.span(other, one, "handle")
		runsBeneath(w, n, one)
	}},
	{name: "runs beneath a long chain of parents", largest: 40_000, config: early, write: func(w *writer, n int) {
		above := w.root
		for range 300 {
			above = w.span(w.id(), above, "handle").SpanID()
		}
		runsBeneath(w, n, above)
	}},
	{name: "runs beneath a chain of requests", largest: 40_000, config: early, write: func(w *writer, n int) {
		above := w.root
		for range 120 {
			above = w.request(w.id(), above, pcommon.SpanID{}).SpanID()
		}
		runsBeneath(w, n, above)
	}},
	{
		name: "a run without end, span_limit", config: map[string]any{"max_spans_per_run": 500, "max_hold": "200ms", "settle": "50ms"},
		write: func(w *writer, n int) { endless(w, n, 1) },
	},
	{
		name: "a run without end, hold_expired", config: map[string]any{"max_hold": "20ms", "settle": "5ms"}, pause: 5 * time.Millisecond,
		write: func(w *writer, n int) { endless(w, n, 1) },
	},
	{
		name: "runs without end", largest: 40_000, config: map[string]any{"max_hold": "20ms", "settle": "5ms"}, pause: 5 * time.Millisecond,
		write: func(w *writer, n int) { endless(w, n, n/2) },
	},
	{name: "no run, one parent", config: early, write: func(w *writer, n int) {
		parent := w.id()
		for range n {
			conventions(w.request(w.id(), parent, pcommon.SpanID{}))
		}
	}},
	{name: "no run, a parent each", config: early, write: func(w *writer, n int) {
		for range n {
			conventions(w.request(w.id(), w.id(), pcommon.SpanID{}))
		}
	}},
	{name: "no run, a chain", config: early, write: func(w *writer, n int) {
		above := w.root
		for range n {
			s := w.request(w.id(), above, pcommon.SpanID{})
			conventions(s)
			above = s.SpanID()
		}
	}},
	{name: "no run, one session", config: early, write: func(w *writer, n int) {
		for range n {
			s := w.request(w.id(), w.id(), pcommon.SpanID{})
			conventions(s)
			s.Attributes().PutStr("gen_ai.conversation.id", "one for all of them")
		}
	}},
	{name: "no run, one response id", config: early, write: func(w *writer, n int) {
		for range n {
			s := w.request(w.id(), w.id(), pcommon.SpanID{})
			conventions(s)
			s.Attributes().PutStr("gen_ai.response.id", "resp_1")
		}
	}},
	{name: "no run, the parents come last", config: early, write: func(w *writer, n int) {
		parents := make([]pcommon.SpanID, n/2)
		for i := range parents {
			parents[i] = w.id()
			conventions(w.request(w.id(), parents[i], pcommon.SpanID{}))
		}
		for _, id := range parents {
			s := w.span(id, w.root, "handle")
			s.Attributes().PutStr("http.route", "/ask")
		}
	}},
	{name: "no run, after whole runs", config: early, write: func(w *writer, n int) {
		const requests = spansPerCall/2 - 1
		for w.spans < n/2 {
			run := w.id()
			for range requests {
				w.request(w.id(), run, run)
			}
			w.run(run, w.root, requests, 0)
		}
		for w.spans < n { // any of these may be late
			conventions(w.request(w.id(), w.id(), pcommon.SpanID{}))
		}
	}},
	{name: "agents of the conventions", config: early, write: func(w *writer, n int) {
		for w.spans < n {
			run := w.id()
			for range 3 {
				conventions(w.request(w.id(), run, pcommon.SpanID{}))
			}
			conventions(w.run(run, w.root, 0, 0))
		}
	}},
}

// openRuns writes n/2 runs of a request each, which are all open before the first one
// ends. A call brings so many of their ends.
func openRuns(w *writer, n, ends int) {
	runs := make([]pcommon.SpanID, n/2)
	for i := range runs {
		runs[i] = w.id()
		w.request(w.id(), runs[i], runs[i])
	}
	for i, run := range runs {
		if i%ends == 0 {
			w.next()
		}
		w.run(run, w.root, 1, 0)
	}
}

// runsBeneath writes runs, one after the other, of a request each and without numbers, until
// there are n spans.
func runsBeneath(w *writer, n int, parent pcommon.SpanID) {
	for w.spans < n {
		run := w.id()
		first := w.request(w.id(), run, run)
		s := w.run(run, parent, 0, 0)
		s.SetStartTimestamp(first.StartTimestamp() - 1)
		s.Attributes().Remove(string(semconv.RunRequestsKey))
		s.Attributes().Remove(string(semconv.RunToolsKey))
	}
}

// endless writes n failed requests of so many runs, in turn. None of the runs ends.
func endless(w *writer, n, runs int) {
	ids := make([]pcommon.SpanID, runs)
	for i := range ids {
		ids[i] = w.id()
	}
	for i := range n {
		run := ids[i%runs]
		fail(w.request(w.id(), run, run))
	}
}

// fail turns a request into one that lost its connection.
func fail(s ptrace.Span) {
	s.Status().SetCode(ptrace.StatusCodeError)
	a := s.Attributes()
	a.PutStr(string(semconv.StreamEndKey), semconv.StreamEndReadError.String())
	a.PutStr(string(semconv.StreamPhaseKey), semconv.PhaseResponseStarted.String())
	a.PutStr(string(semconv.TransportCauseKey), semconv.TransportCauseConnectionReset.String())
	a.PutStr("error.type", "*net.OpError")
}

// conventions removes what only this project's client records.
func conventions(s ptrace.Span) {
	for _, key := range []string{
		string(semconv.RunIDKey), string(semconv.StreamEndKey), string(semconv.StreamPhaseKey),
		string(semconv.RunRequestsKey), string(semconv.RunToolsKey),
	} {
		s.Attributes().Remove(key)
	}
	s.Attributes().PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr("stop")
}

// writer writes a trace as the calls that bring it.
type writer struct {
	trace pcommon.TraceID
	root  pcommon.SpanID // of the trace, which never comes
	calls []ptrace.Traces
	spans int
	ids   uint64
}

var traces atomic.Uint64

// newWriter returns a writer of a trace that no other writer has. It is safe for
// concurrent use.
func newWriter() *writer {
	w := &writer{}
	number := traces.Add(1)
	binary.BigEndian.PutUint64(w.trace[:], number*0x9e3779b97f4a7c15) // as random ids are
	binary.BigEndian.PutUint64(w.trace[8:], number)
	w.root = w.id()
	return w
}

func (w *writer) id() (id pcommon.SpanID) {
	w.ids++
	binary.BigEndian.PutUint64(id[:], w.ids*0x9e3779b97f4a7c15)
	return id
}

// next begins a new call.
func (w *writer) next() {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "agent")
	rs.ScopeSpans().AppendEmpty().Scope().SetName("bench")
	w.calls = append(w.calls, td)
}

func spansOf(td ptrace.Traces) ptrace.SpanSlice {
	return td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
}

func (w *writer) span(id, parent pcommon.SpanID, name string) ptrace.Span {
	if len(w.calls) == 0 || spansOf(w.calls[len(w.calls)-1]).Len() == spansPerCall {
		w.next()
	}
	s := spansOf(w.calls[len(w.calls)-1]).AppendEmpty()
	s.SetTraceID(w.trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetStartTimestamp(pcommon.Timestamp(1_790_000_000_000_000_000 + w.spans*1_000_000))
	s.SetEndTimestamp(s.StartTimestamp() + 900_000)
	w.spans++
	return s
}

// request writes a model call of a run, or of none.
func (w *writer) request(id, parent, run pcommon.SpanID) ptrace.Span {
	s := w.span(id, parent, "chat gpt-5")
	s.SetKind(ptrace.SpanKindClient)
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.provider.name", "openai")
	a.PutStr("gen_ai.request.model", "gpt-5")
	a.PutStr(string(semconv.RunIDKey), run.String())
	a.PutStr(string(semconv.StreamEndKey), semconv.StreamEndTerminalEvent.String())
	a.PutStr(string(semconv.StreamPhaseKey), semconv.PhaseStreamEnd.String())
	a.PutInt("http.response.status_code", 200)
	return s
}

func (w *writer) tool(run pcommon.SpanID, call string) {
	a := w.span(w.id(), run, "execute_tool search").Attributes()
	a.PutStr("gen_ai.operation.name", "execute_tool")
	a.PutStr("gen_ai.tool.name", "search")
	a.PutStr("gen_ai.tool.call.id", call)
	a.PutStr(string(semconv.RunIDKey), run.String())
	a.PutStr(string(semconv.ToolOutcomeKey), semconv.ToolOutcomeSucceeded.String())
}

// run writes the span of a run that announces so many requests and tools.
func (w *writer) run(id, parent pcommon.SpanID, requests, tools int) ptrace.Span {
	s := w.span(id, parent, "invoke_agent coder")
	s.SetStartTimestamp(1_790_000_000_000_000_000 - 1)
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "invoke_agent")
	a.PutStr("gen_ai.agent.name", "coder")
	a.PutInt(string(semconv.RunRequestsKey), int64(requests))
	a.PutInt(string(semconv.RunToolsKey), int64(tools))
	return s
}

// other writes the HTTP client's span beneath a request.
func (w *writer) other(request ptrace.Span) {
	s := w.span(w.id(), request.SpanID(), "POST")
	s.SetKind(ptrace.SpanKindClient)
	s.Attributes().PutStr("http.request.method", "POST")
	s.Attributes().PutInt("http.response.status_code", 200)
}
