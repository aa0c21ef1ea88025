package release

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/judge"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// judgeAndStamp judges a release, with the runs within it, and writes the verdicts onto its spans. The result is valid
// until the next call.
func (r *Releaser) judgeAndStamp(release *trace.Release, trigger semconv.Trigger) judge.Diagnoses {
	now, j, history, setStatus := r.clock.Now(), &r.Judge, r.Buffer.History(), r.markStatus
	within := history.Within(release)
	history.SetDoubt(now, release)
	d := j.Diagnose(release, within)
	ended := release.Run != nil && (d.Run != nil || d.Unclaimed)
	if ended {
		history.Keep(now, release, d.Ended(within))
	}
	if release.Final && release.Run != nil && d.Run == nil {
		checkClients(j, release)
	}
	var around classify.Retry // the verdict on the run around it, if that was judged before and is corrected
	if release.Final && ended {
		around, d.Contradicts = history.LateRun(release, d.Effects)
	}
	for i := range release.Members {
		m := &release.Members[i]
		var corrected classify.Retry
		if trigger == semconv.TriggerLate {
			corrected, d.Contradicts = history.Late(now, release, m, d.Effects)
		}
		switch {
		case m.Foreign || !m.Out || !readable(m):
		case corrected.Safety != semconv.RetrySafetyUnset:
			stamp.Corrected(m.Span, d.Members[i], corrected, stamp.OwnRun, trigger)
		case d.Unclaimed && m.Item == release.Run && around.Safety != semconv.RetrySafetyUnset:
			stamp.Corrected(m.Span, d.Members[i], around, stamp.RunAround, trigger)
		case i == d.Carrier:
			stamped := stamp.Run(m.Span, d.Run, d.Members[i], trigger)
			if stamped && d.Run.Failed() && around.Safety == semconv.RetrySafetyUnset {
				plan := j.Plan()
				stamp.Plan(m.Span.Attributes(), d.Run, &plan)
			}
			if stamped && setStatus {
				stamp.Status(m.Span, d.Run, d.Members[i])
			}
			if stamped && around.Safety != semconv.RetrySafetyUnset {
				stamp.CorrectedAround(m.Span, failureOf(d.Run, d.Members[i]), around)
			}
		case release.Final && d.Run == nil && d.Members[i] == nil && !isPart(m, release): // it is alone, and nothing failed
		case d.Members[i] == nil && !m.Known.Judged && !stamp.Early(trigger): // nothing to write, and nothing to remove
		default:
			if stamp.Span(m.Span, d.Members[i], trigger) && setStatus {
				stamp.Status(m.Span, d.Members[i])
			}
		}
		if release.Final && m.Item == release.Run && m.Out && readable(m) {
			j.ModelNames(release).WriteModel(m.Span)
		}
	}
	return d
}

// failureOf returns the verdict that failed, the run's first; nil if neither did.
func failureOf(run, own *classify.Diagnosis) *classify.Diagnosis {
	if run.Failed() {
		return run
	}
	return own
}

// checkClients removes the client's verdict on the run of a release if the buffered parts of the run contradict it: a
// repetition is less safe than the verdict says.
func checkClients(j *judge.Judge, release *trace.Release) {
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != trace.Run || m.ID != release.RunID || !m.Out || !readable(m) || !verdictattr.OfClient(m.Span.Attributes()) {
			continue
		}
		given, _ := m.Span.Attributes().Get(string(semconv.RetrySafetyKey))
		if safety, ok := semconv.ParseRetrySafety(given.Str()); ok && safety < j.SeenOnly().Safety {
			verdictattr.Remove(m.Span.Attributes())
		}
	}
}

// isPart reports whether a member is the span of a run that is a part of another one. A verdict of its client is removed,
// even if the other run's stays.
func isPart(m *trace.Member, release *trace.Release) bool {
	return m.Role == trace.Run && m.ID != release.RunID
}

// readable reports whether the span of a member that is Out could be unpacked.
func readable(m *trace.Member) bool { return !m.Span.SpanID().IsEmpty() }
