package acceptance

import (
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// differences collects differences from the expectation.
type differences []string

func (d *differences) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// differs compares one value, in the vocabulary's spelling.
func (d *differences) differs(what string, want, got fmt.Stringer) {
	if want.String() != got.String() {
		d.add("%s is %q, expected %q", what, got, want)
	}
}

// Diff compares the judged runs of a case's trace with the expectation and returns
// every difference.
func (c *Case) Diff(runs []report.Run) []string {
	var d differences
	if len(runs) != 1 {
		d.add("%d runs were judged, expected 1", len(runs))
		return d
	}
	run := &runs[0]
	want := &c.Want
	d.differs("outcome", want.Outcome, run.Verdict.Outcome)
	d.verdict("run", want.Run, run.Verdict)
	d.parts("request", want.Requests, run.Requests)
	d.parts("tool", want.Tools, run.Tools)
	d.parts("gateway's span", want.Served, run.Served)
	for i := range run.Served {
		if s := &run.Served[i]; s.Service == run.Service {
			d.add("gateway's span %d is of %q, the service of the agent's spans", i+1, s.Service)
		}
	}
	if run.Verdict.Recovered != want.Recovered {
		d.add("recovered failures: %d, expected %d", run.Verdict.Recovered, want.Recovered)
	}
	if !slices.Equal(run.Verdict.MissingOutputs, want.MissingOutputs) {
		d.add("missing outputs: %q, expected %q", run.Verdict.MissingOutputs, want.MissingOutputs)
	}
	if want.Summary != semconv.SummaryKeyUnset {
		d.differs("summary key", want.Summary, run.Verdict.SummaryKey)
	}
	for _, fact := range want.Evidence {
		if !slices.Contains(run.Verdict.Evidence, fact) {
			d.add("evidence lacks %s: %q", fact, run.Verdict.Evidence)
		}
	}
	if len(run.Verdict.Timeline) == 0 {
		d.add("no timeline")
	}
	if run.Verdict.Ruleset == "" {
		d.add("no ruleset")
	}
	d.facts(want, run)
	return d
}

// facts compares what the client recorded apart from the verdicts.
func (d *differences) facts(want *Want, run *report.Run) {
	if len(run.Requests) == 0 {
		return // parts reports this
	}
	if got := run.Requests[0].RetryAfter(); got.Round(time.Millisecond) != want.RetryAfter {
		d.add("request 1: retry after %s, expected %s", got, want.RetryAfter)
	}
	inBand, ok := run.Requests[len(run.Requests)-1].Attributes.Get(string(semconv.ProviderErrorInBandKey))
	if got := ok && inBand.Bool(); got != want.InBand {
		d.add("last request: error in band: %t, expected %t", got, want.InBand)
	}
	for i, end := range want.Ends {
		v, ok := run.Requests[min(i, len(run.Requests)-1)].Attributes.Get(string(semconv.StreamEndKey))
		if !ok || v.Str() != end.String() {
			d.add("request %d: end %q, expected %q", i+1, v.AsString(), end)
		}
	}
	if want.Run.Class == semconv.ClassLocalAbort && run.Status != ptrace.StatusCodeUnset {
		d.add("run: status %s, expected Unset: it was ended on purpose", run.Status)
	}
}

func (d *differences) parts(what string, want []Verdict, got []report.Span) {
	if len(got) != len(want) {
		d.add("%d × %s, expected %d", len(got), what, len(want))
		return
	}
	for i := range got {
		name := fmt.Sprintf("%s %d", what, i+1)
		d.verdict(name, want[i], got[i].Verdict)
		if status, ok := statusOf(want[i].Class); ok && got[i].Status != status {
			d.add("%s: status %s, expected %s", name, got[i].Status, status)
		}
	}
}

// statusOf returns the span status that the conventions define for a class, if they do.
func statusOf(c semconv.Class) (ptrace.StatusCode, bool) {
	switch c {
	case semconv.ClassUnset, semconv.ClassLocalAbort:
		return ptrace.StatusCodeUnset, true
	case semconv.ClassOutputLimited, semconv.ClassEmptyCompletion:
		return 0, false
	default:
		return ptrace.StatusCodeError, true
	}
}

func (d *differences) verdict(name string, want Verdict, got report.Verdict) {
	for _, u := range got.Unknown {
		d.add("%s: not in the vocabulary: %s", name, u)
	}
	d.differs(name+": class", want.Class, got.Class)
	if want.Class == semconv.ClassUnset {
		return
	}
	for _, m := range []struct {
		what      string
		want, got fmt.Stringer
	}{
		{"cause", want.Cause, got.Cause},
		{"phase", want.Phase, got.Phase},
		{"origin", want.Origin, got.Origin},
		{"retry safety", want.Safety, got.Safety},
		{"retry reason", want.Reason, got.Reason},
	} {
		if m.want.String() != "" {
			d.differs(name+": "+m.what, m.want, m.got)
		}
	}
	if got.Summary == "" {
		d.add("%s: no summary", name)
	}
	if got.Safety == semconv.RetrySafetySafeAutoRetry && got.Confidence == semconv.ConfidenceLow {
		d.add("%s: a safe retry at low confidence", name)
	}
}

// Complete reports whether all spans that the case wants have arrived.
func (c *Case) Complete(runs []report.Run) bool {
	if len(runs) == 0 {
		return false
	}
	run, want := &runs[0], &c.Want
	return len(run.Requests) >= len(want.Requests) && len(run.Tools) >= len(want.Tools) && len(run.Served) >= len(want.Served)
}

// DiffLive compares the client's own verdict on the run with the Collector's: the same
// facts have to give the same verdict. If the Collector can see more than the client,
// the case has the client's verdict.
func (c *Case) DiffLive(live classify.Diagnosis, run *report.Run) []string {
	var d differences
	v := run.Verdict
	if alone := c.Want.Live; alone.Class != semconv.ClassUnset {
		v.Class, v.Cause, v.Phase, v.Origin, v.Safety, v.Reason = alone.Class, alone.Cause, alone.Phase, alone.Origin, alone.Safety, alone.Reason
	}
	d.differs("live outcome", v.Outcome, live.Outcome)
	d.differs("live class", v.Class, live.Class)
	d.differs("live cause", v.Cause, live.Cause)
	d.differs("live phase", v.Phase, live.Phase)
	d.differs("live origin", v.Origin, live.Origin)
	d.differs("live retry safety", v.Safety, live.Retry.Safety)
	d.differs("live retry reason", v.Reason, live.Retry.Reason)
	return d
}
