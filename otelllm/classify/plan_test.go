package classify

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

const pays = semconv.ToolEffectNonIdempotent

// planText is a plan in short: its lists, what to send and why to ask.
func planText(p Plan) string {
	list := func(calls []PlannedCall) (ids []string) {
		for _, c := range calls {
			id := c.ID
			if c.Output != OutputUnset {
				id += ":" + c.Output.String()
			}
			ids = append(ids, id)
		}
		return ids
	}
	more := ""
	if p.More {
		more = "+"
	}
	return fmt.Sprintf("ran%v may%v%s never%v %s %s", list(p.Ran), list(p.MayHaveRun), more, list(p.NeverRan), p.Send, p.Ask)
}

func TestPlanOfRun(t *testing.T) {
	succeeded := semconv.ToolOutcomeSucceeded
	for _, c := range []struct {
		name string
		run  Run
		want string
	}{
		{
			"nothing failed",
			run(false, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a")))}, tool(1, 2, "a", pays, succeeded)),
			"ran[a:delivered] may[] never[] nothing ",
		},
		{
			"a cut in the input of a call: it never ran",
			run(true, []Request{request(0, 1, all(reset(semconv.PhaseToolInput), func(r *Request) { r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"} }))}),
			"ran[] may[] never[a] again ",
		},
		{
			"a cut after a complete call that is not recorded: it may have run",
			Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1), Requests: []Request{request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))}},
			"ran[] may[a] never[] repaired_history tool_state_unknown",
		},
		{
			"the same where every tool is recorded: it never ran",
			run(true, []Request{request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))}),
			"ran[] may[] never[a] again ",
		},
		{
			"the request with the output failed: go on with it, and do not ask", // agno#10366
			run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(refused(500, semconv.ProviderErrorKindServerError), carries("a")))}, tool(1, 2, "a", pays, succeeded)),
			"ran[a:kept] may[] never[] rest ",
		},
		{
			"the retry left out the output", // codex#16255
			run(true, []Request{
				request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady))),
				request(3, 4, refused(500, semconv.ProviderErrorKindServerError)),
			}, tool(0.5, 2, "a", pays, succeeded)),
			"ran[a:lost] may[] never[] repaired_history tool_side_effect",
		},
		{
			"killed while a tool ran: it may have run",
			Run{Start: t0, Ended: No, Requests: []Request{request(0, 1, calls("a", "b"))}, Tools: []Tool{tool(1, 2, "a", pays, succeeded), {Start: at(2), CallID: "b", Name: "send"}}},
			"ran[a:lost] may[b]+ never[] repaired_history tool_side_effect",
		},
		{
			"killed with an output on disk: it is kept",
			func() Run {
				stored := tool(1, 2, "a", pays, succeeded)
				stored.Delivery = semconv.OutputDeliveryCached
				return Run{Start: t0, Ended: No, AnnouncedRequests: Counted(1), AnnouncedTools: Counted(1), Requests: []Request{request(0, 1, calls("a"))}, Tools: []Tool{stored}}
			}(),
			"ran[a:kept] may[] never[] rest tool_side_effect",
		},
		{
			"the client took an answer without an end, and the next request failed: go on with it, and do not ask",
			run(true, []Request{
				request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady))),
				request(3, 4, all(refused(500, semconv.ProviderErrorKindServerError), carries("a"))),
			}, tool(1, 2, "a", pays, succeeded)),
			"ran[a:kept] may[] never[] rest ",
		},
		{
			"it took one call of two",
			run(true, []Request{
				request(0, 1, all(calls("a", "b"), reset(semconv.PhaseToolCallReady))),
				request(3, 4, all(refused(500, semconv.ProviderErrorKindServerError), carries("a"))),
			}, tool(1, 2, "a", pays, succeeded)),
			"ran[a:kept] may[] never[b] rest tool_side_effect",
		},
		{
			"an id is used again, and the history has the output of the first call", // by tools that are not recorded
			Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(2), Requests: []Request{
				request(0, 1, all(calls("a"), carries())),
				request(3, 4, all(reset(semconv.PhaseToolInput), carries("a"), func(r *Request) { r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"} })),
			}},
			"ran[a:kept] may[] never[] rest ",
		},
		{
			"an id is used again, by a call that may have run as well",
			Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(2), Requests: []Request{
				request(0, 1, all(calls("a"), carries())),
				request(3, 4, all(calls("a"), reset(semconv.PhaseToolCallReady), carries("a"))),
			}},
			"ran[a:kept] may[a] never[] repaired_history tool_state_unknown",
		},
		{
			"an id is used again, and the history has one output for two calls",
			Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(3), Requests: []Request{
				request(0, 1, all(calls("a"), carries())),
				request(2, 3, all(calls("a"), carries("a"))),
				request(4, 5, all(refused(500, semconv.ProviderErrorKindServerError), carries("a"))),
			}},
			"ran[] may[a] never[] repaired_history tool_state_unknown",
		},
		{
			"the application rejected the call",
			run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(refused(503, semconv.ProviderErrorKindOverloaded), carries("a")))}, tool(1, 2, "a", pays, semconv.ToolOutcomeRejected)),
			"ran[] may[] never[a] again ",
		},
		{
			"a person stopped it",
			run(true, []Request{request(0, 1, aborted(semconv.AbortSourceUser))}),
			"ran[] may[] never[] nothing user_abort",
		},
		{
			"the provider refused the history",
			run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(refused(400, semconv.ProviderErrorKindInvalidRequest), func(r *Request) {
				r.HistoryCalls, r.Provider.History = []string{"a"}, semconv.ProviderErrorHistoryMissingOutput
			}))}, tool(1, 2, "a", pays, succeeded)),
			"ran[a:lost] may[] never[] repaired_history not_transient",
		},
	} {
		assert.Equal(t, c.want, planText(PlanRun(&c.run)), c.name)
	}
}

func TestPlanOfCall(t *testing.T) {
	r := run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(refused(429, semconv.ProviderErrorKindRateLimited), carries("a"), func(r *Request) { r.RetryAfter = 3 * time.Second }))},
		tool(1, 2, "a", pays, semconv.ToolOutcomeSucceeded))
	p := PlanCall(&r, []int{1})
	assert.Equal(t, "ran[a:kept] may[] never[] again ", planText(p))
	assert.Equal(t, 3*time.Second, p.Wait)
	assert.Equal(t, "Already done: apply_patch (a) ran, and the output is still to be sent. Do not call it again. Wait 3 seconds. It is safe to send the same again.", p.String())

	refusedKey := run(true, []Request{request(0, 1, refused(401, semconv.ProviderErrorKindAuthentication))})
	assert.Equal(t, "Do not send the same again (not_transient).", PlanRun(&refusedKey).String())

	shown := run(true, []Request{request(0, 1, all(reset(semconv.PhaseText), func(r *Request) { r.Text = Counted(2) }))})
	assert.Equal(t, "ran[] may[] never[] rest visible_output", planText(PlanCall(&shown, []int{0})))
}

func TestPlanAsJSON(t *testing.T) {
	p := Plan{
		Ran:        []PlannedCall{{"call_1", "pay", pays, OutputKept}},
		MayHaveRun: []PlannedCall{{"call_2", "", semconv.ToolEffectUnknown, OutputUnset}},
		More:       true, Send: semconv.ResumeSendRepairedHistory, Wait: 1500 * time.Millisecond, Ask: semconv.RetryReasonToolSideEffect,
	}
	out, err := json.Marshal(p)
	require.NoError(t, err)
	assert.JSONEq(t, `{"ran":[{"id":"call_1","name":"pay","effect":"non_idempotent","output":"kept"}],"may_have_run":[{"id":"call_2","effect":"unknown"}],
		"never_ran":[],"more":true,"send":"repaired_history","wait":1.5,"ask":"tool_side_effect",
		"words":"Already done: pay (call_1) ran, and the output is still to be sent. Do not call it again. Unknown: a tool (call_2) may have run. Check what it did before you call it again. Other calls may have run that are not recorded. Ask a person before anything is sent (tool_side_effect). Wait 1.5 seconds. Before you go on, give each call without an output one that says what is known of it."}`, string(out))
	assert.Empty(t, Plan{}.String())
}

// What a producer did not sanitize is not shown, and every list is bounded.
func TestPlanShowsNoContent(t *testing.T) {
	const secret = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA please pay"
	r := Run{Ended: Yes, Failed: Yes}
	for i := range 3 * MaxIDs {
		q := request(float64(i), float64(i)+0.5, all(calls(fmt.Sprint(secret, i)), reset(semconv.PhaseToolCallReady)))
		q.CallNames = []string{secret}
		r.Requests = append(r.Requests, q)
		f := tool(float64(i), float64(i)+0.5, fmt.Sprint("t", secret, i), pays, semconv.ToolOutcomeSucceeded)
		f.Name = secret
		r.Tools = append(r.Tools, f)
	}
	p := PlanRun(&r)
	out, err := json.Marshal(p)
	require.NoError(t, err)
	assert.NotContains(t, string(out), "sk-ant")
	assert.NotContains(t, string(out), "please")
	assert.Len(t, p.Ran, MaxIDs)
	assert.Len(t, p.MayHaveRun, MaxIDs)
	assert.True(t, p.More)
	assert.Less(t, len(p.String()), 8<<10)
}

// TestPlanAgreesWithVerdict compares the plans of random runs with their verdicts.
func TestPlanAgreesWithVerdict(t *testing.T) {
	rounds := 4_000 / sample.Every(10)
	sends := map[semconv.ResumeSend]int{}
	for seed := range rounds {
		r := randomRun(rand.New(rand.NewPCG(uint64(seed), 7)))
		p := PlanRun(r)
		sends[p.Send]++
		if problem := planProblem(r, &p); problem != "" {
			t.Fatalf("seed %d: %s: %s", seed, problem, planText(p))
		}
		for i := range r.Requests[:min(3, len(r.Requests))] {
			p, d := PlanCall(r, []int{i}), JudgeCall(r, []int{i})
			if again := d.Failed() && d.Retry.Safety == SafeAutoRetry; again != (p.Send == semconv.ResumeSendAgain) {
				t.Fatalf("seed %d: request %d: %s with %s", seed, i, words(&d), planText(p))
			}
		}
	}
	for _, send := range semconv.ResumeSendValues() {
		assert.Positive(t, sends[send], send)
	}
}

// planProblem returns what is wrong with the plan of a run.
func planProblem(r *Run, p *Plan) string {
	v := Judge(r)
	d := &v.Run
	ids := func(calls []PlannedCall) (list []string) {
		for i := range calls {
			list = append(list, calls[i].ID)
		}
		return list
	}
	listed := append(ids(p.Ran), ids(p.MayHaveRun)...)
	nothing := len(listed) == 0 && !p.More
	again := p.Send == semconv.ResumeSendAgain
	harmful := func(c PlannedCall) bool { return c.Effect >= semconv.ToolEffectNonIdempotent }
	switch {
	case again != (d.Failed() && d.Retry.Safety == SafeAutoRetry):
		return "again, by " + words(d)
	case (p.Send == semconv.ResumeSendUnset) != (d.Outcome == semconv.RunOutcomeUnset):
		return "something is said of a run of which nothing is known, or the other way round"
	case again && (p.More || slices.ContainsFunc(p.MayHaveRun, harmful)):
		return "again, although a tool may have run"
	case p.Ask == semconv.RetryReasonUnset && d.Failed() && (p.More || len(p.MayHaveRun) > 0 && !again || p.anyLost() && !again):
		return "no question, although a tool may have run or an output is lost"
	case p.Ask == semconv.RetryReasonUnset && d.Failed() && d.Retry.Safety == NoRetry:
		return "no question where a retry cannot help"
	case (v.Effects.calls == callsUnknown || v.Effects.started.has(pays)) && nothing && !continuesEarlier(r):
		return "the verdict knows of calls that ran or may have run"
	case len(p.Ran) > MaxIDs || len(p.MayHaveRun) > MaxIDs || len(p.NeverRan) > MaxIDs:
		return "out of bounds"
	}
	for _, id := range ids(p.NeverRan) {
		if slices.Contains(listed, id) {
			return "it never ran, and it did: " + id
		}
		if problem := neverRanProblem(r, id); problem != "" {
			return problem + ": " + id
		}
	}
	return ""
}

// continuesEarlier reports whether the history of the run's first request shows calls of an earlier
// run, which the verdict takes into account and the plan does not list.
func continuesEarlier(r *Run) bool {
	j := judge{run: r}
	j.prepare()
	first := j.requestAt(0)
	return len(first.HistoryCalls)+len(first.HistoryOutputs) > 0
}

// neverRanProblem returns why the call with an id is not known not to have run.
func neverRanProblem(r *Run, id string) string {
	for t := range r.Tools {
		if tool := &r.Tools[t]; tool.CallID == id && tool.MayHaveActed() {
			return "a tool executed it"
		}
	}
	j := judge{run: r}
	j.prepare()
	for pos := range j.order {
		q := j.requestAt(int32(pos))
		rejected := slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.CallID == id })
		if hasID(q.CallIDs, id) && j.callState(pos) == callsUnknown && !rejected {
			return "the verdict does not know whether a call of its request ran"
		}
		if hasID(q.HistoryOutputs, id) && !j.toolsRecorded() && !rejected {
			return "a history has its output"
		}
	}
	return ""
}

// A tool in a run within this one may have executed a call of a broken answer: an application starts
// a run for what a call asks for.
func TestCallExecutedWithin(t *testing.T) {
	inner := func(effect semconv.ToolEffect) Effects {
		r := Run{
			Start: at(1), End: at(2), Ended: Yes, Failed: No, AnnouncedRequests: Counted(0), AnnouncedTools: Counted(1),
			Tools: []Tool{tool(1, 2, "", effect, semconv.ToolOutcomeSucceeded)},
		}
		return Judge(&r).Effects
	}
	for effect, want := range map[semconv.ToolEffect]semconv.RetrySafety{
		semconv.ToolEffectNonIdempotent: UserConfirmedRetry, semconv.ToolEffectUnknown: UserConfirmedRetry, semconv.ToolEffectReadOnly: SafeAutoRetry,
	} {
		r := lone(all(calls("call_1"), reset(semconv.PhaseToolCallReady), carries(), func(q *Request) { q.Finish = FinishNotObserved }))
		r.ToolsRecorded, r.Inner = Yes, inner(effect)
		d := JudgeCall(&r, []int{0})
		assert.Equal(t, want, d.Retry.Safety, "%v: %v", effect, d.Retry.Reason)
		assert.Equal(t, want == SafeAutoRetry, PlanCall(&r, []int{0}).Send == semconv.ResumeSendAgain, effect)
	}
}

// TestPlanKnowsWorld plays agents whose calls are known to have been executed or not, and records
// them as producers do: with or without their tools, up to the moment at which their process was
// killed. No plan says that a call never ran that did, or that one ran that did not.
func TestPlanKnowsWorld(t *testing.T) {
	rounds := 60_000 / sample.Every(30)
	var ran, may, never, again, unasked, safeCalls int
	for seed := range rounds {
		w := newWorld(uint64(seed))
		w.play()
		p := PlanRun(&w.run)
		text := func() string { return fmt.Sprintf("seed %d: %s, %s", seed, planText(p), w) }
		for _, c := range p.NeverRan {
			require.Empty(t, w.executionsOf(c.ID), text())
		}
		for _, c := range p.Ran {
			require.NotEmpty(t, w.executionsOf(c.ID), text())
			if c.Output == OutputDelivered {
				require.True(t, slices.ContainsFunc(w.executionsOf(c.ID), func(e *execution) bool { return e.delivered }), text())
			}
		}
		for _, e := range w.executions {
			listed := func(c PlannedCall) bool { return c.ID == e.id }
			require.True(t, p.More || slices.ContainsFunc(p.Ran, listed) || slices.ContainsFunc(p.MayHaveRun, listed), text())
		}
		if p.Send == semconv.ResumeSendAgain {
			require.Empty(t, w.executions, text()) // every tool pays
			again++
		}
		if p.Send == semconv.ResumeSendRest && p.Ask == semconv.RetryReasonUnset {
			for _, e := range w.executions {
				require.True(t, slices.Contains(w.history, e), text())
			}
			unasked++
		}
		last := len(w.run.Requests) - 1
		if d := JudgeCall(&w.run, []int{last}); d.Retry.Safety == SafeAutoRetry {
			for _, e := range w.executions {
				require.True(t, slices.Contains(w.sent, e), "the call is safe to repeat: "+text())
			}
			safeCalls++
		}
		ran, may, never = ran+len(p.Ran), may+len(p.MayHaveRun), never+len(p.NeverRan)
	}
	t.Logf("%d worlds: %d ran, %d may have run, %d never ran; %d again, %d go on unasked, %d calls safe to repeat", rounds, ran, may, never, again, unasked, safeCalls)
	for _, n := range []int{ran, may, never, again, unasked, safeCalls} {
		assert.Greater(t, n, rounds/100)
	}
}

// world is an agent with what really happened to its calls.
type world struct {
	r          *rand.Rand
	recorded   bool // its tools are recorded
	eager      bool // it executes a call as soon as it is complete
	ids        int  // how the model names calls; see name
	now        float64
	executions []*execution
	history    []*execution // those whose outputs it has
	sent       []*execution // those whose outputs the last request has
	run        Run
}

// execution is one execution of a call. Calls with the same id may be executed more than once.
type execution struct {
	id        string
	delivered bool
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 9))
	w := &world{r: r, recorded: r.IntN(2) == 0, eager: r.IntN(2) == 0, ids: r.IntN(4)}
	w.run.Start = t0
	return w
}

// play plays steps until one fails for good, the process is killed, or the model has answered.
func (w *world) play() {
	killed := false
	for step := 0; step < 4 && !killed; step++ {
		pending, failed := w.ask(step)
		if killed = w.r.IntN(8) == 0; killed || failed && w.r.IntN(2) == 0 {
			break
		}
		for _, id := range pending {
			killed = w.r.IntN(12) == 0
			if w.execute(id, killed); killed {
				break
			}
		}
	}
	if killed {
		w.run.Ended = No
		return
	}
	w.run.Ended, w.run.End, w.run.Failed = Yes, at(w.now), Yes
	w.run.AnnouncedRequests = Counted(len(w.run.Requests))
	if w.recorded {
		w.run.AnnouncedTools = Counted(len(w.run.Tools))
	}
}

// name returns the id that the model gives to a call of its answer.
func (w *world) name(step, call int) string {
	switch w.ids {
	case 0: // a new one for each call
		return fmt.Sprint("call_", step, "_", call)
	case 1: // by its place in the answer
		return fmt.Sprint("call_", call)
	case 2: // by its place in the conversation
		return fmt.Sprint("call_", len(w.history)+call)
	default:
		return "call"
	}
}

func (w *world) executionsOf(id string) (list []*execution) {
	for _, e := range w.executions {
		if e.id == id {
			list = append(list, e)
		}
	}
	return list
}

func (w *world) String() string {
	ids := func(list []*execution) (ids []string) {
		for _, e := range list {
			ids = append(ids, e.id)
		}
		return ids
	}
	return fmt.Sprintf("executed %v, has the outputs of %v, sent those of %v", ids(w.executions), ids(w.history), ids(w.sent))
}

// ask makes a request with all outputs that exist. It returns the calls to execute.
func (w *world) ask(step int) (pending []string, failed bool) {
	var made, open []string
	for i := range w.r.IntN(3) {
		made = append(made, w.name(step, i))
	}
	end := all(calls(made...))
	switch w.r.IntN(5) {
	case 0:
		end, made, failed = refused(503, semconv.ProviderErrorKindOverloaded), nil, true
	case 1:
		open, failed = []string{w.name(step, len(made))}, true
		end = all(calls(made...), reset(semconv.PhaseToolInput), func(r *Request) {
			r.ToolInputsStarted, r.OpenCallIDs, r.Finish = Counted(len(made)+1), open, FinishNotObserved
		})
	case 2:
		end, failed = all(calls(made...), reset(semconv.PhaseToolCallReady), func(r *Request) { r.Finish = FinishNotObserved }), true
	}
	var outputs []string
	for _, e := range w.history {
		outputs = append(outputs, e.id)
	}
	w.sent = slices.Clone(w.history)
	q := request(w.now, w.now+1, all(end, carries(outputs...)))
	if len(w.history) == 0 {
		q.HistoryCalls, q.HistoryOutputs = []string{}, []string{}
	}
	w.now++
	w.run.Requests = append(w.run.Requests, q)
	for _, e := range w.history {
		e.delivered = e.delivered || !failed
	}
	if !failed || len(made) > 0 && w.r.IntN(4) == 0 { // it may take a broken answer for a complete one
		return made, false
	}
	if w.eager {
		for _, id := range made {
			w.execute(id, false)
		}
		w.history = w.history[:len(w.history)-len(made)] // what the calls of a broken answer returned is lost
	}
	return nil, true
}

// execute executes a call. A tool that is killed has no end.
func (w *world) execute(id string, killed bool) {
	e := &execution{id: id}
	w.executions = append(w.executions, e)
	f := tool(w.now, w.now+1, id, pays, semconv.ToolOutcomeSucceeded)
	w.now++
	if killed {
		f = Tool{Start: f.Start, CallID: id, Name: f.Name, Effect: f.Effect}
	} else {
		w.history = append(w.history, e)
	}
	if w.recorded && (!killed || w.r.IntN(2) == 0) {
		w.run.Tools = append(w.run.Tools, f)
	}
}
