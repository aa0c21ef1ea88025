// Package load makes the traces of agents at work: runs with tool calls, nested
// runs, several runs in a trace, long ones, runs whose end never comes, spans that
// come late, and spans of others among them. The same seed makes the same traces.
package load

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Role is what a span is to llm_classify.
type Role uint8

// The roles of spans.
const (
	Other   Role = iota // it passes
	Request             // a model call
	Tool
	Run
)

// Span is a span and when it is sent.
type Span struct {
	ptrace.Span
	Role Role
	// RunID is the run that the span is of: the id of its run span, or where none is
	// above it the id of its parent, which stands for it. Empty for others.
	RunID pcommon.SpanID
	// At is when the span is sent, from the first of its trace on.
	At time.Duration
	// Late: it is sent only after the verdict on its run has come out.
	Late bool
	// Service is the index of its resource in [Services].
	Service int
}

// Plan is what is known of a run beforehand.
type Plan struct {
	ID pcommon.SpanID
	// Ends: its run span is sent. Named: its spans name it, so that there is a run to
	// be judged even where its span never comes.
	Ends, Named bool
	// Announces: the run span says how many spans belong to the run.
	Announces bool
	// Outcome is the verdict of one that sees all of it.
	Outcome semconv.RunOutcome
	// Spans is how many model calls, tools and run spans it has, without late ones.
	Spans int
}

// Trace is the spans of a trace in the order in which they are sent.
type Trace struct {
	ID    pcommon.TraceID
	Shape string
	Runs  []Plan
	Spans []Span
}

// Pace says how long things take.
type Pace struct {
	// Turn is about how long a turn of an agent takes, a model call and its tools.
	Turn time.Duration
	// MaxHold is llm_classify's: long runs last for longer.
	MaxHold time.Duration
	// SpanLimit is llm_classify's max_spans_per_run: huge runs have more.
	SpanLimit int
}

// shape is a kind of trace.
type shape struct {
	name   string
	weight int // how many of a hundred traces
	make   func(*maker)
}

var shapes = []shape{
	{"agent", 28, func(m *maker) { m.agent(agent{}) }},
	{"nested", 14, func(m *maker) { m.agent(agent{nests: true}) }},
	{"several runs", 10, (*maker).several},
	{"long", 8, func(m *maker) { m.agent(agent{long: true}) }},
	{"no counts", 9, func(m *maker) { m.agent(agent{silent: true}) }},
	{"conventions only", 8, (*maker).conventions},
	{"no run span", 7, (*maker).lone},
	{"no end", 4, func(m *maker) { m.agent(agent{endless: true}) }},
	{"late", 5, func(m *maker) { m.agent(agent{late: true}) }},
	{"huge", 1, func(m *maker) { m.agent(agent{huge: true}) }},
	{"no model calls", 6, (*maker).others},
}

// Shapes are the names of the kinds of traces.
func Shapes() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

// New makes the trace of this seed and number.
func New(seed, number uint64, pace Pace) Trace {
	m := &maker{rng: rand.New(rand.NewPCG(seed, number)), pace: pace} //nolint:gosec // a load, no secret
	binary.BigEndian.PutUint64(m.trace.ID[:], m.rng.Uint64())
	binary.BigEndian.PutUint64(m.trace.ID[8:], number+1) // no two traces of a seed have the same id
	m.epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(number) * time.Millisecond)
	chosen := m.rng.IntN(100)
	for _, s := range shapes {
		if chosen -= s.weight; chosen < 0 {
			m.trace.Shape = s.name
			s.make(m)
			break
		}
	}
	slices.SortStableFunc(m.trace.Spans, func(a, b Span) int { return int(a.At - b.At) })
	return m.trace
}

// Service is a resource and scope that spans come from.
type Service struct{ Name, Scope, Version string }

// Services are all of them.
var Services = []Service{
	{"coder", "github.com/otelllm/otelllm-go/otelllm", "0.1.0"},
	{"frontend", "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "0.70.0"},
	{"researcher", "opentelemetry.instrumentation.openai_v2", "2.4b0"},
}

const (
	coder = iota
	frontend
	researcher
)

// Fill writes a service's resource and scope.
func (s Service) Fill(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) {
	rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.41.0")
	attrs := rs.Resource().Attributes()
	attrs.PutStr("service.name", s.Name)
	attrs.PutStr("service.version", "1.4.2")
	attrs.PutStr("telemetry.sdk.name", "opentelemetry")
	attrs.PutStr("deployment.environment.name", "soak")
	ss.Scope().SetName(s.Scope)
	ss.Scope().SetVersion(s.Version)
}
