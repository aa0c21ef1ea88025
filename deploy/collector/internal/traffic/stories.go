package traffic

import "slices"

// fault is a way in which a request fails, with what is true of it. The truth is what was done, in the words of
// docs/reference/attributes.md: who broke it, how far the answer had got, and whether it could be sent again.
type fault struct {
	name string
	Failure
	weight float64
	// play returns how the request ended.
	play func(t *runBuilder) (r Request, attributes map[string]any)
	// unmarked is a failure that its producer does not mark as an error.
	unmarked bool
}

const (
	safe   = "safe_auto_retry"
	asking = "user_confirmed_retry"
	never  = "no_retry"
)

// faults are all the ways in which a request fails in this traffic.
var faults = []fault{
	{
		name: "reset in text", Failure: Failure{"stream_interrupted", "connection_reset", "text", "transport", asking}, weight: 3,
		play: cut("text", "connection_reset", "ECONNRESET", counts{text: 3}, true),
	},
	{
		name: "reset in a tool's input", Failure: Failure{"stream_interrupted", "connection_reset", "tool_input", "transport", safe}, weight: 2,
		play: cut("tool_input", "connection_reset", "ECONNRESET", counts{inputs: 1, openIDs: []string{"call_open"}}, false),
	},
	{
		name: "body truncated", Failure: Failure{"stream_interrupted", "body_truncated", "response_started", "transport", safe}, weight: 3,
		play: cut("response_started", "body_truncated", "", counts{}, false),
	},
	{
		name: "GOAWAY in reasoning", Failure: Failure{"stream_interrupted", "h2_goaway", "reasoning", "transport", safe}, weight: 1,
		play: cut("reasoning", "h2_goaway", "NO_ERROR", counts{reasoning: 4}, true),
	},
	{
		name: "clean EOF", Failure: Failure{"stream_interrupted", "clean_eof", "text", "transport", asking}, weight: 2, unmarked: true,
		play: func(t *runBuilder) (Request, map[string]any) {
			r := t.times(t.around(3, 0.4))
			a := streamed(&r, "text", "eof", counts{text: 3})
			a["llm.transport.cause"] = "clean_eof"
			return r, a
		},
	},
	{
		name: "refused", Failure: Failure{"connection_failed", "connect_refused", "before_connection", "transport", safe}, weight: 2,
		play: unconnected("connect", "connect_refused", "ECONNREFUSED"),
	},
	{
		name: "unknown host", Failure: Failure{"connection_failed", "dns_not_found", "before_connection", "transport", never}, weight: 0.5,
		play: unconnected("dns", "dns_not_found", "ENOTFOUND"),
	},
	{
		name: "malformed event", Failure: Failure{"protocol_violation", "malformed_event", "text", "provider", asking}, weight: 1,
		play: cut("text", "malformed_event", "", counts{text: 3}, true),
	},

	{
		name: "rate limited", Failure: Failure{"provider_error", "rate_limited", "response_started", "provider", safe}, weight: 3,
		play: refused(429, "rate_limited", "rate_limit_exceeded"),
	},
	{
		name: "overloaded", Failure: Failure{"provider_error", "overloaded", "response_started", "provider", safe}, weight: 3,
		play: refused(529, "overloaded", "overloaded_error"),
	},
	{
		name: "server error", Failure: Failure{"provider_error", "server_error", "response_started", "provider", safe}, weight: 2,
		play: refused(500, "server_error", "api_error"),
	},
	{
		name: "overloaded in the stream", Failure: Failure{"provider_error", "overloaded", "text", "provider", asking}, weight: 1,
		play: func(t *runBuilder) (Request, map[string]any) {
			r := t.times(t.around(3, 0.4))
			t.usage(&r, 0.2)
			a := streamed(&r, "text", "terminal_event", counts{text: 3})
			a["llm.provider_error.kind"], a["llm.provider_error.code"] = "overloaded", "overloaded_error"
			a["llm.provider_error.in_band"], a["error.type"] = true, "overloaded_error"
			a["gen_ai.response.finish_reasons"] = []string{"error"}
			return r, a
		},
	},
	{
		name: "quota", Failure: Failure{"provider_error", "quota_exhausted", "response_started", "provider", never}, weight: 1,
		play: refused(429, "quota_exhausted", "insufficient_quota"),
	},
	{
		name: "wrong key", Failure: Failure{"provider_error", "authentication", "response_started", "provider", never}, weight: 0.5,
		play: refused(401, "authentication", "invalid_api_key"),
	},
	{
		name: "context too long", Failure: Failure{"provider_error", "context_length_exceeded", "response_started", "provider", never}, weight: 1,
		play: refused(400, "context_length_exceeded", "context_length_exceeded"),
	},

	{
		name: "silent", Failure: Failure{"watchdog_timeout", "idle", "reasoning", "watchdog", safe}, weight: 1.5,
		play: watchdog("idle", "reasoning", 30, counts{reasoning: 4}, true),
	},
	{
		name: "no first chunk", Failure: Failure{"watchdog_timeout", "first_progress", "response_started", "watchdog", safe}, weight: 1,
		play: watchdog("first_progress", "response_started", 20, counts{}, false),
	},
	{
		name: "empty answer", Failure: Failure{"empty_completion", "no_content", "stream_end", "provider", safe}, weight: 1, unmarked: true,
		play: func(t *runBuilder) (Request, map[string]any) {
			r := t.times(t.around(1, 0.3))
			t.usage(&r, 0)
			a := streamed(&r, "stream_end", "terminal_event", counts{})
			a["gen_ai.response.finish_reasons"] = []string{"stop"}
			return r, a
		},
	},
}

// passing are the faults after which another attempt makes sense, and ending those on which a run may end. Both are
// indices of faults with their weights.
var passing, ending = func() (passing, ending []float64) {
	for i := range faults {
		f := &faults[i]
		ending = append(ending, f.weight)
		if f.Safety == never {
			passing = append(passing, 0)
		} else {
			passing = append(passing, f.weight)
		}
	}
	return passing, ending
}()

func cut(phase, cause, code string, c counts, usage bool) func(*runBuilder) (Request, map[string]any) {
	return func(t *runBuilder) (Request, map[string]any) {
		r := t.times(t.around(3, 0.5))
		if usage {
			t.usage(&r, 0.2)
		}
		a := streamed(&r, phase, "read_error", c)
		a["error.type"], a["gen_ai.response.finish_reasons"] = "*net.OpError", []string{"error"}
		a["llm.transport.stage"], a["llm.transport.cause"] = "body", cause
		a["llm.transport.error_chain"] = []string{"*net.OpError", "*os.SyscallError", "syscall.Errno"}
		if code != "" {
			a["llm.transport.code"] = code
		}
		return r, a
	}
}

func unconnected(stage, cause, code string) func(*runBuilder) (Request, map[string]any) {
	return func(t *runBuilder) (Request, map[string]any) {
		return Request{Took: t.around(0.05, 0.5)}, map[string]any{
			"llm.stream.phase": "before_connection", "llm.stream.end": "no_response", "error.type": "*net.OpError",
			"llm.transport.stage": stage, "llm.transport.cause": cause, "llm.transport.code": code,
		}
	}
}

func refused(status int, kind, code string) func(*runBuilder) (Request, map[string]any) {
	return func(t *runBuilder) (Request, map[string]any) {
		r := Request{Took: t.around(0.4, 0.4)}
		return r, map[string]any{
			"http.response.status_code": status, "error.type": code,
			"llm.stream.phase": "response_started", "llm.stream.end": "http_error", "llm.stream.time_to_headers": r.Took * 0.9,
			"llm.provider_error.kind": kind, "llm.provider_error.code": code,
		}
	}
}

func watchdog(kind, phase string, limit float64, c counts, usage bool) func(*runBuilder) (Request, map[string]any) {
	return func(t *runBuilder) (Request, map[string]any) {
		r := t.times(limit + 2)
		if usage {
			t.usage(&r, 0.2)
		}
		r.Gap, r.Watchdog = limit, kind
		if kind == "first_progress" {
			r.FirstChunk = 0 // it never came
		}
		a := streamed(&r, phase, "watchdog", c)
		if r.FirstChunk == 0 {
			delete(a, "gen_ai.response.time_to_first_chunk")
		}
		a["error.type"], a["llm.watchdog.kind"], a["llm.watchdog.limit"] = "watchdog", kind, limit
		a["gen_ai.response.finish_reasons"] = []string{"error"}
		return r, a
	}
}

// fail adds a request that fails.
func (t *runBuilder) fail(f *fault) {
	r, a := f.play(t)
	r.Failure = f.Failure
	t.shown = t.shown || f.Phase == "text"
	t.request(r, a, !f.unmarked)
}

// named returns the fault of that name.
func named(name string) *fault {
	return &faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == name })]
}

// any returns a fault, by weight.
func (t *runBuilder) any(weights []float64) *fault { return &faults[pick(t.rng, weights)] }

// failsWith ends the run on a request that fails.
func (t *runBuilder) failsWith(f *fault) {
	t.fail(f)
	failure := f.Failure
	if (t.withEffects || t.shown) && failure.Safety == safe {
		failure.Safety = asking // the tool would run twice, or the text be shown twice
	}
	t.fails(failure)
	if f.unmarked {
		t.runError = "" // its agent took it for an answer
	}
}

// retries adds the attempt that makes a failure good.
func (t *runBuilder) retries() {
	t.now++
	t.attempt++
	t.answers()
	t.run.Outcome, t.run.Recovered = "recovered", t.run.Recovered+1
}

// story is a kind of run, and how often it is told while all is well.
type story struct {
	name   string
	weight float64
	play   func(*runBuilder)
}

var stories = []story{
	{"answer", 28, func(t *runBuilder) {
		t.answers()
		t.run.Outcome = "succeeded"
	}},
	{"tools", 50, func(t *runBuilder) {
		for range 1 + t.rng.IntN(3) {
			t.toolRound(toolWeights)
		}
		t.answers()
		t.run.Outcome = "succeeded"
	}},

	{"failed, and tried again", 6, func(t *runBuilder) {
		if t.rng.IntN(2) == 0 {
			t.toolRound(toolWeights)
		}
		t.fail(t.any(passing))
		t.retries()
	}},
	{"failed, and another provider answered", 1, func(t *runBuilder) {
		t.fail(t.any(passing))
		for from := t.endpoint.Provider; t.endpoint.Provider == from; {
			t.endpoint = Endpoints[pick(t.rng, endpointWeights)]
		}
		t.retries()
	}},
	{"a tool failed, and the model answered", 3, func(t *runBuilder) {
		t.toolFails(harmless, "sent")
		t.answers()
		t.run.Outcome, t.run.Recovered = "recovered", 1
	}},

	{"failed", 2.4, func(t *runBuilder) { t.failsWith(t.any(ending)) }},
	{"failed after a tool", 0.8, func(t *runBuilder) {
		t.toolRound(harmless)
		t.failsWith(t.any(ending))
	}},
	{"failed after a tool with effects", 0.5, func(t *runBuilder) {
		t.toolRound(harmful)
		t.failsWith(t.any(ending))
	}},
	{"a tool failed, and the run with it", 0.6, func(t *runBuilder) {
		t.toolFails(harmless, "pending")
		t.fails(Failure{"tool_failed", "execution_error", "tool_execution", "tool", safe})
		t.run.Lost = 1 // what the tool said of its failure
	}},
	{"the agent failed", 0.4, func(t *runBuilder) {
		t.answers()
		t.fails(Failure{"application_error", "run_error", "unknown", "application", asking})
	}},
	{"the provider refused the history", 0.3, func(t *runBuilder) {
		t.toolRound(harmless)
		t.historyOutputs = nil
		r, a := refused(400, "invalid_request", "invalid_request_error")(t)
		r.Failure = Failure{"history_broken", "missing_output", "response_started", "application", never}
		t.request(r, a, true)
		t.fails(r.Failure)
		t.run.Lost = 1
	}},
	{"sending an output failed", 0.4, func(t *runBuilder) {
		call := t.asksForTool()
		tool := toolbox[pick(t.rng, harmful)]
		tool.Outcome, tool.Delivery = "succeeded", "failed"
		tool.Failure = Failure{"tool_output_lost", "delivery_failed", "tool_output_delivery", "application", asking}
		t.runs(tool, call, map[string]any{"llm.tool.output_error": "*net.OpError"}, false)
		t.lost("delivery_failed")
	}},
	{"a retry left an output out", 0.4, func(t *runBuilder) {
		call := t.asksForTool()
		tool := toolbox[pick(t.rng, harmful)]
		tool.Outcome = "succeeded" // its agent does not record the delivery
		t.runs(tool, call, nil, false)
		t.delivered(call)
		t.fail(named("body truncated"))
		t.historyCalls, t.historyOutputs = nil, nil
		t.attempt++
		t.answers()
		t.lost("omitted_from_retry")
		t.runError = "" // its agent saw an answer
	}},

	{"failed, and nothing shows why", 0.3, func(t *runBuilder) {
		r := t.times(t.around(2, 0.3))
		a := streamed(&r, "stream_end", "terminal_event", counts{text: 3})
		a["gen_ai.response.finish_reasons"], a["error.type"] = []string{"stop"}, "*agent.Error"
		r.Failure = Failure{"unclassified", "unknown", "stream_end", "unknown", asking}
		t.request(r, a, true)
		t.fails(r.Failure)
		t.run.Outcome = "incomplete" // whether the answer was used is not known
	}},

	{"a person stopped it", 2, func(t *runBuilder) {
		r := t.times(t.around(2, 0.5))
		t.usage(&r, 0.3)
		r.Failure = Failure{"local_abort", "user", "text", "local", never}
		a := streamed(&r, "text", "cancelled", counts{text: 3})
		a["llm.abort.source"] = "user"
		t.request(r, a, false)
		t.run.Outcome, t.run.Failure = "aborted", r.Failure
	}},
	{"shut down", 0.4, func(t *runBuilder) {
		r := t.times(t.around(2, 0.5))
		r.Failure = Failure{"local_abort", "shutdown", "reasoning", "local", never}
		a := streamed(&r, "reasoning", "cancelled", counts{reasoning: 3})
		a["llm.abort.source"] = "shutdown"
		t.request(r, a, false)
		t.run.Outcome, t.run.Failure = "aborted", r.Failure
	}},
	{"the answer was too long", 1.5, func(t *runBuilder) { t.limited("length", "max_output_tokens") }},
	{"the answer was filtered", 0.3, func(t *runBuilder) { t.limited("content_filter", "content_filter") }},
}

var storyWeights = func() (weights []float64) {
	for _, s := range stories {
		weights = append(weights, s.weight)
	}
	return weights
}()

// toolFails adds a call of a tool that fails.
func (t *runBuilder) toolFails(weights []float64, delivery string) {
	call := t.asksForTool()
	tool := toolbox[pick(t.rng, weights)]
	tool.Outcome, tool.Delivery = "failed", delivery
	tool.Failure = Failure{"tool_failed", "execution_error", "tool_execution", "tool", safe}
	t.runs(tool, call, map[string]any{"error.type": "*fs.PathError"}, true)
	if delivery == "sent" {
		t.delivered(call)
	}
}

// lost ends the run on the lost output of a tool with effects.
func (t *runBuilder) lost(cause string) {
	t.fails(Failure{"tool_output_lost", cause, "tool_output_delivery", "application", asking})
	t.run.Lost = 1
}

// limited adds an answer that a limit ended.
func (t *runBuilder) limited(reason, cause string) {
	r := t.times(t.around(8, 0.3))
	t.usage(&r, 4)
	r.Failure = Failure{"output_limited", cause, "stream_end", "provider", never}
	a := streamed(&r, "stream_end", "terminal_event", counts{text: 3})
	a["gen_ai.response.finish_reasons"] = []string{reason}
	t.request(r, a, false)
	t.run.Outcome, t.run.Failure = "limited", r.Failure
}

// outageFaults are what a provider that is unwell does to requests.
var outageFaults = func() []float64 {
	weights := make([]float64, len(faults))
	for i := range faults {
		switch faults[i].name {
		case "overloaded":
			weights[i] = 5
		case "server error", "body truncated":
			weights[i] = 2
		case "reset in text":
			weights[i] = 1
		}
	}
	return weights
}()

// unwell plays a run during an outage: most fail, some come through, few see nothing of it.
func (t *runBuilder) unwell() {
	if t.rng.IntN(2) == 0 {
		t.toolRound(toolWeights)
	}
	f := t.any(outageFaults)
	switch n := t.rng.Float64(); {
	case n < 0.55:
		t.fail(f)
		t.now++
		t.attempt++
		t.failsWith(t.any(outageFaults))
	case n < 0.8:
		t.fail(f)
		t.retries()
	default:
		t.answers()
		t.run.Outcome = "succeeded"
	}
}

// openForever plays a run whose process is killed after a tool ran.
func (t *runBuilder) openForever() {
	t.toolRound(harmful)
	t.answers()
	t.unended = true
	t.run.Outcome = "incomplete"
	t.run.Failure = Failure{"run_abandoned", "missing_end", "unknown", "unknown", asking}
}
