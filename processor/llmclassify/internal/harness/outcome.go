package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Outcome has the judgements of each span, one for each time that the span came out.
type Outcome map[SpanKey][]Judgement

// Judgement is the verdict of a span as text, by attribute.
type Judgement map[string]string

// OutcomeOf reads the judgements of the spans of td.
func OutcomeOf(td ptrace.Traces) Outcome {
	o := Outcome{}
	EachSpan(td, func(span ptrace.Span) {
		s := Judgement{}
		for key, v := range span.Attributes().All() {
			if isVerdict(key) {
				s[key] = v.AsString()
			}
		}
		if span.Name() == semconv.SpanRunAbandoned {
			s["name"] = span.Name()
		}
		key := SpanKey{span.TraceID(), span.SpanID()}
		o[key] = append(o[key], s)
	})
	return o
}

func isVerdict(key string) bool {
	for _, prefix := range []string{"llm.failure.", "llm.retry.safety", "llm.retry.reason", "llm.classification.", "llm.run.outcome", "llm.run.timeline", "llm.run.recovered", "llm.history.missing"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// Fullest is the judgement with the most attributes, of a span that came out several times.
func Fullest(list []Judgement) Judgement {
	return slices.MaxFunc(list, func(a, b Judgement) int { return cmp.Compare(len(a), len(b)) })
}

// abandoned reports whether it is of a span that was added, for a run that never ended.
func (s Judgement) abandoned() bool { return s["name"] == semconv.SpanRunAbandoned }

func (s Judgement) trigger() string { return s[string(semconv.ClassificationTriggerKey)] }

// differences are the differences from the wanted outcome, in words.
func (o Outcome) differences(want Outcome) (list []string) {
	for _, key := range sortedKeys(want, o) {
		w, got := want[key], o[key]
		if len(w) == 0 || len(got) == 0 {
			list = append(list, fmt.Sprintf("%s came out %d times, not %d", key.ID, len(got), len(w)))
			continue
		}
		a, b := Fullest(w), Fullest(got)
		for _, attr := range sortedAttrs(a, b) {
			if a[attr] != b[attr] {
				list = append(list, fmt.Sprintf("%s %s: %q, not %q", key.ID, attr, b[attr], a[attr]))
			}
		}
	}
	return list
}

// sameTriggers reports whether everything was judged for the same reason as is wanted.
func (o Outcome) sameTriggers(want Outcome) bool {
	for key := range o {
		if Fullest(o[key]).abandoned() {
			return false
		}
	}
	for key := range want {
		if len(o[key]) == 0 || Fullest(o[key]).trigger() != Fullest(want[key]).trigger() || Fullest(want[key]).abandoned() {
			return false
		}
	}
	return true
}

// Carelessness are the spans with a judgement that is less careful than the wanted one.
// A run that lacks its root may take another one's spans for its own where the order has
// an influence: success is then not compared.
func (o Outcome) Carelessness(want Outcome, excused map[pcommon.TraceID]bool, whole map[SpanKey]semconv.RetrySafety) (list []string) {
	for _, key := range sortedKeys(want, o) {
		w, got := want[key], o[key]
		if len(w) == 0 || len(got) == 0 {
			if len(w) != 0 && !Fullest(w).abandoned() {
				list = append(list, fmt.Sprintf("%s came out %d times, not %d", key.ID, len(got), len(w)))
			}
			continue
		}
		a := Fullest(w)
		for _, b := range got {
			if what := careless(a, b, excused[key.Trace], whole[key]); what != "" && !o.saidLate(key, a, b) {
				list = append(list, fmt.Sprintf("%s %s: %v, not %v", key.ID, what, b.words(), a.words()))
			}
		}
	}
	return list
}

// saidLate reports whether a run, which memory did not suffice to hold, was judged before one
// of its parts arrived, and that part says why a repetition is less safe. A person is to
// be asked before the run is repeated, and finds it there.
func (o Outcome) saidLate(run SpanKey, want, got Judgement) bool {
	safety := string(semconv.RetrySafetyKey)
	if got.trigger() != semconv.TriggerMemory.String() || got[string(semconv.RunOutcomeKey)] == "" ||
		got[safety] != semconv.RetrySafetyUserConfirmedRetry.String() {
		return false
	}
	for key, list := range o {
		if key.Trace == run.Trace && slices.ContainsFunc(list, func(s Judgement) bool {
			return s.trigger() == semconv.TriggerLate.String() && s[safety] == want[safety]
		}) {
			return true
		}
	}
	return false
}

// careless says why one Judgement is less careful than the whole trace allows, "" if it is
// not. Less is known of spans that go early: then a person is to be asked. That is less
// careful than no_retry only if it is said of the same failure.
//
// Two kinds of spans are judged without spans that may come later: a request without a parent or
// beneath such a one, where the other is not here, and a request that broke within the input
// of a call and has waited for max_trace. A tool that runs all the same, and whose span comes
// after that, is not known then.
//
// A run that did not fail has no such verdict: the effects of all its parts count.
func careless(want, got Judgement, excused bool, whole semconv.RetrySafety) string {
	wanted, _ := semconv.ParseRetrySafety(want[string(semconv.RetrySafetyKey)])
	is, _ := semconv.ParseRetrySafety(got[string(semconv.RetrySafetyKey)])
	outcome, before := got[string(semconv.RunOutcomeKey)], want[string(semconv.RunOutcomeKey)]
	well := func(outcome string) bool {
		return outcome == semconv.RunOutcomeSucceeded.String() || outcome == semconv.RunOutcomeRecovered.String()
	}
	same := want[string(semconv.FailureClassKey)] == got[string(semconv.FailureClassKey)] &&
		want[string(semconv.FailureCauseKey)] == got[string(semconv.FailureCauseKey)]
	waited := got.trigger() == semconv.TriggerHoldExpired.String() && outcome == "" &&
		got[string(semconv.RetryReasonKey)] == semconv.RetryReasonIncompleteToolInput.String()
	alone := same && outcome == "" && want.trigger() == semconv.TriggerComplete.String() &&
		want[string(semconv.RetryReasonKey)] == semconv.RetryReasonEvidenceIncomplete.String()
	switch {
	case alone && is != semconv.RetrySafetySafeAutoRetry:
	case waited && is != semconv.RetrySafetySafeAutoRetry:
	case is == semconv.RetrySafetySafeAutoRetry && (wanted > is || wanted == semconv.RetrySafetyUnset && before != "" && whole > is):
		return "is safe"
	case same && is < wanted && is != semconv.RetrySafetyUnset:
		return "is less careful"
	case !excused && well(outcome) && before != "" && !well(before):
		return "is a success"
	}
	return ""
}

func (s Judgement) words() string {
	var list []string
	for _, key := range []string{
		string(semconv.ClassificationTriggerKey), string(semconv.RunOutcomeKey), string(semconv.FailureClassKey),
		string(semconv.FailureCauseKey), string(semconv.RetrySafetyKey), string(semconv.RetryReasonKey),
	} {
		if s[key] != "" {
			list = append(list, s[key])
		}
	}
	return strings.Join(list, " ")
}

func sortedKeys(a, b Outcome) []SpanKey {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), func(a, b SpanKey) int {
		return cmp.Or(slices.Compare(a.Trace[:], b.Trace[:]), slices.Compare(a.ID[:], b.ID[:]))
	})
}

func sortedAttrs(a, b Judgement) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Expect compares the judgements of each trace with the wanted ones. Where spans went for another
// reason, a judgement may be more careful.
func (o Outcome) Expect(want Outcome, excused map[pcommon.TraceID]bool, whole map[SpanKey]semconv.RetrySafety) (wrong []string, strict, careful int) {
	for trace := range want.Traces() {
		got, wanted := o.of(trace), want.of(trace)
		if !excused[trace] && got.sameTriggers(wanted) {
			wrong = append(wrong, got.differences(wanted)...)
			strict++
		} else {
			wrong = append(wrong, got.Carelessness(wanted, excused, whole)...)
			careful++
		}
	}
	return wrong, strict, careful
}

// Traces are the traces of the spans.
func (o Outcome) Traces() map[pcommon.TraceID]bool {
	ids := map[pcommon.TraceID]bool{}
	for key := range o {
		ids[key.Trace] = true
	}
	return ids
}

func (o Outcome) of(trace pcommon.TraceID) Outcome {
	of := maps.Clone(o)
	maps.DeleteFunc(of, func(key SpanKey, _ []Judgement) bool { return key.Trace != trace })
	return of
}
