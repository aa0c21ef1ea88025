package llmclassify

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// tree is a trace made at random: an agent, the gateways that serve its requests, and
// what they infer.
type tree struct {
	*rand.Rand
	spans []spanSpec
	last  byte

	broken    bool // spans are missing
	nested    bool // a tool is an agent
	responses bool // requests have the ids of their responses
}

func (g *tree) maybe(p float64) bool { return g.Float64() < p }

func (g *tree) id() byte { g.last++; return g.last }

func (g *tree) add(s spanSpec) byte { g.spans = append(g.spans, s); return s.id }

// makeTree makes a trace with a declared run, an inferred one, or only a handler above
// the requests.
func makeTree(seed uint64) *tree {
	g := &tree{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.broken, g.responses = g.maybe(0.4), g.maybe(0.7)
	root := byte(0)
	if g.maybe(0.3) {
		root = g.add(otherSpan(g.id(), 0, 0, 50))
	}
	g.agent(root, agentService, 0, 2+g.IntN(3), 0)
	return g
}

// agent adds an agent that makes n requests, beneath the span parent.
func (g *tree) agent(parent byte, service string, from float64, n, depth int) {
	end := from + float64(n)*4
	run, named := parent, false
	switch g.IntN(5) {
	case 0, 1:
		run = g.add(agentSpan(g.id(), parent, from, end).in(service))
	case 2:
		run, named = g.id(), true
		s := inferredSpan(run, parent, from, end).in(service)
		s.attrs = slices.DeleteFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunRequestsKey })
		g.add(s.with(semconv.RunRequests(n)))
	case 3:
		if run = parent; parent == 0 {
			run = g.add(otherSpan(g.id(), 0, from, end).in(service))
		}
	case 4:
		run, named = g.id(), true
		s := runSpan(run, from, end, n, 0).under(parent).in(service)
		s.attrs = slices.DeleteFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunToolsKey })
		g.add(s) // it announces its requests alone: tools are beneath it or not
	}
	session := ""
	if g.maybe(0.3) {
		session = fmt.Sprint("session of ", run)
	}
	var requests []request
	for i := range n {
		at := from + float64(i)*4
		last := i == n-1
		r := request{id: g.id(), service: service, from: at + 0.1, to: at + 1.9, last: last, call: fmt.Sprintf("call_%d", g.last), failed: g.maybe(0.15)}
		parent := run
		if g.maybe(0.3) { // a step between
			parent = g.add(otherSpan(g.id(), run, at, at+3.9).in(service))
		}
		var s spanSpec
		switch {
		case named:
			s = requestSpan(r.id, run, r.from, r.to).under(parent)
			if r.failed {
				s = s.cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
			} else {
				s = s.answered(r.reason(), r.counts())
			}
		default:
			s = chatSpan(r.id, parent, r.from, r.to)
			if r.failed {
				s = s.failed("ECONNRESET")
			} else {
				s = s.finished(r.reason())
			}
		}
		if session != "" {
			s = s.session(session)
		}
		g.add(g.answered(s.in(service), r.id))
		requests = append(requests, r)
		if r.failed || last {
			continue
		}
		if g.maybe(0.7) {
			tool := callSpan(g.id(), parent, at+2, at+3.8, r.call).in(service)
			if named {
				tool = tool.with(semconv.RunID(spanID(run).String()))
			}
			if g.maybe(0.2) {
				tool = tool.failed("timeout")
			}
			g.add(tool)
			if depth == 0 && g.maybe(0.15) {
				g.nested = true
				g.agent(tool.id, service, at+2.1, 1, depth+1)
			}
		}
	}
	if depth == 0 && g.maybe(0.8) {
		g.gateway(requests, "gateway", 0.1)
	}
}

// answered is a request with the id of its response, if there are such ids.
func (g *tree) answered(s spanSpec, id byte) spanSpec {
	if g.responses {
		return s.response(fmt.Sprint("response ", id))
	}
	return s
}

// request is what a gateway knows of a request.
type request struct {
	id           byte
	service      string
	from, to     float64
	last, failed bool
	call         string
}

func (r request) reason() string {
	if r.last {
		return "stop"
	}
	return "tool_calls"
}

func (r request) counts() counts {
	if r.last {
		return answer
	}
	return counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{r.call}}
}

// gateway adds what a gateway records that serves these requests.
func (g *tree) gateway(requests []request, service string, in float64) {
	infers := g.maybe(0.8)
	run := byte(0)
	var served []request
	var before *request
	for i := range requests {
		r := &requests[i]
		from, to := r.from+in, r.to-in
		parent := r.id
		switch {
		case g.maybe(0.7):
			parent = g.add(httpClient(g.id(), parent, r.from, r.to).in(r.service))
		case g.broken:
			parent = g.id() // its span never comes
		}
		if infers && run == 0 {
			run = g.id()
			s := inferredSpan(run, parent, from, requests[len(requests)-1].to-in).in(service)
			s.attrs = slices.DeleteFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunRequestsKey })
			g.add(s.with(semconv.RunRequests(len(requests))))
			parent = run
		}
		s := requestSpan(g.id(), run, from, to).under(parent).in(service)
		s = g.answered(s, r.id)
		s.kind = ptrace.SpanKindServer
		if r.failed {
			s = s.cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
		} else {
			s = s.answered(r.reason(), r.counts())
		}
		if before != nil {
			s = s.history([]string{before.call}, []string{before.call})
		}
		g.add(s)
		served = append(served, request{s.id, service, from, to, r.last, r.failed, r.call})
		if before != nil && run != 0 {
			tool := callSpan(g.id(), run, before.to-in, from, before.call).in(service).with(
				semconv.RunID(spanID(run).String()), semconv.ToolObservedAttr(semconv.ToolObservedHistory),
				semconv.ToolEffectKey.String(semconv.ToolEffectUnknown.String()),
				semconv.ToolOutputDeliveryKey.String(semconv.OutputDeliverySent.String()),
			)
			g.add(tool)
		}
		if before = r; r.failed {
			before = nil
		}
	}
	if in < 0.3 && g.maybe(0.3) {
		g.gateway(served, service+" behind", in+0.1)
	}
}

// arrive lets the spans arrive in this many calls, with time between them, and returns
// what came out in the end. If disk is set, the process is killed once in between.
func arrive(t *testing.T, g *rand.Rand, cfg *Config, limits trace.Limits, spans []spanSpec, calls int, step time.Duration, disk *disk) *harness {
	t.Helper()
	start := func(next consumer.Traces, now time.Time) *harness {
		h := newHarness(t, cfg, next)
		h.Limits = limits
		h.clock.advance(now.Sub(t0))
		if disk != nil {
			h.openOn(t, disk)
		}
		return h
	}
	h := start(nil, t0)
	kill := -1
	if disk != nil {
		kill = g.IntN(calls)
	}
	for i := range calls {
		h.consume(t, spans[i*len(spans)/calls:(i+1)*len(spans)/calls]...)
		h.pass(t, step)
		if i == kill {
			sink := h.sink
			h = start(sink, h.clock.Now())
			h.sink = sink
		}
	}
	for range 4 {
		h.pass(t, cfg.MaxHold)
	}
	h.pass(t, cfg.RunTimeout)
	h.pass(t, cfg.RunTimeout)
	h.passStepwise(t, time.Second) // a trace may rest
	return h
}

// isLLMSpan reports whether a span is an LLM span.
func isLLMSpan(s spanSpec) bool {
	return slices.ContainsFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == otelsemconv.GenAIOperationNameKey })
}

func isInferred(s spanSpec) bool {
	return slices.ContainsFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunInferredKey })
}

// beneathLLM are the inferred runs with an LLM span above them, as far as parents lead.
func beneathLLM(spans []spanSpec) (ids []pcommon.SpanID) {
	of := map[byte]spanSpec{}
	for _, s := range spans {
		of[s.id] = s
	}
	for _, s := range spans {
		if !isInferred(s) {
			continue
		}
		for above, ok := of[s.parent]; ok; above, ok = of[above.parent] {
			if isLLMSpan(above) {
				ids = append(ids, spanID(s.id))
				break
			}
		}
	}
	return ids
}

// countsOf are how often each span came out.
func countsOf(td ptrace.Traces) map[pcommon.SpanID]int {
	n := map[pcommon.SpanID]int{}
	eachSpan(td, func(span ptrace.Span) {
		if span.Name() != semconv.SpanRunAbandoned {
			n[span.SpanID()]++
		}
	})
	return n
}

// runVerdicts are the verdicts on runs, by carrier.
func runVerdicts(td ptrace.Traces) map[pcommon.SpanID]verdict {
	of := map[pcommon.SpanID]verdict{}
	spans := spansOf(td)
	for _, id := range runsJudged(td) {
		v := verdictOf(spans[id])
		v.trigger, v.confidence = 0, 0 // which follow from the order
		of[id] = v
	}
	return of
}

func isGateways(s spanSpec) bool { return strings.HasPrefix(s.service, gatewayService) }

// asTheyEnd lets spans arrive when they end.
func asTheyEnd(t *testing.T, spans []spanSpec, stretch float64) ptrace.Traces {
	t.Helper()
	h := newHarness(t, defaultConfig(), nil)
	now := 0.
	for _, s := range spans {
		if d := (s.to - now) * stretch; d > 0 {
			h.pass(t, time.Duration(d*float64(time.Second)))
			now = s.to
		}
		h.consume(t, s)
	}
	for range 4 {
		h.pass(t, xMaxHold)
	}
	h.pass(t, xRunTimeout)
	h.pass(t, xRunTimeout)
	return h.out()
}

// llmFirst are the spans with an LLM span first: what comes before it is not known later.
func llmFirst(spans []spanSpec) []spanSpec {
	i := slices.IndexFunc(spans, isLLMSpan)
	list := slices.Clone(spans)
	return slices.Insert(slices.Delete(list, i, i+1), 0, spans[i])
}

func describe(spans []spanSpec) string {
	var out strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&out, "\n  %d<%d %s %s %.1f-%.1f", s.id, s.parent, s.name, s.service, s.from, s.to)
		for _, kv := range s.attrs {
			switch kv.Key {
			case semconv.RunIDKey, semconv.RunInferredKey, semconv.RunRequestsKey, otelsemconv.GenAIConversationIDKey, otelsemconv.GenAIResponseIDKey, otelsemconv.GenAIToolCallIDKey, otelsemconv.ErrorTypeKey:
				fmt.Fprintf(&out, " %s=%s", kv.Key, kv.Value.String())
			}
		}
	}
	return out.String()
}

// In whatever order and however late the spans of a trace arrive, each goes out once, and
// nothing stays. If all of them arrive within settle, the verdicts are those of one call,
// and no inferred run beneath an LLM span has one. With the spans of a gateway, the same
// runs are judged as without, no less carefully.
func TestGeneratedTrees(t *testing.T) {
	for seed := range uint64(40) {
		checkTree(t, seed)
	}
	for _, seed := range []uint64{89, 107, 149, 225, 227, 261, 265, 290, 441, 506, 570, 597, 857, 896} { // some have failed
		checkTree(t, seed)
	}
}

func checkTree(t *testing.T, seed uint64) {
	t.Helper()
	tr := makeTree(seed)
	g := tr.Rand
	message := func(what string, spans []spanSpec) string {
		return fmt.Sprintf("%s, seed %d:%s", what, seed, describe(spans))
	}
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		together := arrive(t, g, defaultConfig(), trace.Limits{}, tr.spans, 1, 0, nil)
		want := runVerdicts(together.out())
		for range 3 {
			spans := inOrder(tr.spans, g.Perm(len(tr.spans)))
			calls := 1 + g.IntN(len(spans))
			h := arrive(t, g, defaultConfig(), trace.Limits{}, spans, calls, xSettle/2/time.Duration(calls), nil)
			if !tr.broken {
				require.Equal(t, want, runVerdicts(h.out()), message("within settle", spans))
			}
			require.Empty(t, abandonedSpans(h.out()), message("abandoned", spans))
			for _, id := range beneathLLM(spans) {
				if tr.broken {
					break
				}
				require.NotContains(t, runsJudged(h.out()), id, message("beneath", spans))
			}
		}
		for _, stretch := range []float64{0, 1, 4, 20} { // as they end
			spans := inOrder(tr.spans, g.Perm(len(tr.spans)))
			slices.SortStableFunc(spans, func(a, b spanSpec) int { return cmp.Compare(a.to, b.to) })
			spans = llmFirst(spans)
			with := asTheyEnd(t, spans, stretch)
			without := asTheyEnd(t, slices.DeleteFunc(slices.Clone(spans), isGateways), stretch)
			mess := message(fmt.Sprint("as they end ", stretch), spans)
			require.Equal(t, len(spans), with.SpanCount()-len(abandonedSpans(with)), mess)
			if tr.broken || tr.nested {
				continue // spans are taken for parts of a run by their time
			}
			require.Len(t, abandonedSpans(with), len(abandonedSpans(without)), "abandoned %s", mess)
			got, base := runVerdicts(with), runVerdicts(without)
			for id, v := range got {
				before, ok := base[id]
				require.True(t, ok, "a run more: %v %s", id, mess)
				if before.safety != 0 && v.safety != 0 {
					require.GreaterOrEqual(t, v.safety, before.safety, "safety of %v: %v %v %s", id, before, v, mess)
				}
				require.Equal(t, before.outcome, v.outcome, "outcome %v %s %s %s %s, %s", id, before.outcome, before.words(), v.outcome, v.words(), mess)
			}
			require.Len(t, got, len(base), "a run less %s", mess)
		}
		for n := range 4 { // whatever happens
			cfg := defaultConfig()
			cfg.Shards = 1 + g.IntN(4)
			switch g.IntN(4) {
			case 0:
				cfg.MaxSpansPerRun = 1 + g.IntN(8)
			case 1:
				cfg.MaxHeldBytes = 1000 + g.IntN(20000)
			case 2:
				cfg.MaxFactBytes = 1000 + g.IntN(20000)
			}
			disk := newDisk()
			spans := inOrder(tr.spans, g.Perm(len(tr.spans)))
			twice := slices.Clone(spans)
			if g.IntN(3) == 0 {
				twice = append(twice, spans[:g.IntN(len(spans))]...)
			}
			calls := 1 + g.IntN(len(twice))
			step := []time.Duration{0, time.Second, 10 * time.Second, 5 * time.Minute, 2 * time.Hour}[g.IntN(5)]
			limits := trace.Limits{}
			if n == 3 {
				limits = tinyLimits(g)
			}
			h := arrive(t, g, cfg, limits, twice, calls, step, disk)
			held := h.Load()
			held.Evidence = 0 // of HTTP clients: it is forgotten when more comes
			require.Equal(t, telemetry.Load{}, held, message("load", twice))
			require.Empty(t, disk.entries(), message("disk", twice))
			times := map[pcommon.SpanID]int{}
			for _, s := range twice {
				times[spanID(s.id)]++
			}
			counts := countsOf(h.out())
			for id, n := range times { // spans of a stored call that had gone come again
				require.GreaterOrEqual(t, counts[id], n, message("each once at least", twice))
			}
			require.Len(t, counts, len(times), message("nothing else", twice))
		}
	})
}
