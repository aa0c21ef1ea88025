package property

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

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// tree is a trace made at random: an agent, the gateways that serve its requests, and
// what they infer.
type tree struct {
	*rand.Rand
	spans []harness.Span
	last  byte

	broken    bool // spans are missing
	nested    bool // a tool is an agent
	responses bool // requests have the ids of their responses
}

func (g *tree) maybe(p float64) bool { return g.Float64() < p }

func (g *tree) id() byte { g.last++; return g.last }

func (g *tree) add(s harness.Span) byte { g.spans = append(g.spans, s); return s.ID }

// makeTree makes a trace with a declared run, an inferred one, or only a handler above
// the requests.
func makeTree(seed uint64) *tree {
	g := &tree{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.broken, g.responses = g.maybe(0.4), g.maybe(0.7)
	root := byte(0)
	if g.maybe(0.3) {
		root = g.add(harness.OtherSpan(g.id(), 0, 0, 50))
	}
	g.agent(root, harness.AgentService, 0, 2+g.IntN(3), 0)
	return g
}

// agent adds an agent that makes n requests, beneath the span parent.
func (g *tree) agent(parent byte, service string, from float64, n, depth int) {
	end := from + float64(n)*4
	run, named := parent, false
	switch g.IntN(5) {
	case 0, 1:
		run = g.add(harness.AgentSpan(g.id(), parent, from, end).In(service))
	case 2:
		run, named = g.id(), true
		s := harness.InferredSpan(run, parent, from, end).In(service)
		s.Attrs = slices.DeleteFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunRequestsKey })
		g.add(s.With(semconv.RunRequests(n)))
	case 3:
		if run = parent; parent == 0 {
			run = g.add(harness.OtherSpan(g.id(), 0, from, end).In(service))
		}
	case 4:
		run, named = g.id(), true
		s := harness.RunSpan(run, from, end, n, 0).Under(parent).In(service)
		s.Attrs = slices.DeleteFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunToolsKey })
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
			parent = g.add(harness.OtherSpan(g.id(), run, at, at+3.9).In(service))
		}
		var s harness.Span
		switch {
		case named:
			s = harness.RequestSpan(r.id, run, r.from, r.to).Under(parent)
			if r.failed {
				s = s.Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2})
			} else {
				s = s.Answered(r.reason(), r.counts())
			}
		default:
			s = harness.ChatSpan(r.id, parent, r.from, r.to)
			if r.failed {
				s = s.Failed("ECONNRESET")
			} else {
				s = s.Finished(r.reason())
			}
		}
		if session != "" {
			s = s.Session(session)
		}
		g.add(g.answered(s.In(service), r.id))
		requests = append(requests, r)
		if r.failed || last {
			continue
		}
		if g.maybe(0.7) {
			tool := harness.CallSpan(g.id(), parent, at+2, at+3.8, r.call).In(service)
			if named {
				tool = tool.With(semconv.RunID(harness.SpanID(run).String()))
			}
			if g.maybe(0.2) {
				tool = tool.Failed("timeout")
			}
			g.add(tool)
			if depth == 0 && g.maybe(0.15) {
				g.nested = true
				g.agent(tool.ID, service, at+2.1, 1, depth+1)
			}
		}
	}
	if depth == 0 && g.maybe(0.8) {
		g.gateway(requests, "gateway", 0.1)
	}
}

// answered is a request with the id of its response, if there are such ids.
func (g *tree) answered(s harness.Span, id byte) harness.Span {
	if g.responses {
		return s.Response(fmt.Sprint("response ", id))
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

func (r request) counts() harness.Counts {
	if r.last {
		return harness.Answer
	}
	return harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{r.call}}
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
			parent = g.add(harness.HTTPClient(g.id(), parent, r.from, r.to).In(r.service))
		case g.broken:
			parent = g.id() // its span never comes
		}
		if infers && run == 0 {
			run = g.id()
			s := harness.InferredSpan(run, parent, from, requests[len(requests)-1].to-in).In(service)
			s.Attrs = slices.DeleteFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunRequestsKey })
			g.add(s.With(semconv.RunRequests(len(requests))))
			parent = run
		}
		s := harness.RequestSpan(g.id(), run, from, to).Under(parent).In(service)
		s = g.answered(s, r.id)
		s.Kind = ptrace.SpanKindServer
		if r.failed {
			s = s.Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2})
		} else {
			s = s.Answered(r.reason(), r.counts())
		}
		if before != nil {
			s = s.History([]string{before.call}, []string{before.call})
		}
		g.add(s)
		served = append(served, request{s.ID, service, from, to, r.last, r.failed, r.call})
		if before != nil && run != 0 {
			tool := harness.CallSpan(g.id(), run, before.to-in, from, before.call).In(service).With(
				semconv.RunID(harness.SpanID(run).String()), semconv.ToolObservedAttr(semconv.ToolObservedHistory),
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
func arrive(t *testing.T, g *rand.Rand, cfg *llmclassify.Config, limits trace.Limits, spans []harness.Span, calls int, step time.Duration, disk *harness.Disk) *harness.Harness {
	t.Helper()
	start := func(next consumer.Traces, now time.Time) *harness.Harness {
		h := harness.New(t, cfg, next)
		h.Limits = limits
		h.Clock.Advance(now.Sub(harness.T0))
		if disk != nil {
			h.OpenOn(t, disk)
		}
		return h
	}
	h := start(nil, harness.T0)
	kill := -1
	if disk != nil {
		kill = g.IntN(calls)
	}
	for i := range calls {
		h.Consume(t, spans[i*len(spans)/calls:(i+1)*len(spans)/calls]...)
		h.Pass(t, step)
		if i == kill {
			sink := h.Sink
			h = start(sink, h.Clock.Now())
			h.Sink = sink
		}
	}
	for range 4 {
		h.Pass(t, cfg.MaxHold)
	}
	h.Pass(t, cfg.RunTimeout)
	h.Pass(t, cfg.RunTimeout)
	h.PassStepwise(t, time.Second) // a trace may rest
	return h
}

// isLLMSpan reports whether a span is an LLM span.
func isLLMSpan(s harness.Span) bool {
	return slices.ContainsFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == otelsemconv.GenAIOperationNameKey })
}

func isInferred(s harness.Span) bool {
	return slices.ContainsFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == semconv.RunInferredKey })
}

// beneathLLM are the inferred runs with an LLM span above them, as far as parents lead.
func beneathLLM(spans []harness.Span) (ids []pcommon.SpanID) {
	of := map[byte]harness.Span{}
	for _, s := range spans {
		of[s.ID] = s
	}
	for _, s := range spans {
		if !isInferred(s) {
			continue
		}
		for above, ok := of[s.Parent]; ok; above, ok = of[above.Parent] {
			if isLLMSpan(above) {
				ids = append(ids, harness.SpanID(s.ID))
				break
			}
		}
	}
	return ids
}

// countsOf are how often each span came out.
func countsOf(td ptrace.Traces) map[pcommon.SpanID]int {
	n := map[pcommon.SpanID]int{}
	harness.EachSpan(td, func(span ptrace.Span) {
		if span.Name() != semconv.SpanRunAbandoned {
			n[span.SpanID()]++
		}
	})
	return n
}

// runVerdicts are the verdicts on runs, by carrier.
func runVerdicts(td ptrace.Traces) map[pcommon.SpanID]harness.Verdict {
	of := map[pcommon.SpanID]harness.Verdict{}
	spans := harness.SpansOf(td)
	for _, id := range harness.RunsJudged(td) {
		v := harness.VerdictOf(spans[id])
		v.Trigger, v.Confidence = 0, 0 // which follow from the order
		of[id] = v
	}
	return of
}

func isGateways(s harness.Span) bool { return strings.HasPrefix(s.Service, harness.GatewayService) }

// asTheyEnd lets spans arrive when they end.
func asTheyEnd(t *testing.T, spans []harness.Span, stretch float64) ptrace.Traces {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	now := 0.
	for _, s := range spans {
		if d := (s.To - now) * stretch; d > 0 {
			h.Pass(t, time.Duration(d*float64(time.Second)))
			now = s.To
		}
		h.Consume(t, s)
	}
	for range 4 {
		h.Pass(t, harness.MaxHold)
	}
	h.Pass(t, harness.RunTimeout)
	h.Pass(t, harness.RunTimeout)
	return h.Out()
}

// llmFirst are the spans with an LLM span first: what comes before it is not known later.
func llmFirst(spans []harness.Span) []harness.Span {
	i := slices.IndexFunc(spans, isLLMSpan)
	list := slices.Clone(spans)
	return slices.Insert(slices.Delete(list, i, i+1), 0, spans[i])
}

func describe(spans []harness.Span) string {
	var out strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&out, "\n  %d<%d %s %s %.1f-%.1f", s.ID, s.Parent, s.Name, s.Service, s.From, s.To)
		for _, kv := range s.Attrs {
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
	for seed := range uint64(40 / sample.Every(8)) {
		checkTree(t, seed)
	}
	for i, seed := range []uint64{89, 107, 149, 225, 227, 261, 265, 290, 441, 506, 570, 597, 857, 896} { // some have failed
		if i%sample.Every(4) == 0 {
			checkTree(t, seed)
		}
	}
}

func checkTree(t *testing.T, seed uint64) {
	t.Helper()
	tr := makeTree(seed)
	g := tr.Rand
	message := func(what string, spans []harness.Span) string {
		return fmt.Sprintf("%s, seed %d:%s", what, seed, describe(spans))
	}
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		together := arrive(t, g, harness.DefaultConfig(), trace.Limits{}, tr.spans, 1, 0, nil)
		want := runVerdicts(together.Out())
		for range 3 {
			spans := harness.InOrder(tr.spans, g.Perm(len(tr.spans)))
			calls := 1 + g.IntN(len(spans))
			h := arrive(t, g, harness.DefaultConfig(), trace.Limits{}, spans, calls, harness.Settle/2/time.Duration(calls), nil)
			if !tr.broken {
				require.Equal(t, want, runVerdicts(h.Out()), message("within settle", spans))
			}
			require.Empty(t, harness.AbandonedSpans(h.Out()), message("abandoned", spans))
			for _, id := range beneathLLM(spans) {
				if tr.broken {
					break
				}
				require.NotContains(t, harness.RunsJudged(h.Out()), id, message("beneath", spans))
			}
		}
		for _, stretch := range []float64{0, 1, 4, 20} { // as they end
			spans := harness.InOrder(tr.spans, g.Perm(len(tr.spans)))
			slices.SortStableFunc(spans, func(a, b harness.Span) int { return cmp.Compare(a.To, b.To) })
			spans = llmFirst(spans)
			with := asTheyEnd(t, spans, stretch)
			without := asTheyEnd(t, slices.DeleteFunc(slices.Clone(spans), isGateways), stretch)
			mess := message(fmt.Sprint("as they end ", stretch), spans)
			require.Equal(t, len(spans), with.SpanCount()-len(harness.AbandonedSpans(with)), mess)
			if tr.broken || tr.nested {
				continue // spans are taken for parts of a run by their time
			}
			require.Len(t, harness.AbandonedSpans(with), len(harness.AbandonedSpans(without)), "abandoned %s", mess)
			got, base := runVerdicts(with), runVerdicts(without)
			for id, v := range got {
				before, ok := base[id]
				require.True(t, ok, "a run more: %v %s", id, mess)
				if before.Safety != 0 && v.Safety != 0 {
					require.GreaterOrEqual(t, v.Safety, before.Safety, "safety of %v: %v %v %s", id, before, v, mess)
				}
				require.Equal(t, before.Outcome, v.Outcome, "outcome %v %s %s %s %s, %s", id, before.Outcome, before.Words(), v.Outcome, v.Words(), mess)
			}
			require.Len(t, got, len(base), "a run less %s", mess)
		}
		for n := range 4 { // whatever happens
			cfg := harness.DefaultConfig()
			cfg.Shards = 1 + g.IntN(4)
			switch g.IntN(4) {
			case 0:
				cfg.MaxSpansPerRun = 1 + g.IntN(8)
			case 1:
				cfg.MaxHeldBytes = 1000 + g.IntN(20000)
			case 2:
				cfg.MaxFactBytes = 1000 + g.IntN(20000)
			}
			disk := harness.NewDisk()
			spans := harness.InOrder(tr.spans, g.Perm(len(tr.spans)))
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
			require.Empty(t, disk.Entries(), message("disk", twice))
			times := map[pcommon.SpanID]int{}
			for _, s := range twice {
				times[harness.SpanID(s.ID)]++
			}
			counts := countsOf(h.Out())
			for id, n := range times { // spans of a stored call that had gone come again
				require.GreaterOrEqual(t, counts[id], n, message("each once at least", twice))
			}
			require.Len(t, counts, len(times), message("nothing else", twice))
		}
	})
}
