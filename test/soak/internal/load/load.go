// Package load generates the traces of working agents: runs with tool calls, nested
// runs, several runs in a trace, long ones, runs that never end, spans that arrive
// late, and unrelated spans among them. The same seed generates the same traces.
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

// Role is how llm_classify treats a span.
type Role uint8

// The roles of spans.
const (
	Other   Role = iota // passed on
	Request             // a model call
	Tool
	Run
)

// Span is a span and the time at which it is sent.
type Span struct {
	ptrace.Span
	Role Role
	// RunID is the id of the run that the span belongs to: the id of its run span or,
	// without a run span above it, the id of its parent, which represents the run.
	// Empty for other spans.
	RunID pcommon.SpanID
	// At is when the span is sent, relative to the first one of its trace.
	At time.Duration
	// Shown: the model's text had been shown when the connection broke, so that it is not
	// safe to send the request again.
	Shown bool
	// Risky: because of this span it is not safe to repeat its run.
	Risky bool
	// Late spans are sent only after the verdict on their run has been exported.
	Late bool
	// Service is the index of its resource in [Services].
	Service int
}

// Plan is what is known of a run in advance.
type Plan struct {
	ID pcommon.SpanID
	// Ends: the run span is sent. Named: the run's spans name it, so that there is a
	// run to judge even if its span is never sent.
	Ends, Named bool
	// Announces: the run span has the number of spans that belong to the run.
	Announces bool
	// Outcome is the verdict on the complete run.
	Outcome semconv.RunOutcome
	// Risky: text was shown, or a tool changed something, so that it is not safe to repeat
	// the run.
	Risky bool
	// Spans is the number of its model calls, tools and run spans, without late ones.
	Spans int
}

// Trace holds the spans of a trace in the order in which they are sent.
type Trace struct {
	ID    pcommon.TraceID
	Shape string
	Runs  []Plan
	Spans []Span
}

// Pace sets the durations of a load.
type Pace struct {
	// Turn is the approximate duration of an agent's turn: a model call and its tools.
	Turn time.Duration
	// MaxHold is llm_classify's max_hold: long runs last longer.
	MaxHold time.Duration
	// SpanLimit is llm_classify's max_spans_per_run: huge runs have more.
	SpanLimit int
}

// shape is a kind of trace.
type shape struct {
	name   string
	weight int // number per hundred traces
	make   func(*maker)
}

var shapes = []shape{
	{"agent", 28, func(m *maker) { m.agent(agent{}) }},
	{"nested", 14, func(m *maker) { m.agent(agent{nests: true}) }},
	{"several runs", 10, (*maker).several},
	{"long", 8, func(m *maker) { m.agent(agent{long: true}) }},
	{"no counts", 9, func(m *maker) { m.agent(agent{silent: true}) }},
	{"conventions only", 8, (*maker).conventions},
	{"no run span", 7, (*maker).unnamed},
	{"no end", 4, func(m *maker) { m.agent(agent{endless: true}) }},
	{"late", 5, func(m *maker) { m.agent(agent{late: true}) }},
	{"huge", 1, func(m *maker) { m.agent(agent{huge: true}) }},
	{"no model calls", 6, (*maker).others},
}

// Shapes returns the names of the kinds of traces.
func Shapes() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

// New returns the trace with this seed and number.
func New(seed, number uint64, pace Pace) Trace {
	m := &maker{rng: rand.New(rand.NewPCG(seed, number)), pace: pace} //nolint:gosec // a test load is not secret
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

// Service is a resource and scope of spans.
type Service struct{ Name, Scope, Version string }

// Services lists all services.
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

// Fill sets a service's resource and scope.
func (s Service) Fill(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) {
	rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.41.0")
	attrs := rs.Resource().Attributes()
	attrs.PutStr("service.name", s.Name)
	attrs.PutStr("service.namespace", "agents")
	attrs.PutStr("service.version", "1.4.2")
	attrs.PutStr("telemetry.sdk.name", "opentelemetry")
	attrs.PutStr("deployment.environment.name", "soak")
	ss.Scope().SetName(s.Scope)
	ss.Scope().SetVersion(s.Version)
}
