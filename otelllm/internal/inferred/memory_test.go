package inferred

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// openRequest is a request that a recorder has begun.
type openRequest struct{ facts classify.Request }

func (q *openRequest) Snapshot(time.Time) (classify.Request, bool) { return q.facts, false }
func (q *openRequest) SoFar() classify.Request                     { return q.facts }

// agentOfMany is an agent that calls tools in each step, in words of its own.
type agentOfMany struct {
	t        *testing.T
	source   *Source
	header   http.Header
	n        int
	steps    int
	calls    int // in each answer
	messages strings.Builder
	ids      []string
}

func newAgentOfMany(t *testing.T, s *Source, n int) *agentOfMany {
	t.Helper()
	a := &agentOfMany{t: t, source: s, n: n, calls: 1}
	if n%2 == 0 {
		a.header = http.Header{"User-Agent": {"codex_exec/0.169.0"}, "Session-Id": {fmt.Sprintf("01a203c0-9208-7863-86fa-%012d", n)}}
	}
	fmt.Fprintf(&a.messages, `{"role":"user","content":"task %d"}`, n)
	return a
}

// step sends a request, as a recorder does, whose answer has a call.
func (a *agentOfMany) step(now time.Time) *Request {
	body := `{"model":"m","messages":[` + a.messages.String() + `]}`
	q := a.source.Begin(context.Background(), now, a.header, func(read func([]byte)) { read([]byte(body)) })
	if !q.Recorded() {
		a.t.Fatal("not recorded")
	}
	ids := func() (list []string) {
		for _, id := range a.ids[max(0, len(a.ids)-classify.MaxIDs):] {
			list = append(list, strings.Clone(id))
		}
		return list
	}
	open := &openRequest{}
	q.Run().RequestBegan(open, a.ids)
	q.Follow(open)
	f := spanfacts.Request{ResponseID: fmt.Sprintf("chatcmpl-%08x%012x", a.n, a.steps)}
	f.Request = classify.Request{
		Start: now, End: now, Basis: classify.Typed, Status: http.StatusOK, Ended: semconv.StreamEndTerminalEvent, Finish: classify.FinishToolCalls,
		ToolCalls: classify.Counted(a.calls), ToolInputsCompleted: classify.Counted(a.calls), HistoryCalls: ids(), HistoryOutputs: ids(),
	}
	var calls []wire.Call
	var made, outputs []string
	for i := range a.calls {
		id := fmt.Sprintf("call_%08x%012x", a.n, uint64(a.steps*a.calls+i)*0x9e3779b97f4a)
		f.CallIDs = append(f.CallIDs, id)
		calls = append(calls, wire.Call{ID: strings.Clone(id), Name: strings.Clone("run_shell_command"), Completed: true})
		made = append(made, `{"id":"`+id+`","type":"function","function":{"name":"run_shell_command","arguments":"{}"}}`)
		outputs = append(outputs, `{"role":"tool","tool_call_id":"`+id+`","content":"done"}`)
		a.ids = append(a.ids, id)
	}
	q.Run().RequestEnded(open, &f.Request)
	q.Ended(&f, calls)
	a.messages.WriteString(`,{"role":"assistant","tool_calls":[` + strings.Join(made, ",") + `]},` + strings.Join(outputs, ","))
	a.steps++
	return q
}

func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The bound on memory covers what open runs keep: their requests, their tools and their
// spans.
func TestMemory(t *testing.T) {
	few := []int{1, 2, 1, 5, 1, 10}
	for _, tt := range []struct {
		name  string
		bytes int   // the bound
		n     int   // of agents
		steps []int // of the agents in turn
		calls int
		all   bool // all of them have room
	}{
		{"one step", 16 << 20, 10_000, []int{1}, 1, false},
		{"a few steps", 4 << 20, 2000, few, 1, false},
		{"ten thousand open runs", 128 << 20, 10_000, few, 1, true},
		{"long runs", 4 << 20, 250, []int{1, 10, 10, 30, 100}, 1, false},
		{"many calls", 4 << 20, 120, []int{1, 3, 10}, 20, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if sample.Only() && len(tt.steps) > 1 {
				t.Skip("takes seconds")
			}
			synctest.Test(t, func(t *testing.T) {
				limits := kinship.DefaultConfig()
				limits.MaxBytes = tt.bytes
				provider := sdktrace.NewTracerProvider()
				var registry live.Registry
				before := inUse()
				s := Source{Runs: &Runs{}, Limits: limits, Run: agentrun.Config{TracerProvider: provider, Live: &registry}}
				now := time.Now()
				for i := range tt.n {
					a := newAgentOfMany(t, &s, i)
					a.calls = tt.calls
					for range tt.steps[i%len(tt.steps)] {
						a.step(now)
					}
				}
				kept := inUse() - before
				_, _, open := registry.Len()
				t.Logf("%d open runs: %d kB, %d kB counted", open, kept>>10, s.Runs.tracker.Bytes()>>10)
				assert.LessOrEqual(t, s.Runs.tracker.Bytes(), tt.bytes)
				assert.LessOrEqual(t, float64(kept), 1.1*float64(tt.bytes))
				assert.InEpsilon(t, kept, s.Runs.tracker.Bytes(), 0.4)
				assert.Equal(t, tt.all, open == tt.n)
				s.Runs.Shutdown()
				_, _, open = registry.Len()
				assert.Zero(t, open)
				runtime.KeepAlive(&s)
				// A timer that is set keeps the runs of this test. It must not fire within the next one.
				time.Sleep(2 * maxTimer)
			})
		})
	}
}
