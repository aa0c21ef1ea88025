package browser_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// A fleet is made-up agents: spans with the facts that the library records, and with times of
// seconds and minutes, which no test has the time to wait for. The verdicts on them are the
// engine's own.

// newest is when the newest run of a fleet begins.
var newest = time.Date(2026, 11, 23, 14, 3, 22, 0, time.UTC)

// fleet returns the records of n runs, the same for the same seed.
func fleet(t *testing.T, n int, seed uint64) []report.Record {
	t.Helper()
	store := runs.NewStore(1<<30, nil)
	fleetInto(t, n, seed, store)
	return store.Records()
}

func fleetInto(t *testing.T, n int, seed uint64, store *runs.Store) {
	t.Helper()
	var mu sync.Mutex
	judge, err := engine.Start(t.Context(), engine.Config{}, func(_ context.Context, td ptrace.Traces) error {
		mu.Lock()
		defer mu.Unlock()
		store.Add(td)
		return nil
	})
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(seed, 1))
	at := newest
	for i := range n {
		require.NoError(t, judge.ConsumeTraces(t.Context(), newRun(rnd, i, at)))
		at = at.Add(-time.Duration(20+rnd.IntN(100)) * time.Second)
	}
	require.NoError(t, judge.Shutdown(context.Background()))
}

// made is one run in the making.
type made struct {
	rnd      *rand.Rand
	spans    ptrace.SpanSlice
	trace    pcommon.TraceID
	run      ptrace.Span
	model    string
	provider string
	host     string
	start    time.Time
	now      time.Time
	ids      uint64
	calls    []any // ids of the calls in the history, all with outputs
	requests int64
	tools    int64
}

type scenario struct {
	weight int
	play   func(*made)
}

// scenarios are what happens to agents, the first four for the first four runs.
var scenarios = []scenario{
	{5, (*made).resetAfterTool},
	{36, (*made).healthy},
	{8, (*made).overloaded},
	{5, (*made).stalled},
	{4, (*made).stopped},
	{20, (*made).short},
	{3, (*made).limited},
	{4, (*made).parallel},
	{2, (*made).refused},
	{3, (*made).toolFails},
	{3, (*made).cleanEOF},
}

func newRun(rnd *rand.Rand, i int, at time.Time) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	agents := []struct{ name, service, model, provider, host string }{
		{"coder", "coder", "gpt-5.1-codex", "openai", "api.openai.com"},
		{"reviewer", "review-bot", "claude-sonnet-4-5", "anthropic", "api.anthropic.com"},
		{"support", "support-desk", "gpt-5.1-mini", "openai", "api.openai.com"},
		{"researcher", "research", "gemini-2.5-pro", "gcp.gemini", "generativelanguage.googleapis.com"},
	}
	a := agents[0]
	if i > 0 {
		a = agents[[]int{0, 0, 0, 1, 1, 2, 2, 2, 3}[rnd.IntN(9)]]
	}
	rs.Resource().Attributes().PutStr("service.name", a.service)
	m := &made{rnd: rnd, spans: rs.ScopeSpans().AppendEmpty().Spans(), model: a.model, provider: a.provider, host: a.host, start: at, now: at}
	binary.BigEndian.PutUint64(m.trace[:8], rnd.Uint64())
	binary.BigEndian.PutUint64(m.trace[8:], rnd.Uint64())
	m.run = m.span("invoke_agent "+a.name, pcommon.SpanID{}, "invoke_agent", "gen_ai.agent.name", a.name,
		"gen_ai.conversation.id", fmt.Sprintf("conv_%08x", rnd.Uint32()))
	pick := scenarios[min(i, len(scenarios)-1)]
	if i >= 4 {
		total := 0
		for _, s := range scenarios {
			total += s.weight
		}
		n := rnd.IntN(total)
		for _, s := range scenarios {
			if pick = s; n < s.weight {
				break
			}
			n -= s.weight
		}
	}
	pick.play(m)
	m.run.SetEndTimestamp(pcommon.NewTimestampFromTime(m.now))
	m.put(m.run, semconv.RunRequestsKey, m.requests, semconv.RunToolsKey, m.tools)
	return td
}

func (m *made) span(name string, parent pcommon.SpanID, operation string, attrs ...any) ptrace.Span {
	s := m.spans.AppendEmpty()
	m.ids++
	var id pcommon.SpanID
	binary.BigEndian.PutUint64(id[:], m.rnd.Uint64()|1)
	s.SetTraceID(m.trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(m.now))
	s.Attributes().PutStr("gen_ai.operation.name", operation)
	m.put(s, attrs...)
	return s
}

// put sets pairs of a key, a string or one of the vocabulary, and a value.
func (m *made) put(s ptrace.Span, attrs ...any) {
	for i := 0; i < len(attrs); i += 2 {
		if err := s.Attributes().PutEmpty(fmt.Sprint(attrs[i])).FromRaw(attrs[i+1]); err != nil {
			panic(err)
		}
	}
}

// ms returns a random time between two numbers of milliseconds.
func (m *made) ms(from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(m.rnd.IntN((to-from)*1000))*time.Microsecond
}

// modelCall is a model call in the making: what it has sent so far.
type modelCall struct {
	*made
	s            ptrace.Span
	began        time.Time
	last         time.Time
	gap          time.Duration
	events       int64
	text, reason int64
	ids          []any
	phase        string
}

func (m *made) ask(attempt int) *modelCall {
	m.requests++
	c := &modelCall{made: m, began: m.now, phase: "awaiting_response", s: m.span("chat "+m.model, m.run.SpanID(), "chat")}
	c.s.SetKind(ptrace.SpanKindClient)
	m.put(c.s, "gen_ai.provider.name", m.provider, "gen_ai.request.model", m.model, "server.address", m.host, "server.port", 443,
		semconv.RunIDKey, m.run.SpanID().String(), semconv.RequestAttemptKey, attempt, semconv.HistoryToolCallsKey, append([]any{}, m.calls...),
		semconv.HistoryToolOutputsKey, append([]any{}, m.calls...), semconv.RequestProviderToolsKey, []any{}, semconv.ConnectionReusedKey, m.requests > 1,
		semconv.RequestIDKey, fmt.Sprintf("req_%016x", m.rnd.Uint64()))
	c.event("llm.request.written")
	return c
}

func (c *modelCall) event(name string, attrs ...any) {
	e := c.s.Events().AppendEmpty()
	e.SetName(name)
	e.SetTimestamp(pcommon.NewTimestampFromTime(c.now))
	for i := 0; i < len(attrs); i += 2 {
		e.Attributes().PutStr(attrs[i].(string), attrs[i+1].(string))
	}
}

func (c *modelCall) progress() {
	if c.last.IsZero() {
		c.event("llm.stream.first_progress")
	} else {
		c.gap = max(c.gap, c.now.Sub(c.last))
	}
	c.last = c.now
	c.events++
}

func (c *modelCall) headers(status int) *modelCall {
	c.now = c.now.Add(c.ms(180, 700))
	c.event("llm.response.started")
	c.phase = "response_started"
	c.put(c.s, "http.response.status_code", status, semconv.StreamTimeToHeadersKey, c.now.Sub(c.began).Seconds(),
		"gen_ai.response.model", c.model, "gen_ai.response.id", fmt.Sprintf("resp_%016x", c.rnd.Uint64()))
	return c
}

func (c *modelCall) stream(kind string, from, to int) *modelCall {
	c.now = c.now.Add(c.ms(150, 600))
	end := c.now.Add(c.ms(from, to))
	c.phase = kind
	c.progress()
	c.event("llm.stream." + kind + "_started")
	for c.now.Before(end) {
		c.now = c.now.Add(c.ms(20, 180))
		c.progress()
		if kind == "text" {
			c.text++
		} else {
			c.reason++
		}
	}
	return c
}

func (c *modelCall) toolInput(name string, whole bool) *modelCall {
	c.now = c.now.Add(c.ms(40, 200))
	id := fmt.Sprintf("call_%08x", c.rnd.Uint32())
	c.phase = "tool_input"
	c.progress()
	c.event("llm.stream.tool_input_started", "gen_ai.tool.call.id", id, "gen_ai.tool.name", name)
	c.now = c.now.Add(c.ms(300, 1400))
	c.progress()
	if !whole {
		c.put(c.s, semconv.StreamOpenToolCallIDsKey, []any{id})
		return c
	}
	c.ids = append(c.ids, id)
	c.phase = "tool_call_ready"
	c.event("llm.stream.tool_input_completed", "gen_ai.tool.call.id", id, "gen_ai.tool.name", name)
	return c
}

// done ends the call's span. How it ended is what attrs say.
func (c *modelCall) done(end string, attrs ...any) *modelCall {
	last := 0.0
	if !c.last.IsZero() {
		last = c.last.Sub(c.began).Seconds()
	}
	open := int64(0)
	if c.phase == "tool_input" {
		open = 1
	}
	n := int64(len(c.ids))
	c.put(c.s, semconv.StreamEndKey, end, semconv.StreamPhaseKey, c.phase, semconv.StreamEventsKey, c.events, semconv.StreamBytesKey, c.events*173,
		semconv.StreamTextChunksKey, c.text, semconv.StreamReasoningChunksKey, c.reason, semconv.StreamToolCallsKey, n, semconv.StreamToolInputsCompletedKey, n,
		semconv.StreamToolInputsStartedKey, n+open, semconv.StreamProviderToolsStartedKey, 0, semconv.StreamKeepalivesKey, 0,
		semconv.StreamToolCallIDsKey, append([]any{}, c.ids...))
	if !c.last.IsZero() {
		c.put(c.s, semconv.StreamLastProgressKey, last, semconv.StreamLongestGapKey, c.gap.Seconds())
	}
	c.put(c.s, attrs...)
	c.s.SetEndTimestamp(pcommon.NewTimestampFromTime(c.now))
	return c
}

func (c *modelCall) finish(reason string) *modelCall {
	c.now = c.now.Add(c.ms(5, 40))
	c.phase = "stream_end"
	c.event("llm.stream.finish")
	return c.done("terminal_event", "gen_ai.response.finish_reasons", []any{reason}, "gen_ai.usage.input_tokens", 1200+c.rnd.IntN(30000), "gen_ai.usage.output_tokens", 20+c.rnd.IntN(900))
}

func (c *modelCall) reset() {
	c.event("llm.stream.interrupted")
	c.done("read_error", "error.type", "connection_reset", "gen_ai.response.finish_reasons", []any{"error"}, semconv.TransportCauseKey, "connection_reset",
		semconv.TransportCodeKey, "ECONNRESET", semconv.TransportStageKey, "body", semconv.TransportErrorChainKey, []any{"*net.OpError", "*os.SyscallError", "syscall.Errno"})
	c.fails("connection_reset")
}

// fails marks the run as failed.
func (m *made) fails(errorType string) {
	m.now = m.now.Add(m.ms(1, 4))
	m.run.Status().SetCode(ptrace.StatusCodeError)
	m.put(m.run, "error.type", errorType)
}

// tool runs the tool of a call.
func (m *made) tool(id any, name, effect, outcome string, from, to int) {
	m.tools++
	m.now = m.now.Add(m.ms(2, 30))
	s := m.span("execute_tool "+name, m.run.SpanID(), "execute_tool", "gen_ai.tool.name", name, "gen_ai.tool.call.id", id, "gen_ai.tool.type", "function",
		semconv.RunIDKey, m.run.SpanID().String(), semconv.ToolEffectKey, effect, semconv.ToolOutcomeKey, outcome, semconv.ToolOutputDeliveryKey, "pending")
	m.now = m.now.Add(m.ms(from, to))
	if outcome != "succeeded" {
		m.put(s, "error.type", "tool_error")
		s.Status().SetCode(ptrace.StatusCodeError)
	}
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(m.now))
	m.now = m.now.Add(m.ms(2, 60))
	m.calls = append(m.calls, id)
}

// reads is a step in which the model reads something with a tool.
func (m *made) reads() {
	c := m.ask(1).headers(200).stream("reasoning", 400, 2400).toolInput("read_file", true).finish("tool_calls")
	m.tool(c.ids[0], "read_file", "read_only", "succeeded", 40, 600)
}

func (m *made) healthy() {
	for range 1 + m.rnd.IntN(3) {
		m.reads()
	}
	if m.rnd.IntN(2) == 0 {
		c := m.ask(1).headers(200).stream("text", 300, 1200).toolInput("apply_patch", true).finish("tool_calls")
		m.tool(c.ids[0], "apply_patch", "non_idempotent", "succeeded", 100, 900)
	}
	m.ask(1).headers(200).stream("text", 1500, 5000).finish("stop")
}

func (m *made) short() { m.ask(1).headers(200).stream("text", 800, 6000).finish("stop") }

func (m *made) resetAfterTool() {
	m.reads()
	c := m.ask(1).headers(200).stream("reasoning", 600, 1500).stream("text", 700, 1600).toolInput("apply_patch", true).finish("tool_calls")
	m.tool(c.ids[0], "apply_patch", "non_idempotent", "succeeded", 700, 1500)
	d := m.ask(1).headers(200).stream("reasoning", 500, 1500).stream("text", 800, 2500)
	m.now = m.now.Add(m.ms(900, 2600))
	d.reset()
}

func (m *made) overloaded() {
	m.reads()
	for attempt := 1; attempt <= 2; attempt++ {
		c := m.ask(attempt).headers(503)
		c.done("http_error", "error.type", "503", semconv.ProviderErrorKindKey, "overloaded", semconv.ProviderErrorCodeKey, "overloaded_error", semconv.RetryAfterKey, 1.5)
		c.s.Status().SetCode(ptrace.StatusCodeError)
		m.now = m.now.Add(m.ms(1500, 1800))
	}
	m.ask(3).headers(200).stream("text", 1500, 4000).finish("stop")
}

func (m *made) stalled() {
	m.reads()
	c := m.ask(1).headers(200).stream("text", 1500, 4000)
	m.now = m.now.Add(30 * time.Second)
	c.event("llm.watchdog.fired")
	c.done("watchdog", "error.type", "watchdog", semconv.WatchdogKindKey, "idle", semconv.WatchdogLimitKey, 30.0, "gen_ai.response.finish_reasons", []any{"error"})
	m.fails("watchdog")
}

func (m *made) stopped() {
	m.reads()
	c := m.ask(1).headers(200).stream("text", 800, 3000)
	m.now = m.now.Add(m.ms(20, 120))
	c.event("llm.abort")
	c.done("cancelled", semconv.AbortSourceKey, "user", semconv.AbortReasonKey, "ctrl_c", "error.type", "cancelled")
	m.fails("cancelled")
}

func (m *made) limited() { m.ask(1).headers(200).stream("text", 4000, 9000).finish("length") }

func (m *made) refused() {
	c := m.ask(1)
	m.now = m.now.Add(m.ms(2, 9))
	c.phase = "before_connection"
	c.done("no_response", "error.type", "connect_refused", semconv.TransportCauseKey, "connect_refused", semconv.TransportCodeKey, "ECONNREFUSED", semconv.TransportStageKey, "connect")
	m.fails("connect_refused")
}

func (m *made) toolFails() {
	m.reads()
	c := m.ask(1).headers(200).stream("text", 400, 1200).toolInput("run_tests", true).finish("tool_calls")
	m.tool(c.ids[0], "run_tests", "unknown", "timed_out", 8000, 12000)
	m.fails("tool_error")
}

func (m *made) cleanEOF() {
	c := m.ask(1).headers(200).stream("text", 900, 2500).toolInput("write_file", false)
	c.event("llm.stream.interrupted")
	c.done("eof", "error.type", "unexpected_eof", "gen_ai.response.finish_reasons", []any{"error"})
	m.fails("unexpected_eof")
}

// parallel asks for three tools at a time, which overlap, and two models at once.
func (m *made) parallel() {
	c := m.ask(1).headers(200).stream("reasoning", 600, 1500).toolInput("search", true).toolInput("search", true).toolInput("fetch", true).finish("tool_calls")
	from, latest := m.now, m.now
	for i, name := range []string{"search", "search", "fetch"} {
		m.now = from
		m.tool(c.ids[i], name, "read_only", "succeeded", 500, 3500)
		if m.now.After(latest) {
			latest = m.now
		}
	}
	m.now = latest
	from = m.now
	m.ask(1).headers(200).stream("text", 1000, 3000).finish("stop")
	first := m.now
	m.now = from.Add(100 * time.Millisecond)
	m.ask(1).headers(200).stream("text", 2000, 5000).finish("stop")
	if first.After(m.now) {
		m.now = first
	}
}
