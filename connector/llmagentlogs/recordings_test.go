package llmagentlogs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

// recordedAgents are those whose recordings this connector reads.
var recordedAgents = []string{"codex", "codex-gw", "codex-ws", "codex-ws-gw", "gemini", "gemini-gw"}

// truth is what the server did in a recording, as its README says: what a verdict may say
// of a request that failed, and of the run. An empty value is always allowed: nothing is
// said, because the agent lost its last records or does not record the fact.
var truth = map[string]struct {
	classes, causes, outcomes []string
	ran                       bool // a tool ran
}{
	"ok_tool":    {outcomes: []string{"succeeded"}, ran: true},
	"ws_tool":    {outcomes: []string{"succeeded"}, ran: true},
	"reset_text": {classes: []string{"stream_interrupted"}, causes: []string{"connection_reset", "connection_lost", "unknown"}, outcomes: []string{"failed"}},
	"r429_ok":    {classes: []string{"provider_error"}, causes: []string{"rate_limited"}, outcomes: []string{"recovered"}},
	// Gemini CLI does not record whether there was an error in the stream, or only no end.
	"inband":     {classes: []string{"provider_error", "unclassified"}, causes: []string{"overloaded", "server_error", "unknown"}, outcomes: []string{"failed", "incomplete"}},
	"clean_eof":  {classes: []string{"stream_interrupted", "unclassified"}, causes: []string{"clean_eof", "unknown"}, outcomes: []string{"failed", "incomplete"}},
	"tool_reset": {classes: []string{"stream_interrupted"}, causes: []string{"connection_reset", "connection_lost", "unknown"}, outcomes: []string{"failed"}, ran: true},
	// The server cut every WebSocket, and answered 404 when Codex tried without.
	"ws_tool_reset": {
		classes: []string{"stream_interrupted", "provider_error"}, causes: []string{"connection_reset", "connection_lost", "unknown", "not_found"},
		outcomes: []string{"failed"}, ran: true,
	},
}

// outcomesOf returns the outcomes that a run of this recording may have. Where the agent went
// through a gateway, the gateway tried a 429 again, and the agent saw nothing of it.
func outcomesOf(agent, fault string) []string {
	if strings.HasSuffix(agent, "-gw") && fault == "r429_ok" {
		return []string{"recovered", "succeeded"}
	}
	return truth[fault].outcomes
}

// recordings calls test with each recording.
func recordings(t *testing.T, test func(t *testing.T, agent, fault, path string)) {
	t.Helper()
	dir := fixtures(t)
	n := 0
	for _, agent := range recordedAgents {
		paths, err := filepath.Glob(filepath.Join(dir, agent, "*.logs.jsonl.gz"))
		require.NoError(t, err)
		for _, path := range paths {
			fault := strings.TrimSuffix(filepath.Base(path), ".logs.jsonl.gz")
			n++
			t.Run(agent+"/"+fault, func(t *testing.T) {
				require.Contains(t, truth, fault)
				test(t, agent, fault, path)
			})
		}
	}
	assert.Greater(t, n, 20)
}

// madeOf is what the connector makes of logs whose calls come a second apart.
func madeOf(tb testing.TB, cfg *Config, logs ...plog.Logs) []ptrace.Traces {
	tb.Helper()
	h := newHarness(tb, cfg, nil)
	for _, ld := range logs {
		h.consume(tb, ld)
		h.pass(tb, 2*time.Second)
	}
	h.pass(tb, cfg.Quiet)
	h.pass(tb, cfg.MaxAge)
	return h.sink.AllTraces()
}

func value(span ptrace.Span, key attribute.Key) string {
	if v, ok := span.Attributes().Get(string(key)); ok {
		return v.AsString()
	}
	return ""
}

func operationIs(span ptrace.Span, operation string) bool {
	return value(span, "gen_ai.operation.name") == operation
}

func runOutcomes(spans []ptrace.Span) (all []string) {
	for _, span := range spans {
		if outcome := value(span, semconv.RunOutcomeKey); outcome != "" {
			all = append(all, outcome)
		}
	}
	return all
}

// check compares the verdicts on spans with the truth. It returns the outcomes of runs.
func check(t *testing.T, agent, fault string, spans []ptrace.Span) (outcomes []string) {
	t.Helper()
	want, shown, tools := truth[fault], 0, 0
	for _, span := range spans {
		if operationIs(span, "execute_tool") {
			tools++
		}
		if operationIs(span, "chat") && value(span, semconv.StreamTextChunksKey) != "" {
			shown++
		}
	}
	for _, span := range spans {
		name := fmt.Sprintf("%s %s", span.Name(), span.SpanID())
		if class := value(span, semconv.FailureClassKey); class != "" {
			assert.Contains(t, want.classes, class, name)
			assert.Contains(t, want.causes, value(span, semconv.FailureCauseKey), name)
		}
		// What was shown or ran is never repeated unasked; of what is not recorded it is not known.
		if value(span, semconv.RetrySafetyKey) == semconv.RetrySafetySafeAutoRetry.String() {
			assert.False(t, want.ran || fault != "r429_ok", "%s: safe", name)
		}
		if outcome := value(span, semconv.RunOutcomeKey); outcome != "" {
			assert.Contains(t, outcomesOf(agent, fault), outcome, name)
			outcomes = append(outcomes, outcome)
		}
	}
	return outcomes
}

// The logs of each recording alone: every verdict is right, careful, or not there.
func TestRecordings(t *testing.T) {
	said := map[string]int{}
	recordings(t, func(t *testing.T, agent, fault, path string) {
		made := madeOf(t, defaultConfig(), recordedLogs(t, path)...)
		spans := judge(t, made...)
		outcomes := check(t, agent, fault, spans)
		assert.LessOrEqual(t, len(outcomes), 1, "one turn is one run")
		for _, outcome := range outcomes {
			said[outcome]++
		}
		if len(outcomes) == 0 {
			said["nothing"]++
			assert.NotContains(t, []string{"ok_tool", "r429_ok", "tool_reset", "reset_text"}, fault, "there is enough in the logs")
		}
	})
	t.Log(said)
}

// Logs and the agent's own spans in one pipeline, in both orders: no verdict is wrong, and
// one turn counts once.
func TestRecordingsWithTraces(t *testing.T) {
	recordings(t, func(t *testing.T, agent, fault, path string) {
		made := madeOf(t, defaultConfig(), recordedLogs(t, path)...)
		traces := strings.Replace(path, ".logs.", ".traces.", 1)
		if _, err := os.Stat(traces); err != nil {
			t.Skip("the agent exported no span")
		}
		own := recordedTraces(t, traces)
		alone, byLogs := runVerdicts(judge(t, made...))
		for i := range alone {
			alone[i], _, _ = strings.Cut(alone[i], " ")
		}
		if fault == "ws_tool" {
			assert.Empty(t, alone, "over WebSocket the logs do not show what a response was")
			alone = []string{"succeeded"}
		}
		for name, tds := range map[string][]ptrace.Traces{
			"spans first": slices.Concat(own, made),
			"logs first":  slices.Concat(made, own),
		} {
			var mine []ptrace.Span
			spans := judge(t, tds...)
			for _, span := range spans {
				if value(span, semconv.RunInferredKey) != "" && value(span, "gen_ai.agent.name") != "" || value(span, semconv.RunIDKey) != "" {
					mine = append(mine, span)
				}
			}
			assert.Equal(t, alone, runOutcomes(spans), name)
			if _, both := runVerdicts(spans); len(both) == 1 && len(byLogs) == 1 && !strings.HasSuffix(agent, "-gw") {
				for _, part := range []string{": sent", ": started"} {
					assert.LessOrEqual(t, strings.Count(both[0], part), strings.Count(byLogs[0], part), "%s, none counts twice: %s, not %s", name, both[0], byLogs[0])
				}
			}
			if !strings.HasSuffix(agent, "-gw") { // the gateway's own spans have verdicts, too
				check(t, agent, fault, mine)
			}
		}
	})
}
