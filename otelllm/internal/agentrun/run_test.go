package agentrun

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// The recent parts have the tool that executed a call if they have the request that made
// the call.
func TestRecentParts(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		at := time.Unix(0, 0)
		step := func() time.Time {
			at = at.Add(time.Second)
			return at
		}
		var all parts
		executed := map[int][]int{} // the tools of a request, by its index
		for i := range 20 {
			all.requests = append(all.requests, classify.Request{Start: step(), End: step()})
			for range rnd.IntN(4) {
				executed[i] = append(executed[i], len(all.tools))
				all.tools = append(all.tools, &Tool{begun: step()})
			}
		}
		for _, n := range []int{1, 2, 5, 10, 19, 20, 100} {
			recent := all.recent(n)
			assert.LessOrEqual(t, len(recent.requests), n)
			assert.LessOrEqual(t, len(recent.tools), n)
			assert.Equal(t, all.requests[len(all.requests)-len(recent.requests):], recent.requests, "the last ones")
			for i := len(all.requests) - len(recent.requests); i < len(all.requests); i++ {
				for _, tool := range executed[i] {
					assert.Contains(t, recent.tools, all.tools[tool], "seed %d, %d recent parts, request %d", seed, n, i)
				}
			}
			if n == 100 {
				assert.Equal(t, all, recent)
			}
		}
	}
}

// panicRequest is an open request that panics when it is asked for its facts.
type panicRequest struct{}

func (*panicRequest) Snapshot(time.Time) (classify.Request, bool) { panic("secret") }
func (*panicRequest) SoFar() classify.Request                     { panic("secret") }

// A request that panics during a diagnosis must not block the run.
func TestOpenRequestThatPanics(t *testing.T) {
	var open live.Registry
	_, run := Start(t.Context(), Config{Live: &open})
	q := &panicRequest{}
	run.RequestBegan(q, nil)
	func() {
		defer func() { _ = recover() }()
		_ = run.Diagnosis()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run.RequestEnded(q, &classify.Request{Failed: classify.No})
		run.End(nil)
		assert.Equal(t, 1, run.Kept().Requests)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the run is blocked")
	}
}

// The last request may join its run after it began. One before it may not.
func TestLastRequestJoinsLate(t *testing.T) {
	run := StartInferred(t.Context(), Config{Live: &live.Registry{}}, time.Now(), trace.SpanContext{})
	_, last := WithLastRequest(t.Context())
	first, second := &otherRequest{}, &otherRequest{}
	last.RequestBegan(first, nil)
	last.RequestBegan(second, nil)
	last.RequestJoined(first, run)
	assert.Nil(t, last.run)
	last.RequestJoined(second, run)
	assert.Same(t, run, last.run)
}

// otherRequest is not empty: two of them differ.
type otherRequest struct {
	panicRequest

	_ int
}

// What a run keeps does not grow with the square of its steps: requests share the ids of
// the history that they have in common.
func TestRequestsShareTheirHistory(t *testing.T) {
	_, run := Start(t.Context(), Config{Live: &live.Registry{}})
	end := func(ids ...string) {
		q := &otherRequest{}
		run.RequestBegan(q, nil)
		calls, outputs := slices.Clone(ids), slices.Clone(ids)
		for i := range ids {
			calls[i], outputs[i] = strings.Clone(ids[i]), strings.Clone(ids[i])
		}
		run.RequestEnded(q, &classify.Request{HistoryCalls: calls, HistoryOutputs: outputs})
	}
	var history []string
	for n := range 100 {
		end(history[max(0, n-classify.MaxIDs):]...)
		history = append(history, "call_"+strconv.Itoa(n))
	}
	kept := map[*byte]bool{}
	for n, q := range run.requests {
		want := history[max(0, n-classify.MaxIDs):n]
		assert.True(t, slices.Equal(want, q.HistoryCalls))
		for _, id := range slices.Concat(q.HistoryCalls, q.HistoryOutputs) {
			kept[unsafe.StringData(id)] = true
		}
	}
	assert.Len(t, kept, 2*99, "each id once")

	// Another history does not overwrite this one.
	end("call_98", "x")
	end("call_98", "x", "y")
	end(history[36:]...)
	last := run.requests[len(run.requests)-4:]
	assert.Equal(t, history[35:99], last[0].HistoryCalls)
	assert.Equal(t, []string{"call_98", "x"}, last[1].HistoryCalls)
	assert.Equal(t, []string{"call_98", "x", "y"}, last[2].HistoryCalls)
	assert.Equal(t, history[36:], last[3].HistoryCalls)
}

// A call whose output did not come back is named after the requests that show it were
// forgotten, until the output comes back after all.
func TestLostOutputIsNotForgotten(t *testing.T) {
	at := time.Unix(0, 0)
	run := StartInferred(t.Context(), Config{Live: &live.Registry{}}, at, trace.SpanContext{})
	var calls, outputs []string
	step := func(id string, finish classify.Finish) {
		q := &otherRequest{}
		run.RequestBegan(q, nil)
		f := classify.Request{
			Start: at, End: at.Add(time.Second), Basis: classify.Typed, Failed: classify.No, Status: 200, Finish: finish,
			Ended: semconv.StreamEndTerminalEvent, HistoryCalls: slices.Clone(calls), HistoryOutputs: slices.Clone(outputs),
			ToolCalls: classify.Counted(0), ToolInputsCompleted: classify.Counted(0),
		}
		if id != "" {
			f.CallIDs, f.ToolCalls, f.ToolInputsCompleted = []string{id}, classify.Counted(1), classify.Counted(1)
			calls = append(calls, id)
		}
		run.RequestEnded(q, &f)
		at = at.Add(2 * time.Second)
	}
	step("lost", classify.FinishToolCalls)
	for n := range 2 * maxInferredParts {
		id := "call_" + strconv.Itoa(n)
		step(id, classify.FinishToolCalls)
		run.Observe(Observed{CallID: id, Name: "run", From: at.Add(-time.Second), To: at})
		outputs = append(outputs, id)
		calls, outputs = calls[max(0, len(calls)-classify.MaxIDs):], outputs[max(0, len(outputs)-classify.MaxIDs):]
		assert.Equal(t, []string{"lost"}, run.Diagnosis().MissingOutputs)
	}
	assert.LessOrEqual(t, run.Kept().Requests, maxInferredParts)
	assert.Equal(t, []string{"lost"}, run.Diagnosis().MissingOutputs)
	assert.NotContains(t, calls, "lost", "no request that is kept shows it")

	outputs = append(outputs[1:], "lost")
	step("", classify.FinishStop)
	assert.Empty(t, run.Diagnosis().MissingOutputs)
}
