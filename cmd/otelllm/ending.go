package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/child"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// ending is how the command of `otelllm run` ended, which the model calls alone do not show.
type ending struct {
	child.Ended

	name  string // of the command, for people
	agent bool   // it is an agent that is known, which executes every call that it gets
}

// endingOf returns how a command ended, which may be a known agent.
func endingOf(args []string, agent string, ended child.Ended) *ending {
	return &ending{Ended: ended, name: filepath.Base(args[0]), agent: agent != agents.Generic}
}

// grace is how long before the end of its process a client's connections may close.
const grace = time.Second

// crashed reports whether the command failed, and was not told to end.
func (e *ending) crashed() bool { return e.Code != 0 && !e.Deliberate() }

// ofWaiting returns by what the runs ended that waited for the outputs of their tools; unset if that is not known. A
// command that exits by itself, and a program that succeeds, may have wanted the calls alone.
func (e *ending) ofWaiting() semconv.RunEnd {
	switch {
	case e.Deliberate() && (e.agent || e.Code != 0):
		return semconv.RunEndShutdown
	case e.Signal != 0:
		return semconv.RunEndProcessDied
	default:
		return semconv.RunEndUnset
	}
}

// openAtEnd reports whether a model call ended because its client did.
func (e *ending) openAtEnd(r *report.Record) bool {
	return text(r, semconv.FailureClassKey) == semconv.ClassLocalAbort.String() && r.End.After(e.At.Add(-grace))
}

// stopped reports whether a model call or a run ended because the command was made to end. A run that waited for its tools
// ends with its last model call, which may be long ago.
func (e *ending) stopped(r *report.Record) bool {
	return e.Deliberate() && text(r, semconv.FailureClassKey) == semconv.ClassLocalAbort.String() &&
		(text(r, semconv.FailureCauseKey) == semconv.CauseShutdown.String() || r.End.After(e.Stopped().Add(-grace)))
}

// correct returns the records, corrected by the end of the command: a client that crashed or was killed cancelled nothing,
// and a redirect without a later request is no answer.
func (e *ending) correct(records []report.Record) []report.Record {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		switch {
		case e.crashed() && e.openAtEnd(r):
			why := "The agent's process " + e.how() + " while " + answering(r) + ". It did not cancel the request. Look at what was done before running it again."
			amend(r, semconv.RunOutcomeIncomplete, semconv.ClassRunAbandoned, semconv.CauseProcessDied, semconv.OriginUnknown, why)
			r.Requests = slices.Clone(r.Requests)
			for k := range r.Requests {
				if q := &r.Requests[k]; e.openAtEnd(q) { // the end of the client is the only known fact about the request
					amend(q, semconv.RunOutcomeUnset, semconv.ClassLocalAbort, semconv.CauseConsumerClosed, semconv.OriginLocal, why)
				}
			}
		case e.Code != 0 && r.Unfollowed():
			amend(r, semconv.RunOutcomeUnset, semconv.ClassProviderError, semconv.CauseUnknown, semconv.OriginGateway,
				fmt.Sprintf("Something in front of the model provider answered with a redirect (HTTP %d), and no answer from a model came after it: a sign-in may be missing.", r.Number(otelsemconv.HTTPResponseStatusCodeKey)))
		}
	}
	return records
}

// amend replaces the verdict of a record, and drops the evidence of the old one.
func amend(r *report.Record, outcome semconv.RunOutcome, class semconv.Class, cause semconv.Cause, origin semconv.Origin, summary string) {
	r.Attributes = maps.Clone(r.Attributes) // which others read
	for key, value := range map[string]fmt.Stringer{
		string(semconv.FailureClassKey): class, string(semconv.FailureCauseKey): cause, string(semconv.FailureOriginKey): origin,
		string(semconv.FailureConfidenceKey): semconv.ConfidenceMedium, string(semconv.RetrySafetyKey): semconv.RetrySafetyUserConfirmedRetry,
		string(semconv.RetryReasonKey): semconv.RetryReasonEvidenceIncomplete,
	} {
		r.Attributes[key] = value.String()
	}
	r.Attributes[string(semconv.FailureSummaryKey)] = summary
	if r.Kind == report.RecordRun {
		r.Attributes[string(semconv.RunOutcomeKey)] = outcome.String()
	}
	for _, key := range []string{string(semconv.FailureSummaryKeyKey), string(semconv.FailureEvidenceKey), string(semconv.FailureMissingEvidenceKey)} {
		delete(r.Attributes, key)
	}
}

// answering says that the model was answering.
func answering(r *report.Record) string {
	if model := text(r, otelsemconv.GenAIRequestModelKey); model != "" {
		return report.Printable(model) + " was answering"
	}
	return "the model was answering"
}

// how says in a few words how the command ended, if it failed.
func (e *ending) how() string {
	if e.Signal != 0 {
		return fmt.Sprintf("was killed by signal %d", e.Signal)
	}
	return fmt.Sprintf("exited %d", e.Code)
}

// words say how the command ended; "" if there is nothing to say. AllWell: every model call was answered.
func (e *ending) words(records []report.Record, allWell bool) string {
	name := report.Printable(e.name)
	switch {
	case !e.Interrupted.IsZero():
		return "you pressed Ctrl-C" + e.doing(records, e.Interrupted)
	case e.Deliberate() && (e.Code != 0 || !allWell):
		return name + " was told to end" + e.doing(records, e.Told)
	case e.Signal != 0:
		return name + " " + e.how() + e.doing(records, e.At)
	case e.Code != 0 && allWell:
		return name + " " + e.how() + " although every model call was answered"
	case e.Code != 0:
		words := name + " " + e.how()
		if tools := calledLast(lastOf(records)); tools != "" {
			words += " and sent no output of " + tools + ", which may have run"
		}
		return words
	default:
		return ""
	}
}

// lastOf returns the model call that ended last; nil without one.
func lastOf(records []report.Record) (last *report.Record) {
	for i := range records {
		for _, r := range requestsOf(&records[i]) {
			if last == nil || r.End.After(last.End) {
				last = r
			}
		}
	}
	return last
}

// calledLast names the tools that an answer asked for; "" for none.
func calledLast(r *report.Record) string {
	if r == nil {
		return ""
	}
	return strings.Join(names(r.Attributes[string(semconv.StreamToolCallNamesKey)]), " or ")
}

// doing names the activity at a moment: an answer, or tools that it had asked for.
func (e *ending) doing(records []report.Record, at time.Time) string {
	last := lastOf(records)
	switch tools := calledLast(last); {
	case last == nil:
		return ""
	case (e.openAtEnd(last) || e.stopped(last)) && last.End.After(at.Add(-grace)):
		progress, _ := last.Attributes[string(semconv.StreamLastProgressKey)].(float64)
		if idle := at.Sub(last.Start.Add(time.Duration(progress * float64(time.Second)))).Round(time.Second); idle >= minIdle {
			return " after " + durationWords(idle) + " without progress"
		}
		return " while " + answering(last)
	case tools != "":
		return " while " + tools + " may have been running"
	default:
		return ""
	}
}

// minIdle is the shortest silence that is worth mentioning.
const minIdle = 3 * time.Second

// durationWords writes a duration with its two largest units.
func durationWords(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%d days %d h", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	default:
		return fmt.Sprintf("%d s", s)
	}
}
