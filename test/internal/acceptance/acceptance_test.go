package acceptance_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

func TestEveryCaseOfTheDesignExists(t *testing.T) {
	variants := map[int]int{}
	keys := map[string]bool{}
	labels := map[string]bool{}
	cases := acceptance.Cases()
	for i := range cases {
		c := &cases[i]
		variants[c.Number]++
		assert.False(t, keys[c.Key()], "%s exists twice", c.Key())
		assert.False(t, labels[c.Label()], "%s exists twice", c.Label())
		keys[c.Key()], labels[c.Label()] = true, true
		assert.NotEqual(t, semconv.RunOutcomeUnset, c.Want.Outcome, c.Label())
		asked := len(c.Want.Requests)
		if n := len(c.Want.Served); n > 0 {
			asked = n - asked // the gateway's requests; it also has a span for each request that it served
		}
		assert.Equal(t, max(len(c.Script), 1), asked, c.Label())
	}
	assert.True(t, slices.IsSortedFunc(cases, func(a, b acceptance.Case) int { return a.Number - b.Number }))
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24} {
		assert.Positive(t, variants[n], "case %d", n)
		delete(variants, n)
	}
	assert.Empty(t, variants)
}

// asWanted returns the run that a case wants.
func asWanted(c *acceptance.Case) report.Run {
	span := func(name string, status ptrace.StatusCode, v acceptance.Verdict) report.Span {
		attrs := pcommon.NewMap()
		return report.Span{
			Name: name, Status: status, Attributes: attrs, Verdict: report.Verdict{
				Class: v.Class, Cause: v.Cause, Phase: v.Phase, Origin: v.Origin, Safety: v.Safety, Reason: v.Reason,
				Summary: "It failed.", SummaryKey: c.Want.Summary, Confidence: semconv.ConfidenceHigh,
			},
		}
	}
	status := func(v acceptance.Verdict) ptrace.StatusCode {
		if v.Class == semconv.ClassUnset || v.Class == semconv.ClassLocalAbort {
			return ptrace.StatusCodeUnset
		}
		return ptrace.StatusCodeError
	}
	run := report.Run{Span: span("invoke_agent coder", status(c.Want.Run), c.Want.Run)}
	run.Verdict.Outcome, run.Verdict.Recovered, run.Verdict.MissingOutputs = c.Want.Outcome, c.Want.Recovered, c.Want.MissingOutputs
	run.Verdict.Evidence, run.Verdict.Timeline, run.Verdict.Ruleset = c.Want.Evidence, []string{"+0.000s"}, "2"
	for _, v := range c.Want.Requests {
		run.Requests = append(run.Requests, span("chat", status(v), v))
	}
	for _, v := range c.Want.Tools {
		run.Tools = append(run.Tools, span("tool", status(v), v))
	}
	for _, v := range c.Want.Served {
		served := span("chat", status(v), v)
		served.Service = "gateway"
		run.Served = append(run.Served, served)
	}
	for i, end := range c.Want.Ends {
		run.Requests[i].Attributes.PutStr(string(semconv.StreamEndKey), end.String())
	}
	run.Requests[0].Attributes.PutDouble("llm.retry.after", c.Want.RetryAfter.Seconds())
	if c.Want.InBand {
		run.Requests[len(run.Requests)-1].Attributes.PutBool("llm.provider_error.in_band", true)
	}
	return run
}

// Diff finds every single thing that a verdict can get wrong.
func TestDifferencesAreFound(t *testing.T) {
	cases := acceptance.Cases()
	for i := range cases {
		c := &cases[i]
		require.Empty(t, c.Diff([]report.Run{asWanted(c)}), c.Label())
		require.Len(t, c.Diff(nil), 1)
		require.Len(t, c.Diff(make([]report.Run, 2)), 1)
		for what, spoil := range map[string]func(*report.Run){
			"outcome":         func(r *report.Run) { r.Verdict.Outcome = semconv.RunOutcomeIncomplete },
			"class":           func(r *report.Run) { r.Verdict.Class = semconv.ClassRunAbandoned },
			"a request":       func(r *report.Run) { r.Requests[len(r.Requests)-1].Verdict.Class = semconv.ClassRunAbandoned },
			"a request less":  func(r *report.Run) { r.Requests = r.Requests[1:] },
			"a span beneath":  func(r *report.Run) { r.Served = append(r.Served, r.Requests[0]) },
			"a tool more":     func(r *report.Run) { r.Tools = append(r.Tools, r.Requests[0]) },
			"recovered":       func(r *report.Run) { r.Verdict.Recovered += 7 },
			"missing outputs": func(r *report.Run) { r.Verdict.MissingOutputs = []string{"x"} },
			"timeline":        func(r *report.Run) { r.Verdict.Timeline = nil },
			"ruleset":         func(r *report.Run) { r.Verdict.Ruleset = "" },
			"vocabulary":      func(r *report.Run) { r.Verdict.Unknown = []string{"llm.x=y"} },
			"retry after":     func(r *report.Run) { r.Requests[0].Attributes.PutDouble("llm.retry.after", 77) },
		} {
			run := asWanted(c)
			spoil(&run)
			assert.NotEmpty(t, c.Diff([]report.Run{run}), "%s: %s", c.Label(), what)
		}
		if c.Want.Run.Class == semconv.ClassUnset {
			continue
		}
		for what, spoil := range map[string]func(*report.Verdict){
			"cause":   func(v *report.Verdict) { v.Cause = semconv.CauseProxy },
			"phase":   func(v *report.Verdict) { v.Phase = semconv.PhaseUnset },
			"origin":  func(v *report.Verdict) { v.Origin = semconv.OriginUnknown },
			"safety":  func(v *report.Verdict) { v.Safety = semconv.RetrySafetyUnset },
			"reason":  func(v *report.Verdict) { v.Reason = semconv.RetryReasonIdempotentToolsOnly },
			"summary": func(v *report.Verdict) { v.Summary = "" },
		} {
			run := asWanted(c)
			spoil(&run.Verdict)
			assert.NotEmpty(t, c.Diff([]report.Run{run}), "%s: %s", c.Label(), what)
		}
		if c.Want.Summary != semconv.SummaryKeyUnset {
			run := asWanted(c)
			run.Verdict.SummaryKey = semconv.SummaryKeyNothingToAdd
			assert.NotEmpty(t, c.Diff([]report.Run{run}), "%s: summary key", c.Label())
		}
	}
}

func TestDiffLive(t *testing.T) {
	cases := acceptance.Cases()
	run := asWanted(&cases[0])
	v := run.Verdict
	live := classify.Diagnosis{
		Outcome: v.Outcome, Class: v.Class, Cause: v.Cause, Phase: v.Phase, Origin: v.Origin,
		Retry: classify.Retry{Safety: v.Safety, Reason: v.Reason},
	}
	c := &cases[0]
	assert.Empty(t, c.DiffLive(live, &run))
	assert.Len(t, c.DiffLive(classify.Diagnosis{}, &run), 7)
	c.Want.Live = acceptance.Verdict{
		Class: v.Class, Cause: semconv.CauseNoContent, Phase: v.Phase, Origin: v.Origin, Safety: v.Safety, Reason: v.Reason,
	}
	assert.Len(t, c.DiffLive(live, &run), 1)
}

// The cases play out as written: the agent asks for every scripted exchange and for no
// more.
func TestCasesPlayTheirWholeScript(t *testing.T) {
	world, err := acceptance.NewWorld(noop.NewTracerProvider())
	require.NoError(t, err)
	defer func() { assert.NoError(t, world.Close()) }()
	cases := acceptance.Cases()
	errs := make([]error, len(cases))
	slots := make(chan struct{}, 4*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range cases {
		c := &cases[i]
		if c.Number == 24 {
			continue // takes long; the end-to-end test runs it
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result, err := world.Run(t.Context(), c, noop.NewTracerProvider())
			errs[i] = err
			if told(&c.Want) {
				assert.Error(t, result.Err, c.Label())
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// told reports whether the agent learns of the failure from its SDK.
func told(w *acceptance.Want) bool {
	switch w.Outcome {
	case semconv.RunOutcomeSucceeded, semconv.RunOutcomeRecovered, semconv.RunOutcomeLimited:
		return false
	}
	switch w.Run.Cause {
	case semconv.CauseCleanEOF, semconv.CauseOmittedFromRetry, semconv.CauseSwallowedError, semconv.CauseConsumerClosed:
		return false
	}
	return true
}

func TestUnfinishedScriptIsAnError(t *testing.T) {
	world, err := acceptance.NewWorld(noop.NewTracerProvider())
	require.NoError(t, err)
	defer func() { assert.NoError(t, world.Close()) }()
	one := faultyllm.Answer(faultyllm.Text("ok"), faultyllm.Finish(faultyllm.Stop))
	c := acceptance.Case{Number: 1, Wire: faultyllm.Chat, Script: []faultyllm.Exchange{one, one}}
	_, err = world.Run(t.Context(), &c, noop.NewTracerProvider())
	require.ErrorContains(t, err, "1 of 2 scripted exchanges")
	c.Script = nil
	_, err = world.Run(t.Context(), &c, noop.NewTracerProvider())
	require.ErrorContains(t, err, "only 0 exchanges are scripted")
}
