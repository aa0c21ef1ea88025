package dialect

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// shape is a span of a producer's own form.
type shape struct {
	scope   string
	name    string
	kind    ptrace.SpanKind
	status  ptrace.StatusCode
	message string // of the status
	attrs   map[string]any
	events  []event

	backwards bool          // the attributes in their opposite order
	lasted    time.Duration // 0: from start to end
}

// event is a span event; an exception where it has no name.
type event struct {
	name, class, message string
	attrs                map[string]any // of one with a name
}

const (
	statusUnset = ptrace.StatusCodeUnset
	statusOK    = ptrace.StatusCodeOk
	statusError = ptrace.StatusCodeError
)

func (s shape) span(tb testing.TB) ptrace.Span {
	tb.Helper()
	span := ptrace.NewSpan()
	span.SetTraceID(pcommon.TraceID{15: 1})
	span.SetSpanID(pcommon.SpanID{7: 1})
	span.SetName(s.name)
	span.SetKind(s.kind)
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
	if s.lasted > 0 {
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(s.lasted)))
	}
	span.Status().SetCode(s.status)
	span.Status().SetMessage(s.message)
	keys := slices.Sorted(maps.Keys(s.attrs))
	if s.backwards {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		require.NoError(tb, span.Attributes().PutEmpty(key).FromRaw(s.attrs[key]))
	}
	for _, e := range s.events {
		ev := span.Events().AppendEmpty()
		ev.SetTimestamp(pcommon.NewTimestampFromTime(end))
		if e.name != "" {
			ev.SetName(e.name)
			require.NoError(tb, ev.Attributes().FromRaw(e.attrs))
			continue
		}
		ev.SetName("exception")
		if e.class != "" {
			ev.Attributes().PutStr("exception.type", e.class)
		}
		if e.message != "" {
			ev.Attributes().PutStr("exception.message", e.message)
		}
		ev.Attributes().PutStr("exception.stacktrace", canary)
	}
	return span
}

// canary stands where prompts, outputs and messages stand.
const canary = "CANARY a secret that must not be copied"

// read recognises the span under its scope, and reads it.
func (s shape) read(tb testing.TB) (Head, Dialect, Facts) {
	tb.Helper()
	span := s.span(tb)
	head, d := Default().In(s.scope).Recognise(span)
	if d == nil {
		return head, nil, Facts{}
	}
	r := Reading{Dialect: d}
	return head, d, r.Facts(span, head.Kind)
}

// truth is what had really happened: one of the things that such a span stands for.
type truth struct {
	class  semconv.Class
	origin semconv.Origin
	safety semconv.RetrySafety // the least that was right
}

// What may have happened, with the retry that it allowed where text had been
// streamed, or where nothing is known of it.
var (
	success  = truth{}
	cut      = truth{semconv.ClassStreamInterrupted, semconv.OriginTransport, confirm}
	unsent   = truth{semconv.ClassConnectionFailed, semconv.OriginTransport, auto}
	badHost  = truth{semconv.ClassConnectionFailed, semconv.OriginTransport, never}
	early    = truth{semconv.ClassStreamInterrupted, semconv.OriginTransport, auto} // before any output
	stopped  = truth{semconv.ClassLocalAbort, semconv.OriginLocal, never}
	deadline = truth{semconv.ClassLocalAbort, semconv.OriginLocal, confirm}
	timer    = truth{semconv.ClassWatchdogTimeout, semconv.OriginWatchdog, confirm}
	passing  = truth{semconv.ClassProviderError, semconv.OriginProvider, auto}
	inBand   = truth{semconv.ClassProviderError, semconv.OriginProvider, confirm}
	refusal  = truth{semconv.ClassProviderError, semconv.OriginProvider, never}
	limited  = truth{semconv.ClassOutputLimited, semconv.OriginProvider, never}
	garbled  = truth{semconv.ClassProtocolViolation, semconv.OriginProvider, confirm}
	vacant   = truth{semconv.ClassEmptyCompletion, semconv.OriginProvider, auto}
)

const (
	auto    = classify.SafeAutoRetry
	confirm = classify.UserConfirmedRetry
	never   = classify.NoRetry
)

// verdict is what is expected of a request.
type verdict struct {
	class      semconv.Class
	cause      semconv.Cause
	confidence semconv.Confidence
	safety     semconv.RetrySafety
}

var (
	// unknown: nothing is said of the request; a run that ends on it is unclassified.
	unknown = verdict{}
	// well: the request came to its end.
	well         = verdict{safety: auto}
	unclassified = verdict{semconv.ClassUnclassified, semconv.CauseUnknown, semconv.ConfidenceLow, confirm}
)

func interrupted(c semconv.Cause, confidence semconv.Confidence) verdict {
	return verdict{semconv.ClassStreamInterrupted, c, confidence, confirm}
}

func unconnected(c semconv.Cause, safety semconv.RetrySafety) verdict {
	return verdict{semconv.ClassConnectionFailed, c, semconv.ConfidenceMedium, safety}
}

func aborted(c semconv.Cause, confidence semconv.Confidence) verdict {
	safety := never
	if c == semconv.CauseDeadline {
		safety = confirm
	}
	return verdict{semconv.ClassLocalAbort, c, confidence, safety}
}

func ofProvider(c semconv.Cause, safety semconv.RetrySafety) verdict {
	return verdict{semconv.ClassProviderError, c, semconv.ConfidenceMedium, safety}
}

const (
	low    = semconv.ConfidenceLow
	medium = semconv.ConfidenceMedium
)

// requestCase is a request's span, what it stands for, and what becomes of it.
type requestCase struct {
	name string
	shape
	truths []truth // each of them gives a span of this very shape
	want   verdict
	facts  classify.Request // without times; Phase is unknown where it is unset
}

// checkRequests asserts the facts and the verdict of each, and that the verdict is
// wrong for none of the things that the span stands for.
func checkRequests(t *testing.T, by Dialect, cases []requestCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			head, d, facts := c.read(t)
			require.Equal(t, Request, head.Kind)
			require.Equal(t, by.Name(), d.Name())
			want := c.facts
			want.Start, want.End = start, end
			want.Error = facts.Request.Error // see TestErrorOf
			if want.Phase == semconv.PhaseUnset {
				want.Phase = semconv.PhaseUnknown
			}
			if want.MaxTokens == 0 { // most spans have one, and few cases are about it
				want.MaxTokens = facts.Request.MaxTokens
			}
			assert.Equal(t, &want, facts.Request)
			checkVerdict(t, facts.Request, c.want, c.truths)

			c.backwards = true
			_, _, facts = c.read(t)
			assert.ElementsMatch(t, want.CallIDs, facts.Request.CallIDs)
			facts.Request.CallIDs = want.CallIDs
			assert.Equal(t, &want, facts.Request, "the order of attributes says nothing")
		})
	}
}

func checkVerdict(t *testing.T, r *classify.Request, want verdict, truths []truth) {
	t.Helper()
	// A run that says nothing of how it went leaves it to the request.
	v := classify.Judge(&classify.Run{Start: start, End: end, Ended: classify.Yes, Requests: []classify.Request{*r}})
	got := v.Requests[0]
	switch want {
	case unknown:
		assert.Equal(t, semconv.ClassUnset, got.Class)
		assert.Equal(t, semconv.ClassUnclassified, v.Run.Class, "nothing is known, so that nothing is claimed")
	case well:
		assert.Equal(t, semconv.ClassUnset, got.Class)
		outcome := semconv.RunOutcomeSucceeded
		switch {
		case r.Finish == classify.FinishToolCalls:
			outcome = semconv.RunOutcomeIncomplete // the run that stops here
		case r.FailedBefore > 0:
			outcome = semconv.RunOutcomeRecovered
		}
		assert.Equal(t, outcome, v.Run.Outcome)
	default:
		assert.Equal(t, want, verdict{got.Class, got.Cause, got.Confidence, got.Retry.Safety}, got.Summary)
	}
	assert.NotContains(t, fmt.Sprint(v), "CANARY")
	require.NotEmpty(t, truths)
	for _, really := range truths {
		checkTruth(t, &v, really)
	}
}

// checkTruth: the verdict is not wrong. It may be cautious: then it names no class,
// and asks a person.
func checkTruth(t *testing.T, v *classify.Verdicts, really truth) {
	t.Helper()
	got, run := &v.Requests[0], &v.Run
	if really == success {
		assert.Contains(t, []semconv.Class{semconv.ClassUnset, semconv.ClassUnclassified}, got.Class, "it went well")
		return
	}
	assert.NotEqual(t, semconv.RunOutcomeSucceeded, run.Outcome, "it did not go well")
	if got.Class == semconv.ClassUnset || got.Class == semconv.ClassUnclassified {
		assert.GreaterOrEqual(t, run.Retry.Safety, min(really.safety, confirm))
		return
	}
	assert.Equal(t, really.class, got.Class)
	assert.Equal(t, really.origin, got.Origin)
	assert.GreaterOrEqual(t, got.Retry.Safety, really.safety)
	assert.GreaterOrEqual(t, run.Retry.Safety, really.safety)
}

// Facts that many cases share.
func failedWith(more classify.Request) classify.Request {
	more.Failed = classify.Yes
	return more
}

func transport(c semconv.TransportCause, code string) classify.Request {
	return classify.Request{Basis: classify.Typed, Failed: classify.Yes, Transport: classify.Transport{Cause: c, Code: code}}
}

func answered(f classify.Finish) classify.Request {
	return classify.Request{Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Basis: classify.Typed, Finish: f}
}

// emptied is an answer that came to its end with nothing in it.
func emptied(f classify.Finish, basis classify.Basis) classify.Request {
	r := answered(f)
	r.Basis = basis
	none := classify.Counted(0)
	r.Text, r.Reasoning, r.ToolInputsStarted, r.ToolInputsCompleted, r.ToolCalls, r.ProviderToolsStarted = none, none, none, none, none, none
	return r
}

func refusedBy(status int, kind semconv.ProviderErrorKind, code string) classify.Request {
	return classify.Request{
		Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndHTTPError, Basis: classify.Typed, Failed: classify.Yes,
		Status: status, Provider: classify.ProviderError{Kind: kind, Code: code},
	}
}

func said(kind semconv.ProviderErrorKind, code string) classify.Request {
	return classify.Request{Basis: classify.Typed, Failed: classify.Yes, Provider: classify.ProviderError{Kind: kind, Code: code}}
}
