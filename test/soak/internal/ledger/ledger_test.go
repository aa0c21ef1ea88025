package ledger

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

var (
	rules = Rules{MaxHold: time.Second, Settle: 300 * time.Millisecond, RunTimeout: 10 * time.Second, SpanLimit: 20, Again: 5 * time.Second}
	pace  = load.Pace{Turn: 100 * time.Millisecond, MaxHold: time.Second, SpanLimit: 20}
	t0    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// out is a span that a fake Collector exports.
type out struct {
	load.Span
	at      float64 // seconds from t0
	trigger semconv.Trigger
	outcome semconv.RunOutcome
	safe    bool
	risky   bool // of a run span: its run is
}

// fake is a Collector that accepts everything at once and behaves correctly, until a
// test changes its output.
type fake struct {
	books  *Ledger
	traces []load.Trace
	outs   []*out
	rules  Rules
}

// with changes the rules.
func with(f *fake, change func(*Rules)) { change(&f.rules) }

const numTraces = 60

// took plans and acknowledges a load, and holds the output of a correct Collector.
func took(t *testing.T) *fake {
	t.Helper()
	f := &fake{books: New(), rules: rules}
	for n := range uint64(numTraces) {
		tr := load.New(3, n, pace)
		f.traces = append(f.traces, tr)
		f.books.Plan(&tr)
		plans := make(map[pcommon.SpanID]load.Plan)
		for _, p := range tr.Runs {
			plans[p.ID] = p
			if p.Named && !p.Ends {
				f.outs = append(f.outs, abandoned(tr.ID, p.ID))
			}
		}
		last := make(map[pcommon.SpanID]pcommon.SpanID) // the last span of each run
		for _, s := range tr.Spans {
			last[s.RunID] = s.SpanID()
		}
		for _, s := range tr.Spans {
			keys, sent := []Key{{tr.ID, s.SpanID()}}, 0.
			if s.Late {
				sent = 3
			}
			f.books.Attempt(keys, at(sent))
			f.books.Answer(keys, Acknowledged, at(sent+0.1))
			f.outs = append(f.outs, honest(s, plans[s.RunID], sent, s.SpanID() == last[s.RunID]))
		}
	}
	return f
}

func honest(s load.Span, p load.Plan, sent float64, last bool) *out {
	o := &out{Span: s, at: sent + 0.2}
	switch {
	case s.Role == load.Other:
	case s.Late:
		o.trigger = semconv.TriggerLate
	case !p.Ends && p.Named:
		o.at, o.trigger = 1.2, semconv.TriggerHoldExpired
	case !p.Ends && !last:
		o.at, o.trigger = 1.2, semconv.TriggerHoldExpired
	case !p.Ends:
		o.at, o.trigger, o.outcome = 1.2, semconv.TriggerHoldExpired, p.Outcome
	case s.Role == load.Run && p.Announces:
		o.risky = p.Risky
		o.trigger, o.outcome = semconv.TriggerComplete, p.Outcome
	case s.Role == load.Run:
		o.trigger, o.outcome = semconv.TriggerRunEnded, p.Outcome
	}
	return o
}

func abandoned(trace pcommon.TraceID, run pcommon.SpanID) *out {
	s := ptrace.NewSpan()
	s.SetTraceID(trace)
	s.SetSpanID(pcommon.SpanID{0xff, 1: run[1], 2: run[2], 3: run[3], 7: run[7]})
	s.SetParentSpanID(run)
	s.SetName(semconv.SpanRunAbandoned)
	return &out{Span: load.Span{Span: s}, at: 11.5, trigger: semconv.TriggerRunExpired, outcome: semconv.RunOutcomeIncomplete}
}

// give delivers everything to the ledger, ordered by time.
func (f *fake) give() {
	slices.SortStableFunc(f.outs, func(a, b *out) int { return cmp.Compare(a.at, b.at) })
	for _, o := range f.outs {
		if o.at == never {
			continue
		}
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		ss := rs.ScopeSpans().AppendEmpty()
		load.Services[o.Service].Fill(rs, ss)
		s := ss.Spans().AppendEmpty()
		o.CopyTo(s)
		s.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool { return verdicts[key] }) // the client's verdict is replaced
		if o.trigger != semconv.TriggerUnset {
			s.Attributes().PutStr(string(semconv.ClassificationTriggerKey), o.trigger.String())
		}
		if o.outcome != semconv.RunOutcomeUnset {
			s.Attributes().PutStr(string(semconv.RunOutcomeKey), o.outcome.String())
		}
		if o.safe {
			s.Attributes().PutStr(string(semconv.RetrySafetyKey), semconv.RetrySafetySafeAutoRetry.String())
		}
		f.books.Deliver(td, at(o.at))
	}
}

// never is a time after the end, for spans that are not exported.
const never = 1000.

// first returns the first span for which like returns true.
func (f *fake) first(t *testing.T, like func(*out) bool) *out {
	t.Helper()
	for _, o := range f.outs {
		if like(o) {
			return o
		}
	}
	t.Fatal("the load has no such span")
	return nil
}

// prompt returns the span of a run that announced all of its spans, none of which is late.
func (f *fake) prompt(t *testing.T) *out {
	t.Helper()
	return f.first(t, func(o *out) bool {
		return role(load.Run)(o) && o.trigger == semconv.TriggerComplete &&
			!slices.ContainsFunc(f.outs, func(s *out) bool { return s.Late && s.RunID == o.SpanID() })
	})
}

func role(r load.Role) func(*out) bool {
	return func(o *out) bool { return o.Role == r && o.Name() != semconv.SpanRunAbandoned && !o.Late }
}

func (f *fake) drop(o *out) { o.at = never }

func (f *fake) again(o *out, at float64) *out {
	c := *o
	c.at = at
	f.outs = append(f.outs, &c)
	return &c
}

func TestHonest(t *testing.T) {
	f := took(t)
	assert.False(t, f.books.Settled(rules))
	f.give()
	assert.True(t, f.books.Settled(rules))
	figures, problems := f.books.Check(rules)
	assert.Empty(t, problems)
	spans, runs := 0, 0
	for _, tr := range f.traces {
		spans, runs = spans+len(tr.Spans), runs+len(tr.Runs)
	}
	assert.Equal(t, spans, figures.Sent)
	assert.Equal(t, spans, figures.Acknowledged)
	assert.Equal(t, spans, figures.Delivered)
	assert.Zero(t, figures.Duplicates)
	assert.Equal(t, numTraces, figures.Traces)
	assert.Equal(t, runs, figures.Runs)
	judged := 0
	for _, n := range figures.Verdicts {
		judged += n
	}
	assert.Equal(t, runs, judged, "every run has its verdict")
	for _, trigger := range []semconv.Trigger{semconv.TriggerComplete, semconv.TriggerRunEnded, semconv.TriggerRunExpired} {
		assert.Positive(t, figures.Verdicts[trigger], trigger.String())
	}
	again, problems := f.books.Check(rules)
	assert.Equal(t, figures, again)
	assert.Empty(t, problems)
}

// Each fault of the Collector is found, and reported with its ids.
func TestFaultsAreFound(t *testing.T) {
	announced := func(o *out) bool { return role(load.Run)(o) && o.trigger == semconv.TriggerComplete }
	for name, tt := range map[string]struct {
		lie  func(*testing.T, *fake) *out // returns the span with the problem
		what string
		says string
	}{
		"a model call is lost": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, role(load.Request))
			f.drop(o)
			return o
		}, Lost, "model call"},
		"another span is lost": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, role(load.Other))
			f.drop(o)
			return o
		}, Lost, "span of a"},
		"a run span is lost": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, announced)
			f.drop(o)
			return o
		}, Lost, "run span"},
		"a tool comes twice": {func(t *testing.T, f *fake) *out {
			t.Helper()
			return f.again(f.first(t, role(load.Tool)), 1.5)
		}, Doubled, "came out 2 times"},
		"another span comes twice": {func(t *testing.T, f *fake) *out {
			t.Helper()
			return f.again(f.first(t, role(load.Other)), 1.5)
		}, Doubled, "came out 2 times"},
		"it was exported twice, and the kill was before it was sent": {func(t *testing.T, f *fake) *out {
			t.Helper()
			f.books.Killed(at(-5))
			return f.again(f.first(t, role(load.Tool)), 1.5)
		}, Doubled, "no kill since"},
		"it was exported twice after a stop": {func(t *testing.T, f *fake) *out {
			t.Helper()
			f.books.Stopped(at(0.8), at(1))
			return f.again(f.first(t, role(load.Tool)), 1.5)
		}, Doubled, "no kill since"},
		"it was exported long before the kill, and again": {func(t *testing.T, f *fake) *out {
			t.Helper()
			f.books.Killed(at(8))
			return f.again(f.first(t, role(load.Other)), 9)
		}, Doubled, "had been out for 7.8s"},
		"an attribute is changed": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, role(load.Request))
			o.Attributes().PutStr("server.address", "elsewhere")
			return o
		}, Altered, "differs from"},
		"an attribute is added": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, role(load.Other))
			o.Attributes().PutStr("soak.more", "x")
			return o
		}, Altered, "differs from"},
		"the resource is another": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, role(load.Request))
			o.Service = (o.Service + 1) % len(load.Services)
			return o
		}, Altered, "differs from"},
		"a span is made up": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.again(f.first(t, role(load.Other)), 1)
			s := ptrace.NewSpan()
			o.CopyTo(s)
			s.SetSpanID(pcommon.SpanID{1, 2, 3})
			o.Span.Span = s
			return o
		}, Invented, "never sent"},
		"a run has no verdict": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, announced)
			o.trigger, o.outcome = semconv.TriggerUnset, semconv.RunOutcomeUnset
			return o
		}, NotJudged, "no verdict"},
		"a run without an end has no verdict": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, func(o *out) bool { return o.trigger == semconv.TriggerRunExpired })
			f.drop(o)
			return nil
		}, NotJudged, "no verdict"},
		"a run is judged twice, on another span": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, announced)
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
			return o
		}, JudgedTwice, "2 verdicts"},
		"a run is judged twice, on a model call": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, announced)
			call := f.first(t, func(c *out) bool { return role(load.Request)(c) && c.RunID == o.SpanID() })
			call.outcome, call.trigger = semconv.RunOutcomeSucceeded, semconv.TriggerComplete
			return o
		}, JudgedTwice, "2 verdicts"},
		"a run is judged wrongly": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, func(o *out) bool { return announced(o) && o.outcome == semconv.RunOutcomeRecovered })
			o.outcome = semconv.RunOutcomeSucceeded
			return o
		}, WrongVerdict, `is "succeeded", want "recovered"`},
		"a run that changed something is safe": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, func(o *out) bool { return announced(o) && o.risky })
			o.safe = true
			return o
		}, LessCareful, "safe to repeat"},
		"a model call that showed text is safe": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, func(o *out) bool { return o.Shown })
			o.safe = true
			return o
		}, LessCareful, "text was shown"},
		"a late span is not marked": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, func(o *out) bool { return o.Late })
			o.at, o.trigger = 4.5, semconv.TriggerHoldExpired
			return o
		}, LateNotMarked, "hold_expired"},
		"a run is judged twice, and was noted before the kill": {func(t *testing.T, f *fake) *out {
			t.Helper()
			with(f, func(r *Rules) { r.Storage, r.Noted = true, time.Second })
			o := f.prompt(t)
			f.books.Killed(at(1.5))
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
			return o
		}, JudgedTwice, "2 verdicts"},
		"a run is judged twice, and came out after the kill": {func(t *testing.T, f *fake) *out {
			t.Helper()
			with(f, func(r *Rules) { r.Storage, r.Queued, r.Noted = true, true, time.Second })
			o := f.prompt(t)
			o.at = 2
			f.books.Killed(at(0.5))
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
			return o
		}, JudgedTwice, "2 verdicts"},
		"judged again, and the kill was long after the disk was full": {judgedAgainWhenFull(0.1, 1, 2.5), JudgedTwice, "2 verdicts"},
		"judged again, and the disk was full long after the verdict":  {judgedAgainWhenFull(1.5, 9, 5), JudgedTwice, "2 verdicts"},
		"judged again, and the disk was full before the verdict":      {judgedAgainWhenFull(-3, 0.1, 1.5), JudgedTwice, "2 verdicts"},
		"judged again, and the process with a full disk was killed before": {func(t *testing.T, f *fake) *out {
			t.Helper()
			f.books.Killed(at(-1)) // its successor had room
			return judgedAgainWhenFull(-2, 9, 2)(t, f)
		}, JudgedTwice, "2 verdicts"},
		"a verdict that could not be recorded is less careful": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := judgedAgainWhenFull(0.1, 9, 2)(t, f)
			for _, c := range f.outs {
				if c.Role == load.Run && c.risky {
					c.safe = true
					return c
				}
			}
			return o
		}, LessCareful, "safe to repeat"},
		"a span is lost while the disk is full": {func(t *testing.T, f *fake) *out {
			t.Helper()
			f.books.Full(at(-1), at(9))
			o := f.first(t, role(load.Request))
			f.drop(o)
			return o
		}, Lost, "model call"},
		"room was enough":            {mark(load.Tool, semconv.TriggerMemory), WrongTrigger, "enough room"},
		"it was not held":            {mark(load.Tool, semconv.TriggerHoldExpired), WrongTrigger, "after the first of its run"},
		"it was not stopped":         {mark(load.Tool, semconv.TriggerShutdown), WrongTrigger, "not stopped"},
		"the client's verdict stays": {mark(load.Request, semconv.TriggerClient), WrongTrigger, "no span may have"},
		"a run that is not large":    {mark(load.Tool, semconv.TriggerSpanLimit), WrongTrigger, "its run has"},
		"another span is judged":     {mark(load.Other, semconv.TriggerLate), WrongTrigger, "must not be judged"},
		"a run that announced all ended without": {func(t *testing.T, f *fake) *out {
			t.Helper()
			o := f.first(t, announced)
			o.trigger = semconv.TriggerRunEnded
			return o
		}, WrongTrigger, "announced everything"},
	} {
		t.Run(name, func(t *testing.T) {
			f := took(t)
			about := tt.lie(t, f)
			f.give()
			_, problems := f.books.Check(f.rules)
			require.NotEmpty(t, problems)
			found := false
			for _, p := range problems {
				if p.What != tt.what || !strings.Contains(p.Why, tt.says) {
					continue
				}
				found = about == nil || p.Key == Key{about.TraceID(), about.SpanID()}
				if found {
					text := p.String()
					assert.Contains(t, text, p.Key.Trace.String())
					assert.Contains(t, text, p.Key.Span.String())
					var story strings.Builder
					f.books.Tell(&story, p.Key.Trace, t0)
					assert.Contains(t, story.String(), p.Key.Span.String())
					break
				}
			}
			assert.True(t, found, "%v", problems)
		})
	}
}

// mark sets the trigger of a span.
func mark(r load.Role, trigger semconv.Trigger) func(*testing.T, *fake) *out {
	return func(t *testing.T, f *fake) *out {
		t.Helper()
		o := f.first(t, func(o *out) bool { return role(r)(o) && o.trigger == semconv.TriggerUnset })
		o.trigger = trigger
		return o
	}
}

func TestNeverTaken(t *testing.T) {
	for name, answer := range map[string]Answer{"refused for good": Rejected, "refused for now, for ever": Refused, "without an answer": Unanswered} {
		t.Run(name, func(t *testing.T) {
			books := New()
			tr := load.New(3, 1, pace)
			books.Plan(&tr)
			keys := []Key{{tr.ID, tr.Spans[0].SpanID()}}
			books.Attempt(keys, at(0))
			books.Answer(keys, answer, at(1))
			_, problems := books.Check(rules)
			require.Len(t, problems, 1)
			assert.Equal(t, NeverTaken, problems[0].What)
			assert.Equal(t, keys[0], problems[0].Key)
		})
	}
}

// judgedAgainWhenFull lets a run be judged again after a kill. Its verdict was exported at 0.2, and
// the disk was full between two times.
func judgedAgainWhenFull(from, to, killed float64) func(*testing.T, *fake) *out {
	return func(t *testing.T, f *fake) *out {
		t.Helper()
		with(f, func(r *Rules) { r.Storage, r.Noted = true, time.Second })
		o := f.prompt(t)
		f.books.Full(at(from), at(to))
		f.books.Killed(at(killed))
		f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
		return o
	}
}

// Events that the rules allow are not problems, and are counted.
func TestAllowances(t *testing.T) {
	announced := func(o *out) bool { return role(load.Run)(o) && o.trigger == semconv.TriggerComplete }
	for name, tt := range map[string]struct {
		happens func(*testing.T, *fake)
		check   func(*testing.T, Figures)
		rules   func(*Rules)
	}{
		"twice over a kill": {func(t *testing.T, f *fake) {
			t.Helper()
			f.books.Killed(at(1))
			f.again(f.first(t, role(load.Other)), 2)
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Duplicates)
			assert.Equal(t, 1, f.Kills)
			assert.Equal(t, 800*time.Millisecond, f.Oldest)
		}, func(r *Rules) { r.Storage = true }},
		"twice because an answer was lost": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.again(f.first(t, role(load.Other)), 2)
			keys := []Key{{o.TraceID(), o.SpanID()}}
			f.books.Attempt(keys, at(0.1))
			f.books.Answer(keys, Unanswered, at(0.2))
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Unanswered)
		}, nil},
		"sent again and refused before": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, role(load.Other))
			keys := []Key{{o.TraceID(), o.SpanID()}}
			f.books.Attempt(keys, at(0.1))
			f.books.Answer(keys, Refused, at(0.2))
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Refused)
		}, nil},
		"early for want of memory": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, role(load.Tool))
			o.trigger = semconv.TriggerMemory
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Marks[semconv.TriggerMemory])
		}, func(r *Rules) { r.Bounded = true }},
		"judged incomplete for want of memory": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, announced)
			o.trigger, o.outcome = semconv.TriggerMemory, semconv.RunOutcomeIncomplete
			for _, c := range f.outs {
				if c.RunID == o.SpanID() && c != o {
					c.trigger = semconv.TriggerLate
				}
			}
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Verdicts[semconv.TriggerMemory])
		}, func(r *Rules) { r.Bounded = true }},
		"judged again after a stop": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, announced)
			call := f.first(t, func(c *out) bool { return role(load.Request)(c) && c.RunID == o.SpanID() })
			f.books.Stopped(at(0.05), at(0.08)) // in the middle of every run
			call.at, call.trigger = 1.2, semconv.TriggerHoldExpired
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Again)
			assert.Equal(t, f.Runs, f.Split)
			assert.Equal(t, 1, f.Stops)
			assert.Equal(t, f.Runs, f.Unnoted+f.Slow)
		}, nil},
		"judged again after a kill that came before the note": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, announced)
			f.books.Killed(at(0.6))
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Again)
			assert.Equal(t, 1, f.Kills)
			assert.Positive(t, f.Unnoted)
		}, func(r *Rules) { r.Storage, r.Noted = true, time.Second }},
		"judged again after a kill with a full disk": {func(t *testing.T, f *fake) {
			t.Helper()
			judgedAgainWhenFull(0.1, 9, 2)(t, f)
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Again)
			assert.Positive(t, f.Unnoted)
		}, func(r *Rules) { r.Storage, r.Noted = true, time.Second }},
		"judged again after a kill just after the disk was full": {func(t *testing.T, f *fake) {
			t.Helper()
			judgedAgainWhenFull(1, 2, 2.5)(t, f)
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Again)
		}, func(r *Rules) { r.Storage, r.Noted = true, time.Second }},
		"judged again after a kill, from the queue": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, announced)
			o.at = 2
			call := f.first(t, func(c *out) bool { return role(load.Request)(c) && c.RunID == o.SpanID() })
			f.books.Killed(at(0.25))
			f.again(call, 2)
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Equal(t, 1, f.Again)
		}, func(r *Rules) { r.Storage, r.Queued, r.Noted = true, true, time.Second }},
		"its span came when it had been given up": {func(t *testing.T, f *fake) {
			t.Helper()
			o := f.first(t, announced)
			f.outs = append(f.outs, abandoned(o.TraceID(), o.SpanID()))
			o.at, o.trigger, o.outcome = 12, semconv.TriggerLate, semconv.RunOutcomeUnset
			for _, c := range f.outs {
				if c.RunID == o.SpanID() && c != o && c.Name() != semconv.SpanRunAbandoned {
					c.at, c.trigger = 1.2, semconv.TriggerHoldExpired
				}
			}
		}, func(t *testing.T, f Figures) {
			t.Helper()
			assert.Zero(t, f.Again)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := took(t)
			tt.happens(t, f)
			f.give()
			with := rules
			if tt.rules != nil {
				tt.rules(&with)
			}
			figures, problems := f.books.Check(with)
			assert.Empty(t, problems)
			tt.check(t, figures)
		})
	}
}

func TestJudged(t *testing.T) {
	f := took(t)
	o := f.first(t, func(o *out) bool { return role(load.Run)(o) })
	judged := f.books.Judged(Key{o.TraceID(), o.SpanID()})
	select {
	case <-judged:
		t.Fatal("nothing has come out")
	default:
	}
	f.give()
	<-judged
}

// A run that announces no counts may be safe to repeat if what makes it unsafe was sent for
// the first time when llm_classify did not wait for it any more.
func TestSentTooLateToCount(t *testing.T) {
	var tr load.Trace
	for n := uint64(0); tr.Shape != "no counts" || !tr.Runs[0].Risky || tr.Runs[0].Outcome != semconv.RunOutcomeFailed; n++ {
		tr = load.New(3, n, pace)
	}
	for name, tt := range map[string]struct {
		sent, answered float64
		first          Answer // at answered
		unseen         bool
	}{
		"sent in time":              {0.1, 0.2, Acknowledged, false},
		"refused in time":           {0.1, 0.2, Refused, false},
		"sent too late":             {0.4, 0.5, Acknowledged, true},
		"refused too late":          {0.4, 0.5, Refused, true},
		"on its way at the verdict": {0.2, 0.4, Acknowledged, true},
	} {
		t.Run(name, func(t *testing.T) {
			books := New()
			books.Plan(&tr)
			for _, s := range tr.Spans {
				keys := []Key{{tr.ID, s.SpanID()}}
				o := honest(s, tr.Runs[0], 1, false)
				if !s.Risky {
					books.Attempt(keys, at(0))
					books.Answer(keys, Acknowledged, at(0.05))
				} else {
					books.Attempt(keys, at(tt.sent))
					books.Answer(keys, tt.first, at(tt.answered))
					if tt.first != Acknowledged {
						books.Attempt(keys, at(0.6))
						books.Answer(keys, Acknowledged, at(0.7))
					}
				}
				o.safe = s.Role == load.Run
				f := fake{books: books, outs: []*out{o}}
				f.give()
			}
			figures, problems := books.Check(rules)
			if tt.unseen {
				assert.Empty(t, problems)
				assert.Equal(t, 1, figures.Unseen)
				return
			}
			require.Len(t, problems, 1)
			assert.Equal(t, LessCareful, problems[0].What)
			assert.Zero(t, figures.Unseen)
		})
	}
}
