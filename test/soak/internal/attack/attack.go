// Package attack generates what a producer may send, by mistake or on purpose, that costs
// others more than it should: huge attributes, very large traces, runs without end, many
// names, forged verdicts and broken requests. Each is little traffic. All of its traces
// have ids with a common prefix, so that they are judged apart.
package attack

import (
	"context"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
)

// Way is one way to attack.
type Way struct {
	Name string
	// Row is the row of the table of bounds that it belongs to.
	Row string
	// Tenant ways are bounded only where llm_classify knows tenants.
	Tenant bool

	portion func(*Attacker, context.Context)
}

// Ways returns all ways.
func Ways() []Way { return ways }

// Attacker sends portions of spans to a Collector.
type Attacker struct {
	// Send sends spans once.
	Send func(context.Context, ptrace.Traces) (ledger.Answer, error)
	// URL is of OTLP over HTTP, for requests that are broken.
	URL string

	client http.Client
	number uint64          // of ids
	open   pcommon.TraceID // the trace of ways that stay in one
	calls  uint64

	// mu guards everything declared below
	mu     sync.Mutex
	counts Counts
	// late are the traces of runs that deny a tool which comes later, sent since the Collector
	// was killed last, and whether their run is out as safe to repeat.
	late map[pcommon.TraceID]bool
}

// Counts are what became of the attackers' spans.
type Counts struct {
	Acknowledged int // spans
	Refused      int // spans
	Unanswered   int // spans
	Out          int // spans that were exported, added ones and copies included
	// Broken is the number of requests that are no OTLP, and BrokenTaken how many of them
	// had an answer that accepts them.
	Broken, BrokenTaken int

	// Forged is the number of verdicts of the attacker's that were exported, Suppressed of
	// failures that came out without a verdict because the attacker wrote an empty one,
	// Contradicted of runs that are safe to repeat although a tool ran that their manifest
	// denies, and Uncorrected of such tools that came after the verdict and do not say so. The
	// Collector corrects no verdict of before a kill.
	Forged, Suppressed, Contradicted, Uncorrected int
}

// Sub returns the difference of counts.
func (c Counts) Sub(o Counts) Counts {
	return Counts{
		Acknowledged: c.Acknowledged - o.Acknowledged, Refused: c.Refused - o.Refused, Unanswered: c.Unanswered - o.Unanswered,
		Out: c.Out - o.Out, Broken: c.Broken - o.Broken, BrokenTaken: c.BrokenTaken - o.BrokenTaken,
		Forged: c.Forged - o.Forged, Suppressed: c.Suppressed - o.Suppressed, Contradicted: c.Contradicted - o.Contradicted,
		Uncorrected: c.Uncorrected - o.Uncorrected,
	}
}

// every is how often a portion is sent.
const every = 250 * time.Millisecond

// timeout is the timeout of a call.
const timeout = 20 * time.Second

// Run attacks in one way until ctx ends. One call is under way at a time.
func (a *Attacker) Run(ctx context.Context, w Way) {
	a.next()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.portion(a, ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Counts returns the counts so far.
func (a *Attacker) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Killed notes that the Collector was killed, and has not started again.
func (a *Attacker) Killed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.late)
}

// expectLate expects a tool that its run denies.
func (a *Attacker) expectLate(trace pcommon.TraceID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.late == nil {
		a.late = make(map[pcommon.TraceID]bool)
	}
	a.late[trace] = false
}

func (a *Attacker) count(change func(*Counts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.counts)
}

// send sends spans once. The attackers do not send again what is refused.
func (a *Attacker) send(ctx context.Context, td ptrace.Traces) {
	a.calls++
	spans := td.SpanCount()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, _ := a.Send(ctx, td) // the answer says what counts
	a.count(func(c *Counts) {
		switch answer {
		case ledger.Acknowledged:
			c.Acknowledged += spans
		case ledger.Unanswered:
			c.Unanswered += spans
		default:
			c.Refused += spans
		}
	})
}

// prefix is what the ids of all traces of attackers begin with.
var prefix = [4]byte{0xa7, 0x7a, 0xcc, 0xe5}

// next begins a new trace.
func (a *Attacker) next() pcommon.TraceID {
	a.number++
	copy(a.open[:], prefix[:])
	binary.BigEndian.PutUint64(a.open[4:], a.number*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint32(a.open[12:], uint32(a.number)) //nolint:gosec // wraps after 2³² traces
	return a.open
}

func (a *Attacker) id() (id pcommon.SpanID) {
	a.number++
	binary.BigEndian.PutUint64(id[:], a.number*0x9e3779b97f4a7c15|1)
	return id
}

// Divert takes the attackers' spans out of td, and judges them.
func (a *Attacker) Divert(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool {
				if id := s.TraceID(); [4]byte(id[:4]) != prefix {
					return false
				}
				a.judge(s)
				return true
			})
		}
	}
}

// Names of spans by which an attacker's verdicts are known.
const (
	forged       = "forged"
	suppressed   = "suppressed"
	contradicted = "contradicted"
	contradicts  = "contradicts"
	denies       = "denies"
	forgedText   = "written by an attacker"
)

func (a *Attacker) judge(s ptrace.Span) {
	text := func(key string) string {
		if v, ok := s.Attributes().Get(key); ok {
			return v.AsString()
		}
		return ""
	}
	safe := text(string(semconv.RetrySafetyKey)) == semconv.RetrySafetySafeAutoRetry.String()
	a.count(func(c *Counts) {
		c.Out++
		switch s.Name() {
		case forged:
			if text(string(semconv.FailureSummaryKey)) == forgedText {
				c.Forged++
			}
		case suppressed:
			if text(string(semconv.FailureClassKey)) == "" {
				c.Suppressed++
			}
		case contradicted:
			if safe {
				c.Contradicted++
			}
		case contradicts:
			if a.late[s.TraceID()] && (safe || text(string(semconv.RetrySafetyKey)) == "") {
				c.Uncorrected++
			}
			delete(a.late, s.TraceID())
		case denies:
			if _, ok := a.late[s.TraceID()]; ok {
				a.late[s.TraceID()] = safe
			}
		}
	})
}
