package llmagentlogs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// way is how an agent records a turn: rounds of a response that asks for a tool and of
// that tool, attempts that fail, and an answer.
type way struct {
	logs     func(testing.TB, ...entry) plog.Logs
	begin    []entry
	rounds   [][]entry
	attempts [][]entry
	answer   []entry
	says     bool // the records show that the turn is over and went well
}

func ways() map[string]way {
	codex := func(tb testing.TB, e ...entry) plog.Logs {
		tb.Helper()
		return codexLogs(tb, "c1", at(0, e...)...)
	}
	gemini := func(tb testing.TB, e ...entry) plog.Logs {
		tb.Helper()
		return geminiLogs(tb, "s1", at(0, e...)...)
	}
	apiError := entry{name: "gemini_cli.api_error", attributes: attributes{"prompt_id": "prompt-1", "status_code": 503, "role": "main"}}
	retry := entry{name: "gemini_cli.chat.content_retry", attributes: attributes{"prompt_id": "prompt-1", "error_type": "NO_FINISH_REASON"}}
	approved, result := decided("approved"), ranTool("call_1", true)
	called := calls()
	last := len(called) - 1
	return map[string]way{
		"Codex": {
			logs: codex, begin: []entry{unattended, prompt}, answer: answer(), says: true,
			rounds: [][]entry{
				slices.Concat(called, []entry{approved, result}),
				slices.Concat(called, []entry{result}),
				slices.Concat(called[:last], []entry{approved, completed, result}),
				slices.Concat(called[:last], []entry{approved, result, completed}),
				{headers, sse("output_item.added"), sse("output_item.done"), completed, approved, result},
				{headers, sse("output_item.added"), sse("output_text.delta"), sse("output_item.done"), sse("output_item.added"), sse("output_item.done"), completed, result},
				{headers, sse("output_text.delta"), sse("output_item.done"), sse("output_item.done"), completed, result},
			},
			attempts: [][]entry{{status(429)}, {status(503)}, {headers, broken(closedEarly)}, {headers, sse("output_text.delta"), broken(resetByPeer)}},
		},
		"Codex over WebSocket": {
			logs: codex, begin: []entry{unattended, prompt}, answer: []entry{sent, completed},
			rounds:   [][]entry{{sent, completed, approved, result}, {sent, completed, result}, {sent, approved, completed, result}, {sent, approved, result, completed}},
			attempts: [][]entry{{sent, broken(resetByPeer)}, {status(404)}},
		},
		"Gemini CLI": {
			logs: gemini, begin: []entry{geminiConfig, geminiPrompt}, answer: []entry{geminiRequest, geminiResponse, geminiExit}, says: true,
			rounds:   [][]entry{{geminiRequest, geminiResponse, geminiTool}, {geminiRequest, geminiResponse, geminiExit, geminiSwitch, geminiTool}},
			attempts: [][]entry{{geminiRequest, apiError}, {geminiRequest, geminiResponse, retry}},
		},
	}
}

// Whatever the logs of a turn have, and whichever of its last records are lost: none of its
// parts is called safe to repeat, no turn that is well is said to have failed, and none is
// said to have gone well before its answer.
func TestNeverSafeNorFalse(t *testing.T) {
	judged, well := 0, map[string]int{}
	for name, w := range ways() {
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 2))
			healthy := seed%2 == 0
			entries := slices.Clone(w.begin)
			for range r.IntN(4) {
				if !healthy && r.IntN(2) == 0 {
					entries = append(entries, w.attempts[r.IntN(len(w.attempts))]...)
				}
				entries = append(entries, w.rounds[r.IntN(len(w.rounds))]...)
			}
			endsWell := healthy || r.IntN(2) == 0
			if endsWell {
				entries = append(entries, w.answer...)
			} else {
				entries = append(entries, w.attempts[r.IntN(len(w.attempts))]...)
			}
			whole := len(entries)
			if seed%4 > 1 {
				n := len(w.begin) + r.IntN(whole-len(w.begin)+1) // the last ones are lost
				if n < whole && entries[n].name == geminiSwitch.name {
					n++ // which is recorded together with the one before
				}
				entries = entries[:n]
			}
			endsWell = endsWell && len(entries) == whole
			for _, stopped := range []bool{false, true} {
				what := fmt.Sprintf("%s, seed %d, stopped: %v: %v", name, seed, stopped, names(entries))
				made := madeOf(t, defaultConfig(), w.logs(t, entries...))
				if stopped {
					made = madeUntilShutdown(t, w.logs(t, entries...))
				}
				for _, span := range judge(t, made...) {
					judged++
					assert.NotEqual(t, "safe_auto_retry", value(span, semconv.RetrySafetyKey), what)
					switch outcome := value(span, semconv.RunOutcomeKey); outcome {
					case "succeeded", "recovered":
						well[name]++
						assert.True(t, endsWell, "%s: %s", outcome, what)
					case "failed", "aborted", "limited":
						assert.False(t, healthy || endsWell, "%s: %s", outcome, what)
					}
					if healthy {
						assert.NotEqual(t, "Error", span.Status().Code().String(), what)
					}
				}
			}
		}
		if w.says {
			assert.Greater(t, well[name], 20, name)
		}
	}
	assert.Greater(t, judged, 1000)
}

func names(entries []entry) (all []string) {
	for _, e := range entries {
		text := []any{e.name}
		for _, key := range []string{"event.kind", "error.message", "decision", "http.response.status_code"} {
			if v, ok := e.attributes[key]; ok {
				text = append(text, v)
			}
		}
		all = append(all, fmt.Sprint(text...))
	}
	return all
}

// madeUntilShutdown is what the connector makes of logs if it stops after them.
func madeUntilShutdown(tb testing.TB, logs ...plog.Logs) []ptrace.Traces {
	tb.Helper()
	h := newHarness(tb, defaultConfig(), nil)
	h.consume(tb, logs...)
	require.NoError(tb, h.Shutdown(tb.Context()))
	return h.sink.AllTraces()
}

// A response that asks for a tool is not the answer, where the records do not show what was
// in it.
func TestToolRuns(t *testing.T) {
	for name, logs := range map[string]plog.Logs{
		"Codex":                codexLogs(t, "c1", at(0, unattended, prompt, headers, sse("output_item.added"), completed, decided("approved"))...),
		"Codex over WebSocket": codexLogs(t, "c1", at(0, unattended, prompt, sent, completed, decided("approved"))...),
		"Gemini CLI":           geminiLogs(t, "s1", at(0, geminiConfig, geminiPrompt, geminiRequest, geminiResponse)...),
		"Gemini CLI, killed while a tool runs": geminiLogs(t, "s1",
			append(at(0, geminiConfig, geminiPrompt, geminiRequest, geminiResponse), at(time.Minute, geminiExit)...)...),
	} {
		t.Run(name, func(t *testing.T) { nothingClaimed(t, logs) })
	}
	t.Run("recorded", func(t *testing.T) {
		for _, agent := range []string{"codex-ws", "codex", "gemini"} {
			paths, err := filepath.Glob(filepath.Join(fixtures(t), agent, "*_tool.logs.jsonl.gz"))
			require.NoError(t, err)
			require.NotEmpty(t, paths)
			for _, path := range paths {
				for _, name := range []string{"codex.tool_decision", "gemini_cli.api_response"} {
					if cut, ok := until(recordedLogs(t, path), name); ok {
						nothingClaimed(t, cut)
					}
				}
			}
		}
	})
}

func nothingClaimed(t *testing.T, logs plog.Logs) {
	t.Helper()
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	h.consume(t, logs)
	h.pass(t, cfg.Settle)
	h.pass(t, cfg.Quiet)
	quiet := h.sink.AllTraces()
	h.pass(t, cfg.MaxAge)
	for what, made := range map[string][]ptrace.Traces{"quiet": quiet, "max_age": h.sink.AllTraces(), "shutdown": madeUntilShutdown(t, logs)} {
		spans := spansOf(made...)
		if what != "quiet" {
			assert.Contains(t, partsOf(spans), "chat", what)
		}
		for _, run := range runsOf(spans) {
			assert.Equal(t, "unclear", value(run, semconv.RunEndKey), what)
		}
		assert.Empty(t, runOutcomes(judge(t, made...)), what)
	}
}

// until are the records up to the first one with this name.
func until(logs []plog.Logs, name string) (cut plog.Logs, found bool) {
	cut = plog.NewLogs()
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					to := cut.ResourceLogs().AppendEmpty()
					rl.Resource().CopyTo(to.Resource())
					scope := to.ScopeLogs().AppendEmpty()
					sl.Scope().CopyTo(scope.Scope())
					lr.CopyTo(scope.LogRecords().AppendEmpty())
					if v, ok := lr.Attributes().Get("event.name"); ok && v.Str() == name {
						return cut, true
					}
				}
			}
		}
	}
	return cut, false
}
