package traffic

import (
	"fmt"
	"maps"
	"time"
)

// Run is a run of an agent: its spans, and the truth about it.
type Run struct {
	// At is when its last span ends, and when it is sent; Due is when there is enough to judge it.
	At, Due time.Time
	TraceID string
	Story   string

	Service, Agent string
	// Provider and Model are those of its requests, where all agree.
	Provider, Model string
	Outcome         string
	Failure
	// Recovered is how many failures were made good.
	Recovered int
	// Lost is how many outputs of tools the model never got, those included that say why a tool failed.
	Lost int
	// Took is its duration in seconds.
	Took     float64
	Requests []Request
	Tools    []Tool
	// Spans is how many spans are sent.
	Spans int

	body []byte
}

// Failure is what went wrong. Its zero value is nothing.
type Failure struct{ Class, Cause, Phase, Origin, Safety string }

// Request is one attempt of a model call.
type Request struct {
	Endpoint
	Failure
	// Watchdog is the kind of the watchdog that ended it.
	Watchdog string
	// UsageSeen says that the provider reported its tokens.
	UsageSeen     bool
	Input, Output int
	// FirstChunk is the time to the first chunk and Gap the longest silence, in seconds; 0 where no answer came.
	FirstChunk, Gap, Took float64
}

// Wasted reports whether the tokens of the request were for nothing: it failed, and no person had stopped it.
func (r *Request) Wasted() bool {
	return r.Class != "" && r.Class != "output_limited" && (r.Class != "local_abort" || r.Cause != "user")
}

// Tool is one execution of a tool.
type Tool struct {
	Name, Effect, Outcome, Delivery string
	Failure
	Took float64
}

// Body returns the run's spans as the body of an OTLP/HTTP request in JSON.
func (r *Run) Body() []byte { return r.body }

// runBuilder plays one run, step by step.
type runBuilder struct {
	*generator
	run      *Run
	endpoint Endpoint
	id       string // of the run's span
	spans    []*span
	now      float64 // seconds from the run's start
	calls    int
	attempt  int
	// What the next request's history contains.
	historyCalls, historyOutputs []string
	withEffects                  bool // a tool ran that must not run twice
	shown                        bool // text was shown before it broke
	unended                      bool
	runError                     string
}

func (g *generator) newRun(service, agent string, e Endpoint) *runBuilder {
	return &runBuilder{
		generator: g, endpoint: e, id: g.spanID(), attempt: 1,
		run: &Run{TraceID: fmt.Sprintf("%016x%016x", g.ids.Uint64(), g.ids.Uint64()), Service: service, Agent: agent},
	}
}

func (g *generator) spanID() string { return fmt.Sprintf("%016x", g.ids.Uint64()|1) }

// request adds a request that is sent, with the attributes of how it ended.
func (t *runBuilder) request(r Request, attributes map[string]any, failed bool) {
	r.Endpoint = t.endpoint
	from := t.now + 0.05
	t.now = from + r.Took
	all := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": t.endpoint.Provider, "gen_ai.request.model": t.endpoint.Model,
		"gen_ai.request.stream": true, "gen_ai.agent.name": t.run.Agent,
		"server.address": t.endpoint.Address, "server.port": 443,
		"llm.run.id": t.id, "llm.request.attempt": t.attempt, "llm.request.provider_tools": []string{},
		"llm.history.tool_calls": t.historyCalls, "llm.history.tool_outputs": t.historyOutputs,
	}
	if r.UsageSeen {
		all["gen_ai.usage.input_tokens"], all["gen_ai.usage.output_tokens"] = r.Input, r.Output
	}
	maps.Copy(all, attributes)
	t.run.Requests = append(t.run.Requests, r)
	t.spans = append(t.spans, &span{
		id: t.spanID(), parent: t.id, name: "chat " + t.endpoint.Model, kind: kindClient,
		from: from, to: t.now, failed: failed, attributes: all,
	})
}

// counts are what a stream is seen to have held.
type counts struct {
	text, reasoning, inputs, completed, calls int
	callIDs, openIDs                          []string
}

// streamed returns the attributes of a stream.
func streamed(r *Request, phase, end string, c counts) map[string]any {
	events := 1 + c.text + c.reasoning + 2*c.inputs
	attributes := map[string]any{
		"http.response.status_code": 200, "llm.stream.phase": phase, "llm.stream.end": end,
		"llm.stream.events": events, "llm.stream.bytes": 100 * events, "llm.stream.keepalives": 0,
		"llm.stream.text_chunks": c.text, "llm.stream.reasoning_chunks": c.reasoning,
		"llm.stream.tool_inputs_started": c.inputs, "llm.stream.tool_inputs_completed": c.completed,
		"llm.stream.tool_calls": c.calls, "llm.stream.provider_tools_started": 0,
		"llm.stream.time_to_headers": r.Took / 10, "llm.stream.last_progress": r.Took * 0.95,
		"gen_ai.response.time_to_first_chunk": r.FirstChunk, "llm.stream.longest_gap": r.Gap,
	}
	if c.callIDs != nil {
		attributes["llm.stream.tool_call_ids"] = c.callIDs
	}
	if c.openIDs != nil {
		attributes["llm.stream.open_tool_call_ids"] = c.openIDs
	}
	return attributes
}

// times returns a request with the times of a stream that lasted so many seconds.
func (t *runBuilder) times(took float64) Request {
	first := min(t.around(0.8, 0.5), took*0.6)
	return Request{Took: took, FirstChunk: first, Gap: max(first*0.5, took*0.1)}
}

// usage fills in the tokens that the provider reported.
func (t *runBuilder) usage(r *Request, part float64) {
	r.UsageSeen = true
	r.Input, r.Output = int(t.around(9000, 0.7)), 1+int(t.around(400, 0.7)*part)
}

// answers adds a request that the model answers with text.
func (t *runBuilder) answers() {
	r := t.times(t.around(4, 0.4))
	t.usage(&r, 1)
	a := streamed(&r, "stream_end", "terminal_event", counts{text: 3})
	a["gen_ai.response.finish_reasons"] = []string{"stop"}
	t.request(r, a, false)
	t.attempt = 1
}

// asksForTool adds a request that the model answers with a call of a tool, and returns its ID.
func (t *runBuilder) asksForTool() string {
	t.calls++
	call := fmt.Sprintf("call_%d", t.calls)
	r := t.times(t.around(2, 0.4))
	t.usage(&r, 0.3)
	a := streamed(&r, "stream_end", "terminal_event", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{call}})
	a["gen_ai.response.finish_reasons"] = []string{"tool_calls"}
	t.request(r, a, false)
	t.attempt = 1
	return call
}

// toolbox is the tools, with their effects.
var toolbox = []Tool{
	{Name: "read_file", Effect: "read_only"},
	{Name: "grep", Effect: "read_only"},
	{Name: "run_tests", Effect: "idempotent"},
	{Name: "apply_patch", Effect: "non_idempotent"},
	{Name: "web_search", Effect: "read_only"},
	{Name: "create_ticket", Effect: "non_idempotent"},
}

var (
	toolWeights = []float64{30, 20, 15, 20, 8, 7}
	harmless    = []float64{30, 20, 15, 0, 8, 0}
	harmful     = []float64{0, 0, 0, 20, 0, 7}
)

// runs adds the execution of a tool.
func (t *runBuilder) runs(tool Tool, call string, attributes map[string]any, failed bool) {
	tool.Took = t.around(0.6, 0.9)
	from := t.now + 0.02
	t.now = from + tool.Took
	all := map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool.Name, "gen_ai.tool.call.id": call,
		"gen_ai.agent.name": t.run.Agent, "llm.run.id": t.id, "llm.tool.effect": tool.Effect, "llm.tool.outcome": tool.Outcome,
	}
	if tool.Delivery != "" {
		all["llm.tool.output_delivery"] = tool.Delivery
	}
	maps.Copy(all, attributes)
	t.withEffects = t.withEffects || tool.Effect == "non_idempotent"
	t.run.Tools = append(t.run.Tools, tool)
	t.spans = append(t.spans, &span{
		id: t.spanID(), parent: t.id, name: "execute_tool " + tool.Name, kind: kindInternal,
		from: from, to: t.now, failed: failed, attributes: all,
	})
}

// toolRound adds a call of a tool that runs well, and whose output the next request carries.
func (t *runBuilder) toolRound(weights []float64) {
	call := t.asksForTool()
	tool := toolbox[pick(t.rng, weights)]
	tool.Outcome, tool.Delivery = "succeeded", "sent"
	t.runs(tool, call, nil, false)
	t.delivered(call)
}

func (t *runBuilder) delivered(call string) {
	t.historyCalls, t.historyOutputs = append(t.historyCalls, call), append(t.historyOutputs, call)
}

// fails writes down what the run ended on.
func (t *runBuilder) fails(f Failure) {
	t.run.Outcome, t.run.Failure = "failed", f
	t.runError = "*errors.errorString"
}

// end adds the run's own span, unless it never ended, and puts the run at its time.
func (t *runBuilder) end(at time.Time) *Run {
	t.now += 0.05
	run := t.run
	run.At, run.Due, run.Took = at, at, t.now
	run.Provider, run.Model = run.Requests[0].Provider, run.Requests[0].Model
	for _, r := range run.Requests {
		if r.Provider != run.Provider {
			run.Provider = ""
		}
		if r.Model != run.Model {
			run.Model = ""
		}
	}
	if !t.unended {
		attributes := map[string]any{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": run.Agent,
			"llm.run.requests": len(run.Requests), "llm.run.tools": len(run.Tools),
		}
		if t.runError != "" {
			attributes["error.type"] = t.runError
		}
		t.spans = append(t.spans, &span{
			id: t.id, name: "invoke_agent " + run.Agent, kind: kindInternal, to: t.now, failed: t.runError != "", attributes: attributes,
		})
	}
	start := at.Add(-time.Duration(t.now * float64(time.Second)))
	body, err := request(run.Service, run.Service+"-1", run.TraceID, start, t.spans)
	if err != nil {
		panic(err) // only strings, numbers and lists of strings
	}
	run.body, run.Spans = body, len(t.spans)
	return run
}
