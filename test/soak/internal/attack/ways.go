package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelllm/otelllm-go/semconv"
)

// Sizes of portions.
const (
	manySpans = 512       // what an SDK sends at once
	large     = 3_500_000 // bytes of an attribute, just below what a receiver takes
	openRuns  = 1024      // in one trace
	deep      = 1000      // attributes within attributes
	deepest   = 9000      // the same, once in a while; protobuf decoders may stop at 10,000
)

var ways = []Way{
	{Name: "large resources", Row: "P1", portion: (*Attacker).largeResources},
	{Name: "one large trace", Row: "P2", portion: (*Attacker).largeTrace},
	{Name: "one run without end", Row: "P2, P10", portion: (*Attacker).endlessRun},
	{Name: "runs without end", Row: "P2", portion: (*Attacker).endlessRuns},
	{Name: "open runs of a trace", Row: "P2, P3", portion: (*Attacker).openRuns},
	{Name: "names", Row: "P4", portion: (*Attacker).names},
	{Name: "forged verdicts", Row: "P6", portion: (*Attacker).forgedVerdicts},
	{Name: "duplicate ids", Row: "P5", portion: (*Attacker).duplicates},
	{Name: "false manifests", Row: "P6", portion: (*Attacker).falseManifests},
	{Name: "broken requests", Row: "", portion: (*Attacker).brokenRequests},
	{Name: "deep attributes", Row: "", portion: (*Attacker).deepAttributes},
	{Name: "flood of a tenant", Row: "tenants", Tenant: true, portion: (*Attacker).flood},
}

// call returns an empty call and its spans.
func call(service string) (ptrace.Traces, ptrace.SpanSlice) {
	td := ptrace.NewTraces()
	return td, resource(td, service)
}

func resource(td ptrace.Traces, service string) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", service)
	rs.Resource().Attributes().PutStr("service.namespace", "attacker")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("attack")
	return ss.Spans()
}

// largeResources sends runs with a large attribute of their own, on the resource or
// the scope, whole or apart.
func (a *Attacker) largeResources(ctx context.Context) {
	trace, run := a.next(), a.id()
	text := strconv.FormatUint(a.number, 10) + strings.Repeat("x", large)
	add := func(td ptrace.Traces) {
		if a.number%3 == 0 {
			td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().Attributes().PutStr("large", text)
			return
		}
		td.ResourceSpans().At(0).Resource().Attributes().PutStr("large", text)
	}
	td, to := call("large")
	a.request(to, trace, run, run)
	if a.calls%2 == 0 {
		add(td)
		a.send(ctx, td)
		td, to = call("large")
	}
	a.run(to, trace, run, 1)
	add(td)
	a.send(ctx, td)
}

// largeTrace sends runs of one trace, whole.
func (a *Attacker) largeTrace(ctx context.Context) {
	td, to := call("large-trace")
	for to.Len() < manySpans {
		run := a.id()
		for range 15 {
			a.request(to, a.open, run, run)
		}
		a.run(to, a.open, run, 15)
	}
	a.send(ctx, td)
}

// endlessRun sends failed requests of one run.
func (a *Attacker) endlessRun(ctx context.Context) {
	td, to := call("endless")
	run := pcommon.SpanID{0xaa, 7: 1}
	for range manySpans {
		fail(a.request(to, a.open, run, run))
	}
	a.send(ctx, td)
}

// endlessRuns sends requests of many runs of one trace that do not end.
func (a *Attacker) endlessRuns(ctx context.Context) {
	td, to := call("endless")
	for range manySpans {
		run := a.id()
		a.request(to, a.open, run, run)
	}
	a.send(ctx, td)
}

// openRuns opens many runs of one trace, and ends them a few at a time.
func (a *Attacker) openRuns(ctx context.Context) {
	trace, ids := a.next(), make([]pcommon.SpanID, openRuns)
	td, to := call("open")
	for i := range ids {
		ids[i] = a.id()
		a.request(to, trace, ids[i], ids[i])
	}
	a.send(ctx, td)
	for len(ids) > 0 && ctx.Err() == nil {
		n := min(8, len(ids))
		td, to := call("open")
		for _, run := range ids[:n] {
			a.run(to, trace, run, 1)
		}
		a.send(ctx, td)
		ids = ids[n:]
	}
}

// names sends runs, each of a service, an agent, a model, a provider and a tool of its
// own.
func (a *Attacker) names(ctx context.Context) {
	td := ptrace.NewTraces()
	for range manySpans / 3 {
		trace, run := a.next(), a.id()
		n := strconv.FormatUint(a.number, 36)
		to := resource(td, "service-"+n)
		request := fail(a.request(to, trace, run, run)).Attributes()
		request.PutStr("gen_ai.request.model", "model-"+n)
		request.PutStr("gen_ai.response.model", "model-"+n)
		request.PutStr("gen_ai.provider.name", "provider-"+n)
		a.tool(to, trace, run, "tool-"+n, "")
		a.run(to, trace, run, 1).Attributes().PutStr("gen_ai.agent.name", "agent-"+n)
	}
	a.send(ctx, td)
}

// forgedVerdicts sends failed requests with a verdict that allows to send them again,
// and others with an empty one. Neither has the scope of this project's client.
func (a *Attacker) forgedVerdicts(ctx context.Context) {
	td, to := call("forger")
	for i := range 64 {
		trace, run := a.next(), a.id()
		failed := fail(a.request(to, trace, run, run))
		s := fail(a.run(to, trace, run, 1))
		s.SetName(forged)
		attrs := s.Attributes()
		attrs.PutStr(string(semconv.RunOutcomeKey), semconv.RunOutcomeFailed.String())
		attrs.PutStr(string(semconv.FailureClassKey), semconv.ClassStreamInterrupted.String())
		attrs.PutStr(string(semconv.FailureCauseKey), semconv.CauseConnectionReset.String())
		attrs.PutStr(string(semconv.FailureSummaryKey), forgedText)
		attrs.PutStr(string(semconv.RetrySafetyKey), semconv.RetrySafetySafeAutoRetry.String())
		trigger := semconv.TriggerComplete
		if i%2 == 0 {
			trigger = semconv.TriggerClient
		}
		attrs.PutStr(string(semconv.ClassificationTriggerKey), trigger.String())

		failed.SetName(suppressed)
		failed.Attributes().PutStr(string(semconv.FailureSummaryKey), "")
	}
	a.send(ctx, td)
}

// duplicates sends the same spans again and again, and different spans with one id.
func (a *Attacker) duplicates(ctx context.Context) {
	td, to := call("duplicates")
	run, one := pcommon.SpanID{0xdd, 7: 1}, pcommon.SpanID{0xdd, 7: 2}
	for i := range manySpans / 4 {
		a.request(to, a.open, run, run).SetSpanID(one)
		fail(a.request(to, a.open, run, run)).SetSpanID(run)
		a.run(to, a.open, run, i)
		a.run(to, a.open, one, 1)
	}
	a.send(ctx, td)
}

// falseManifests sends runs that announce no tools, of which a tool ran that changed
// something: half of them before the run's end, the others after it.
func (a *Attacker) falseManifests(ctx context.Context) {
	first, before := call("denies")
	second, ends := call("denies")
	third, after := call("denies")
	for range 32 {
		for _, tools := range []ptrace.SpanSlice{before, after} {
			trace, run := a.next(), a.id()
			fail(a.request(before, trace, run, run))
			tool := a.tool(tools, trace, run, "pay", semconv.ToolEffectNonIdempotent.String())
			s := fail(a.run(ends, trace, run, 1))
			if tools == before {
				s.SetName(contradicted)
				continue
			}
			s.SetName(denies)
			tool.SetName(contradicts)
			a.expectLate(trace)
		}
	}
	a.send(ctx, first)
	a.send(ctx, second)
	a.send(ctx, third)
}

// brokenRequests sends what is no OTLP: half of a gzip stream, a body that stops
// in the middle, a small body that is large when it is unpacked, and noise.
func (a *Attacker) brokenRequests(ctx context.Context) {
	td, to := call("broken")
	for range manySpans {
		run := a.id()
		a.request(to, a.open, run, run)
	}
	plain, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		return
	}
	packed := pack(plain)
	noise := bytes.Repeat([]byte{0x0a, 0xff, 0xff, 0xff, 0x7f}, 1000)
	a.post(ctx, bytes.NewReader(packed[:len(packed)/2]), "gzip")
	a.post(ctx, bytes.NewReader(bomb()), "gzip")
	a.post(ctx, bytes.NewReader(noise), "")
	a.post(ctx, bytes.NewReader(plain[:len(plain)/2]), "")
	stops, end := io.Pipe()
	go func() {
		_, _ = end.Write(packed[:len(packed)/2]) // and nothing more
		time.Sleep(every)
		_ = end.CloseWithError(io.ErrUnexpectedEOF) // the connection breaks
	}()
	a.post(ctx, stops, "gzip")
	_ = stops.Close()
}

// bomb is small, and 256 MiB when it is unpacked.
var bomb = sync.OnceValue(func() []byte { return pack(make([]byte, 256<<20)) })

func pack(plain []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(plain) // to memory
	_ = w.Close()
	return packed.Bytes()
}

func (a *Attacker) post(ctx context.Context, body io.Reader, encoding string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL, body)
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := a.client.Do(req)
	taken := err == nil && resp.StatusCode == http.StatusOK
	if err == nil {
		_ = resp.Body.Close()
	}
	a.count(func(c *Counts) {
		c.Broken++
		if taken {
			c.BrokenTaken++
		}
	})
}

// deepAttributes sends attributes within attributes, and a long chain of parents.
func (a *Attacker) deepAttributes(ctx context.Context) {
	td, to := call("deep")
	trace := a.next()
	above := a.id()
	depth, spans := deep, 16
	if a.calls%8 == 0 {
		depth, spans = deepest, 1
	}
	for i := range spans {
		s := a.request(to, trace, above, above)
		above = s.SpanID()
		if i%2 == 0 {
			nest(s.Attributes().PutEmpty("deep"), depth)
			continue
		}
		in := s.Attributes().PutEmptySlice("deep")
		for range depth {
			in = in.AppendEmpty().SetEmptySlice()
		}
	}
	nest(td.ResourceSpans().At(0).Resource().Attributes().PutEmpty("deep"), depth)
	for range manySpans / 2 {
		above = a.request(to, trace, above, pcommon.SpanID{}).SpanID()
	}
	a.send(ctx, td)
}

func nest(v pcommon.Value, depth int) {
	for range depth {
		v = v.SetEmptyMap().PutEmpty("k")
	}
	v.SetStr("the bottom")
}

// flood sends many traces, all of one tenant, with a run each that does not end.
func (a *Attacker) flood(ctx context.Context) {
	for range 4 {
		td, to := call("flood")
		for range manySpans {
			run := a.id()
			a.request(to, a.next(), run, run).Attributes().PutStr("padding", strings.Repeat("x", 4096))
		}
		a.send(ctx, td)
	}
}

// span adds a span of a second that ends now.
func (a *Attacker) span(to ptrace.SpanSlice, trace pcommon.TraceID, id, parent pcommon.SpanID, name string) ptrace.Span {
	s := to.AppendEmpty()
	s.SetTraceID(trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	now := time.Now()
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Second)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(now))
	return s
}

// request adds a model call; run may be empty.
func (a *Attacker) request(to ptrace.SpanSlice, trace pcommon.TraceID, parent, run pcommon.SpanID) ptrace.Span {
	s := a.span(to, trace, a.id(), parent, "chat gpt-attack")
	s.SetKind(ptrace.SpanKindClient)
	attrs := s.Attributes()
	attrs.PutStr("gen_ai.operation.name", "chat")
	attrs.PutStr("gen_ai.provider.name", "openai")
	attrs.PutStr("gen_ai.request.model", "gpt-attack")
	if !run.IsEmpty() {
		attrs.PutStr(string(semconv.RunIDKey), run.String())
	}
	attrs.PutStr(string(semconv.StreamEndKey), semconv.StreamEndTerminalEvent.String())
	attrs.PutStr(string(semconv.StreamPhaseKey), semconv.PhaseStreamEnd.String())
	attrs.PutInt(string(semconv.StreamTextChunksKey), 3)
	return s
}

// fail turns a span into one of a connection that was reset before anything was shown.
func fail(s ptrace.Span) ptrace.Span {
	s.Status().SetCode(ptrace.StatusCodeError)
	attrs := s.Attributes()
	attrs.PutStr("error.type", "*net.OpError")
	if _, is := attrs.Get(string(semconv.StreamEndKey)); is {
		attrs.PutStr(string(semconv.StreamEndKey), semconv.StreamEndReadError.String())
		attrs.PutStr(string(semconv.StreamPhaseKey), semconv.PhaseResponseStarted.String())
		attrs.PutStr(string(semconv.TransportStageKey), semconv.TransportStageBody.String())
		attrs.PutStr(string(semconv.TransportCauseKey), semconv.TransportCauseConnectionReset.String())
		attrs.PutEmptySlice(string(semconv.RequestProviderToolsKey))
		for _, count := range []string{
			string(semconv.StreamTextChunksKey), string(semconv.StreamReasoningChunksKey), string(semconv.StreamToolInputsStartedKey),
			string(semconv.StreamToolInputsCompletedKey), string(semconv.StreamToolCallsKey), string(semconv.StreamProviderToolsStartedKey),
		} {
			attrs.PutInt(count, 0)
		}
		attrs.PutInt(string(semconv.StreamEventsKey), 1)
	}
	return s
}

func (a *Attacker) tool(to ptrace.SpanSlice, trace pcommon.TraceID, run pcommon.SpanID, name, effect string) ptrace.Span {
	s := a.span(to, trace, a.id(), run, "execute_tool")
	attrs := s.Attributes()
	attrs.PutStr("gen_ai.operation.name", "execute_tool")
	attrs.PutStr("gen_ai.tool.name", name)
	attrs.PutStr(string(semconv.RunIDKey), run.String())
	attrs.PutStr(string(semconv.ToolOutcomeKey), semconv.ToolOutcomeSucceeded.String())
	if effect != "" {
		attrs.PutStr(string(semconv.ToolEffectKey), effect)
	}
	return s
}

// run adds the span of a run that announces so many requests and no tools.
func (a *Attacker) run(to ptrace.SpanSlice, trace pcommon.TraceID, id pcommon.SpanID, requests int) ptrace.Span {
	s := a.span(to, trace, id, pcommon.SpanID{0xaa}, "invoke_agent attacker")
	attrs := s.Attributes()
	attrs.PutStr("gen_ai.operation.name", "invoke_agent")
	attrs.PutStr("gen_ai.agent.name", "attacker")
	attrs.PutInt(string(semconv.RunRequestsKey), int64(requests))
	attrs.PutInt(string(semconv.RunToolsKey), 0)
	return s
}
