package classify

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// Some models and servers reuse the id of a call. The fate of an earlier call with the
// same id says nothing about a later one.
func TestReusedCallIDs(t *testing.T) {
	const (
		read  = semconv.ToolEffectReadOnly
		write = semconv.ToolEffectNonIdempotent
		ok    = semconv.ToolOutcomeSucceeded
	)
	cut := reset(semconv.PhaseResponseStarted)
	began := func(r *Request) { r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"call_0"} }
	twice := carries("call_0", "call_0")
	for _, c := range []struct {
		name     string
		requests []Request
		tools    []Tool
		want     string // verdict on the last request
		missing  []string
	}{
		{
			"the tool of this very response ran",
			[]Request{request(0, 1, calls("call_0")), request(3, 6, all(carries("call_0"), reset(semconv.PhaseToolInput), began))},
			[]Tool{tool(1, 2, "call_0", read, ok), tool(4, 5, "call_0", write, ok)},
			"stream_interrupted/connection_reset@tool_input user_confirmed_retry (tool_side_effect)", nil,
		},
		{
			"the second one ran, and the history stops before it",
			[]Request{request(0, 1, calls("call_0")), request(3, 4, all(carries("call_0"), calls("call_0"), carries("call_0"))), request(7, 8, all(cut, carries("call_0")))},
			[]Tool{tool(1, 2, "call_0", read, ok), tool(5, 6, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)", nil,
		},
		{
			"the second one ran, and its output is missing",
			[]Request{request(0, 1, calls("call_0")), request(3, 4, all(calls("call_0"), carries("call_0"))), request(7, 8, all(cut, carries("call_0"), func(r *Request) { r.HistoryCalls = []string{"call_0", "call_0"} }))},
			[]Tool{tool(1, 2, "call_0", read, ok), tool(5, 6, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)",
			[]string{"call_0"},
		},
		{
			"both are carried",
			[]Request{request(0, 1, calls("call_0")), request(3, 4, all(calls("call_0"), carries("call_0"))), request(7, 8, all(cut, twice))},
			[]Tool{tool(1, 2, "call_0", read, ok), tool(5, 6, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", nil,
		},
		{
			"one call that was executed again",
			[]Request{request(0, 1, calls("call_0")), request(7, 8, all(cut, carries("call_0")))},
			[]Tool{tool(1, 2, "call_0", write, semconv.ToolOutcomeFailed), tool(5, 6, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", nil,
		},
		{
			"the output in the history is an earlier run's",
			[]Request{request(0, 1, all(calls("call_0"), carries("call_0"))), request(5, 6, all(cut, carries("call_0")))},
			[]Tool{tool(2, 3, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)", nil,
		},
		{
			"one response makes two, and the history has one output",
			[]Request{request(0, 1, calls("call_0", "call_0")), request(5, 6, all(cut, carries("call_0")))},
			[]Tool{tool(2, 3, "call_0", write, ok), tool(3, 4, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)", nil,
		},
		{
			"a clock of whole milliseconds",
			[]Request{request(0, 1, calls("call_0")), request(2.0001, 3, all(cut, carries("call_0")))},
			[]Tool{tool(2.0005, 2.0006, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", nil,
		},
		{
			"a millisecond by such a clock",
			[]Request{request(0, 1, calls("call_0")), request(2, 3, all(cut, carries("call_0")))},
			[]Tool{tool(2.001, 2.0015, "call_0", write, ok)},
			"stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(true, c.requests, c.tools...)
			v := Judge(&r)
			last := &v.Requests[len(v.Requests)-1]
			assert.Equal(t, c.want, words(last))
			assert.Equal(t, c.missing, last.MissingOutputs)
		})
	}
}

// Of a long history only the newest ids are known, of calls and of outputs separately. An
// id that the lists have dropped is not observed to be lost.
func TestCutHistories(t *testing.T) {
	const ok = semconv.ToolOutcomeSucceeded
	newest := func(ids []string) []string { return ids[max(0, len(ids)-MaxIDs):] }
	var ids []string
	var tools []Tool
	for i := range 70 {
		id := "call_" + strconv.Itoa(i)
		ids = append(ids, id)
		tools = append(tools, tool(1+float64(i)/100, 1.005+float64(i)/100, id, semconv.ToolEffectReadOnly, ok))
	}
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	history := func(calls, outputs []string) func(*Request) {
		return func(r *Request) { r.HistoryCalls, r.HistoryOutputs = newest(calls), newest(outputs) }
	}
	cut := reset(semconv.PhaseResponseStarted)
	for _, c := range []struct {
		name     string
		requests []Request
		tools    []Tool
		missing  []string
	}{
		{"in order", []Request{request(0, 1, calls(ids...)), request(3, 4, all(cut, history(ids, ids)))}, tools, nil},
		{"the other way round", []Request{request(0, 1, calls(ids...)), request(3, 4, all(cut, history(ids, reversed)))}, tools, nil},
		{
			"the last one of a later response is lost",
			[]Request{
				request(0, 0.5, calls(ids[:69]...)), request(2, 2.5, all(calls(ids[69]), history(ids[:69], ids[:69]))),
				request(5, 6, all(cut, history(ids, ids[:69]))),
			},
			append(slices.Clone(tools[:69]), tool(3, 4, ids[69], semconv.ToolEffectReadOnly, ok)),
			[]string{ids[69]},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(true, c.requests, c.tools...)
			v := Judge(&r)
			assert.Equal(t, c.missing, v.Requests[len(v.Requests)-1].MissingOutputs)
			assert.Equal(t, c.missing == nil, v.Run.Class != semconv.ClassToolOutputLost, words(&v.Run))
		})
	}
}

// An output that could not be sent was not omitted by a later request, even if the
// application goes on to ask for an answer without it.
func TestDeliveryFailedBeforeTheNextRequest(t *testing.T) {
	failed := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed)
	failed.Delivery = semconv.OutputDeliveryFailed
	next := request(3, 4, func(r *Request) {
		r.Ended, r.Phase, r.Status = semconv.StreamEndNoResponse, semconv.PhaseAwaitingResponse, 0
		r.Transport = Transport{Stage: semconv.TransportStageWrite, Cause: semconv.TransportCauseWriteFailed}
		r.HistoryCalls = []string{"a"}
	})
	r := run(true, []Request{request(0, 1, calls("a")), next}, failed)
	v := Judge(&r)
	assert.Equal(t, "tool_output_lost/delivery_failed@tool_output_delivery user_confirmed_retry (tool_side_effect)", words(&v.Run))
}

// If a transport resends a request by itself and is then refused, the request had been
// sent.
func TestRefusedAfterItWasSent(t *testing.T) {
	for phase, want := range map[semconv.Phase]string{
		semconv.PhaseAwaitingResponse: "stream_interrupted/closed_before_headers@awaiting_response user_confirmed_retry (provider_tool_side_effect)",
		semconv.PhaseBeforeConnection: "connection_failed/connect_refused@before_connection safe_auto_retry (nothing_left_client)",
		semconv.PhaseUnknown:          "connection_failed/connect_refused@before_connection safe_auto_retry (nothing_left_client)",
	} {
		refused := request(0, 1, func(r *Request) {
			r.Ended, r.Phase, r.Status, r.Events = semconv.StreamEndNoResponse, phase, 0, Counted(0)
			r.Transport = Transport{semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED"}
			r.ProviderTools = []string{"mcp"}
		})
		v := Judge(&Run{Start: t0, End: at(2), Ended: Yes, Requests: []Request{refused}})
		assert.Equal(t, want, words(&v.Requests[0]))
	}
}

// While the second call with an id runs, a retry is sent that carries the output of the
// first call. It does not owe the output of the second, unlike a retry that carries
// neither.
func TestReusedIDInFlightAtTheRetry(t *testing.T) {
	const ok = semconv.ToolOutcomeSucceeded
	requests := []Request{
		request(0, 1, calls("call_0")),
		request(3, 4, all(calls("call_0"), carries("call_0"), reset(semconv.PhaseToolCallReady))),
		request(6, 7, all(answers, carries("call_0"))),
	}
	tools := []Tool{tool(1, 2, "call_0", semconv.ToolEffectReadOnly, ok), tool(4, 9, "call_0", semconv.ToolEffectReadOnly, ok)}
	r := run(false, requests, tools...)
	assert.Equal(t, semconv.RunOutcomeRecovered, Judge(&r).Run.Outcome)

	requests[2].HistoryCalls = nil
	r = run(false, append(slices.Clone(requests), request(7, 8, answers)), tools...)
	v := Judge(&r)
	assert.Equal(t, "tool_output_lost/omitted_from_retry@tool_output_delivery user_confirmed_retry (visible_output)", words(&v.Run))
}

// After a complete answer has received an output, a conversation may drop both the output
// and its call, whatever carries it later.
func TestOutputSummarisedAwayAndBack(t *testing.T) {
	r := run(true, []Request{
		request(0, 1, calls("a")), request(3, 4, all(answers, carries("a"))),
		request(5, 6, reset(semconv.PhaseResponseStarted)), request(7, 8, all(answers, carries("a"))),
	}, tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	v := Judge(&r)
	assert.Empty(t, v.Requests[2].MissingOutputs)
	assert.Equal(t, "stream_interrupted/connection_reset@response_started safe_auto_retry (read_only_tools_only)", words(&v.Requests[2]))
}

// executed returns tools that executed calls with these ids, all at the same time.
func executed(from, to float64, ids ...string) (tools []Tool) {
	for _, id := range ids {
		tools = append(tools, tool(from, to, id, semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	}
	return tools
}

// If more outputs are missing than can be named, the earliest are named.
func TestMoreMissingOutputsThanAreNamed(t *testing.T) {
	const half = MaxIDs / 2
	named := ids(2*half + 1)
	tools := append(executed(3, 3.5, named[2*half]), executed(1, 2, named[:2*half]...)...)
	two := []Request{request(0, 0.5, calls(named[:half]...)), request(0, 0.5, calls(named[half:]...))}
	cut := reset(semconv.PhaseResponseStarted)

	r := run(true, append(slices.Clone(two), request(4, 5, cut)), tools...)
	v := Judge(&r)
	assert.Equal(t, named[:2*half], v.Requests[2].MissingOutputs)
	assert.Len(t, v.Run.MissingOutputs, MaxIDs, "that no request took up")

	cut(&two[0])
	cut(&two[1])
	r = run(true, append(slices.Clone(two), request(4, 5, answers)), tools...)
	v = Judge(&r)
	assert.Equal(t, semconv.CauseOmittedFromRetry, v.Run.Cause)
	assert.Len(t, v.Run.MissingOutputs, MaxIDs, "that a retry left out")

	r = run(true, []Request{two[0], request(3, 4, calls(named[half:]...))}, append(executed(1, 2, named[:half]...), executed(5, 6, named[half:]...)...)...)
	v = Judge(&r)
	assert.Equal(t, semconv.CauseOmittedFromRetry, v.Run.Cause)
	assert.Equal(t, named[:MaxIDs], v.Run.MissingOutputs, "of both")
}

// A request carried the output, which its tool calls sent, and was cut; the retry left it
// out. The model never received it.
func TestSentWithACutRequest(t *testing.T) {
	for _, delivery := range []semconv.OutputDelivery{semconv.OutputDeliveryUnset, semconv.OutputDeliveryPending, semconv.OutputDeliverySent} {
		f := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
		f.Delivery = delivery
		cut := request(3, 4, all(carries("a"), reset(semconv.PhaseText)))
		left := request(5, 6, answers)
		left.HistoryCalls, left.HistoryOutputs = []string{}, []string{}
		r := run(false, []Request{request(0, 1, calls("a")), cut, left}, f)
		v := Judge(&r)
		assert.Equal(t, semconv.ClassToolOutputLost, v.Run.Class, delivery)
		assert.Equal(t, semconv.CauseOmittedFromRetry, v.Run.Cause, delivery)

		again := request(5, 6, all(answers, carries("a")))
		r = run(false, []Request{request(0, 1, calls("a")), cut, again}, f)
		assert.Equal(t, semconv.RunOutcomeRecovered, Judge(&r).Run.Outcome, delivery)
	}
}
