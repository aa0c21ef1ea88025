package classify

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestEvidenceBounds: a list of evidence and each of its entries are bounded, and unknown
// facts are not in it.
func TestEvidenceBounds(t *testing.T) {
	var e evidence
	e.add("fact", "")
	assert.Empty(t, e)
	e.add("fact", strings.Repeat("x", maxEvidenceLen))
	e.add("fact", strings.Repeat("x", maxEvidenceLen-len("fact=y")-1)+"é")
	for i := range 2 * maxEvidence {
		e.add("fact", strconv.Itoa(i))
	}
	assert.Len(t, e, maxEvidence)
	assert.Equal(t, "fact="+strings.Repeat("x", maxEvidenceLen-len("fact=")), e[0])
	assert.Equal(t, "fact="+strings.Repeat("x", maxEvidenceLen-len("fact=y")-1)+"é", e[1], "just as long")
	assert.Equal(t, "fact="+strconv.Itoa(maxEvidence-3), e[maxEvidence-1])

	e = nil
	e.add("fact", strings.Repeat("x", maxEvidenceLen-len("fact=")-1)+"é")
	assert.Equal(t, "fact="+strings.Repeat("x", maxEvidenceLen-len("fact=")-1), e[0], "cut before a character, not within it")
}

// TestRequestEvidence: which facts are evidence for a verdict on a request, and which are
// omitted.
func TestRequestEvidence(t *testing.T) {
	cut := reset(semconv.PhaseResponseStarted)
	finish := func(f Finish) func(*Request) { return func(r *Request) { answers(r); r.Finish = f } }
	for _, tt := range []struct {
		name   string
		change func(*Request)
		has    string // the whole list, except for commas
		not    string // facts
	}{
		{
			"cut", cut,
			"llm.stream.end=read_error http.response.status_code=200 llm.transport.cause=connection_reset llm.transport.code=ECONNRESET " +
				"llm.transport.stage=body llm.abort.source=none llm.watchdog.kind=none llm.stream.phase=response_started llm.stream.text_chunks=0 llm.stream.tool_calls=0",
			"llm.stream.reasoning_chunks llm.stream.tool_inputs_started llm.stream.tool_inputs_completed llm.stream.provider_tools_started " +
				"llm.request.attempt llm.connection.reused llm.connection.idle gen_ai.response.finish_reasons llm.request.background llm.stream.unread " +
				"llm.provider.error.kind llm.provider.error.in_band network.protocol.version",
		},
		{"no status", all(cut, func(r *Request) { r.Status = 0 }), "", "http.response.status_code"},
		{"texts not counted", all(cut, func(r *Request) { r.Text = 0 }), "", "llm.stream.text_chunks"},
		{"reasoning", all(cut, func(r *Request) { r.Reasoning = Counted(2) }), "llm.stream.reasoning_chunks=2", ""},
		{"a connection used again at once", all(cut, func(r *Request) { r.Connection.Reused = Yes }), "llm.connection.reused=true", "llm.connection.idle"},
		{"a new connection", all(cut, func(r *Request) { r.Connection.Reused = No }), "llm.connection.reused=false", "llm.connection.idle"},
		{"the third try", all(cut, func(r *Request) { r.Attempt = 3 }), "llm.request.attempt=3", ""},
		{"a tool of the provider's that was not offered", all(cut, func(r *Request) { r.ProviderToolsStarted = Counted(1) }), "llm.stream.provider_tools_started=1", ""},
		{"concluded", all(cut, func(r *Request) { r.Basis = Corroborated }), "", "llm.watchdog.kind llm.abort.source"},
		{"aborted", all(cut, func(r *Request) { r.Abort.Source = semconv.AbortSourceUser }), "llm.abort.source=user", ""},
		{"a watchdog of no kind", all(cut, func(r *Request) { r.Ended = semconv.StreamEndWatchdog }), "llm.stream.end=watchdog", "llm.watchdog.kind"},
		{"a limit", finish(FinishMaxTokens), "gen_ai.response.finish_reasons=max_output_tokens", ""},
		{"no reason", finish(FinishMissing), "gen_ai.response.finish_reasons=missing", ""},
		{"a reason, and nothing in it", all(finish(FinishStop), func(r *Request) { r.Text = Counted(0) }), "llm.stream.text_chunks=0", "gen_ai.response.finish_reasons"},
	} {
		r := lone(tt.change)
		got := Judge(&r).Requests[0].Evidence
		assert.Subset(t, got, strings.Fields(tt.has), tt.name)
		for fact := range strings.FieldsSeq(tt.not) {
			for _, entry := range got {
				assert.False(t, strings.HasPrefix(entry, fact+"="), "%s: %s", tt.name, entry)
			}
		}
	}
}

// TestRunEvidence: which facts are evidence for a verdict on a run, besides those of the
// part that failed.
func TestRunEvidence(t *testing.T) {
	const read, write, ok = semconv.ToolEffectReadOnly, semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded
	named := func(name string, effect semconv.ToolEffect, outcome semconv.ToolOutcome) Tool {
		f := tool(0.5, 2, name, effect, outcome)
		f.Name = name
		return f
	}
	failed := func(requests []Request, tools ...Tool) Run {
		r := run(true, requests, tools...)
		r.ErrorType = "*url.Error"
		return r
	}
	cut := []Request{request(0, 1, reset(semconv.PhaseResponseStarted))}
	well := []Request{request(0, 1, calls("pay"))}
	changed := func(r Run, change func(*Run)) Run { change(&r); return r }
	for _, tt := range []struct {
		name     string
		run      Run
		has, not []string
	}{
		{"a request", failed(cut), []string{"llm.transport.cause=connection_reset"}, []string{"error.type=*url.Error", "invoke_agent=missing"}},
		{"the run itself", failed([]Request{request(0, 1, answers)}), []string{"error.type=*url.Error"}, nil},
		{
			"a tool", failed(well, named("pay", write, semconv.ToolOutcomeFailed)),
			[]string{"gen_ai.tool.name=pay", "llm.tool.outcome=failed", "llm.tool.effect=non_idempotent"},
			[]string{"error.type=*url.Error"},
		},
		{
			"what the run stopped by", changed(run(false, nil), func(r *Run) { r.Abort = Abort{semconv.AbortSourceUser, "esc"} }),
			[]string{"llm.abort.source=user", "llm.abort.reason=esc"},
			nil,
		},
		{"the end of the run", changed(run(false, well), func(r *Run) { r.Ended, r.Failed = No, NotObserved }), []string{"invoke_agent=missing"}, nil},
		{
			"the first tool that changes things", failed(cut, named("list", read, ok), named("push", write, semconv.ToolOutcomeRejected), named("pay", write, ok), named("ship", write, ok)),
			[]string{"gen_ai.tool.name=pay", "llm.tool.effect=non_idempotent"},
			[]string{"gen_ai.tool.name=list", "gen_ai.tool.name=push", "gen_ai.tool.name=ship", "llm.tool.outcome=succeeded"},
		},
		{
			"parts that are not here", changed(failed(cut), func(r *Run) {
				r.AnnouncedRequests, r.AnnouncedTools, r.Inner = Counted(4), Counted(3), Effects{Requests: 2, Tools: 2}
			}),
			[]string{"llm.run.requests=4 (seen 3)", "llm.run.tools=3 (seen 2)"},
			nil,
		},
		{
			"parts that are all here", changed(failed(cut), func(r *Run) {
				r.AnnouncedRequests, r.AnnouncedTools, r.Inner = Counted(3), Counted(2), Effects{Requests: 2, Tools: 2}
			}),
			nil,
			[]string{"llm.run.requests=", "llm.run.tools="},
		},
	} {
		got := Judge(&tt.run).Run.Evidence
		for _, entry := range tt.has {
			assert.Contains(t, got, entry, tt.name)
		}
		for _, not := range tt.not {
			for _, entry := range got {
				assert.False(t, strings.HasPrefix(entry, not), "%s: %s", tt.name, entry)
			}
		}
	}

	twice := named("pay", write, semconv.ToolOutcomeFailed)
	r := failed(well, twice)
	got := strings.Join(Judge(&r).Run.Evidence, "\n")
	assert.Equal(t, 1, strings.Count(got, "gen_ai.tool.name=pay"), "the tool that the verdict is about")
}

// TestMissingEvidence: exactly the facts that would have raised the confidence are named.
func TestMissingEvidence(t *testing.T) {
	whole := risk{class: semconv.ClassStreamInterrupted, basis: Corroborated, text: No, missingOutput: No}
	known := request(0, 1, all(reset(semconv.PhaseText), func(r *Request) { r.Finish = FinishMissing }))
	for _, tt := range []struct {
		name    string
		risk    func(*risk)
		request func(*Request)
		want    string
	}{
		{"nothing", func(*risk) {}, func(*Request) {}, ""},
		{"the end", func(*risk) {}, func(r *Request) { r.Ended = semconv.StreamEndUnset }, "llm.stream.end"},
		{"the cause", func(*risk) {}, func(r *Request) { r.Transport.Cause = 0 }, "llm.transport.cause"},
		{"the cause, beside 399", func(*risk) {}, func(r *Request) { r.Transport.Cause, r.Status = 0, 399 }, "llm.transport.cause"},
		{"the cause, beside 400", func(*risk) {}, func(r *Request) { r.Transport.Cause, r.Status = 0, 400 }, ""},
		{"the cause, beside an error event", func(*risk) {}, func(r *Request) { r.Transport.Cause, r.Provider.InBand = 0, true }, ""},
		{"the finish reason", func(*risk) {}, func(r *Request) { r.Finish = FinishNotObserved }, "gen_ai.response.finish_reasons"},
		{"the phase", func(*risk) {}, func(r *Request) { r.Phase = 0 }, "llm.stream.phase"},
		{"the phase, said to be unknown", func(*risk) {}, func(r *Request) { r.Phase = semconv.PhaseUnknown }, "llm.stream.phase"},
		{"nothing, where it is typed", func(k *risk) { k.basis, k.partsMissing, k.endMissing = Typed, true, true }, func(r *Request) { r.Ended, r.Phase = 0, 0 }, "invoke_agent"},
		{"texts", func(k *risk) { k.text = NotObserved }, func(*Request) {}, "llm.stream.text_chunks"},
		{"whether tools ran", func(k *risk) { k.calls = callsUnknown }, func(*Request) {}, "llm.run.tools"},
		{"what a tool does", func(k *risk) { k.started = 1 << semconv.ToolEffectUnknown }, func(*Request) {}, "llm.tool.effect"},
		{"the provider's tools", func(k *risk) { k.providerTools = providerToolsUnknown }, func(*Request) {}, "llm.request.provider_tools"},
		{"the history", func(k *risk) { k.missingOutput = NotObserved }, func(*Request) {}, "llm.history.tool_outputs"},
		{"how many requests there are", func(k *risk) { k.unannouncedParts, k.partsMissing = true, true }, func(*Request) {}, "llm.run.requests"},
		{"a part", func(k *risk) { k.partsMissing = true }, func(*Request) {}, "llm.run.id"},
		{"the end of the run", func(k *risk) { k.endMissing, k.partsMissing = true, true }, func(*Request) {}, "invoke_agent"},
		{"everything, at high confidence", func(k *risk) { k.basis = Typed }, func(r *Request) { *r = Request{} }, ""},
	} {
		k, r := whole, known
		tt.risk(&k)
		tt.request(&r)
		assert.Equal(t, strings.Fields(tt.want), append([]string{}, missingEvidence(&k, &r, nil)...), tt.name)
	}
	k := whole
	k.text = NotObserved
	assert.Equal(t, []string{"llm.stream.text_chunks"}, missingEvidence(&k, nil, nil), "of a tool")

	doubts := []string{"doubt.refused", "doubt.late"}
	k = whole
	assert.Empty(t, missingEvidence(&k, nil, doubts), "no missing part counts")
	k.partsMissing = true
	assert.Equal(t, doubts, missingEvidence(&k, nil, doubts), "parts may be missing for these reasons")
	k.partsMissing, k.endMissing = true, true
	assert.Equal(t, []string{"invoke_agent", "doubt.refused", "doubt.late"}, missingEvidence(&k, nil, doubts), "and the run never ended")
}
