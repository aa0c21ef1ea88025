// Package recorded has tests with spans as published agents, frameworks and instrumentations record them.
package recorded

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// recordedFault is what the model server did to an agent in a recording.
type recordedFault struct {
	classes []semconv.Class // of the requests that broke
	failed  bool            // the agent's turn failed in the end
	shown   bool            // the answers had text before they broke
	ran     bool            // a tool ran before
}

var interruptions = []semconv.Class{semconv.ClassStreamInterrupted, semconv.ClassConnectionFailed}

// recordedFaults are the faults by the name of a recording, as its README explains them.
var recordedFaults = map[string]recordedFault{
	"ok_tool":       {ran: true},
	"ws_tool":       {ran: true},
	"r429_ok":       {classes: []semconv.Class{semconv.ClassProviderError}},
	"reset_text":    {classes: interruptions, failed: true, shown: true},
	"clean_eof":     {classes: interruptions, failed: true, shown: true},
	"inband":        {classes: []semconv.Class{semconv.ClassProviderError}, failed: true, shown: true},
	"tool_reset":    {classes: interruptions, failed: true, ran: true},
	"ws_tool_reset": {classes: interruptions, failed: true, ran: true},
}

// recordedRequest is a request that the model server got, and what it did.
type recordedRequest struct{ Act, Method, Path string }

// truthOf is what the model server did to an agent: by the fault's name, and by the
// requests, which are recorded where no gateway was between.
func truthOf(t *testing.T, path, fault string) recordedFault {
	t.Helper()
	f, known := recordedFaults[fault]
	require.True(t, known, "no truth is known of the fault %q", fault)
	path = strings.Replace(path, "-gw"+string(filepath.Separator), string(filepath.Separator), 1)
	requests, err := filepath.Glob(strings.TrimSuffix(path, ".traces.jsonl.gz") + ".requests.jsonl.gz")
	require.NoError(t, err)
	if requests == nil {
		return f
	}
	last, called := "", false
	harness.EachLine(t, requests[0], func(line json.RawMessage) {
		var r recordedRequest
		require.NoError(t, json.Unmarshal(line, &r))
		switch r.Act {
		case "tool", "ws_msg":
			called, last = called || r.Act == "tool", r.Act
		case "side-stream", "CLIENT_LEFT", "404", "UPGRADE", "ws_close":
		case "http":
			if strings.HasSuffix(r.Path, "/responses") {
				// The client went on over HTTP, which the server of WebSockets refuses.
				f.classes = append(slices.Clone(f.classes), semconv.ClassProviderError)
			}
		default:
			last = r.Act
		}
	})
	if !strings.HasPrefix(fault, "ws_") {
		assert.Equal(t, f.ran, called, "a tool was called")
		assert.Equal(t, !f.failed, last == "text", "the last request was answered")
	}
	return f
}

// score is how a verdict compares with what happened.
type score int

const (
	scoreNothing  score = iota // nothing is said
	scoreCautious              // what failed is not named, and nothing false is said
	scoreRight
	scoreWrong
	scoreUnsafe // a retry is called safe although text was shown, or a tool ran
)

func (s score) String() string {
	return [...]string{"nothing", "cautious", "right", "wrong", "unsafe"}[s]
}

// ofRun scores the verdict of a run.
func (f recordedFault) ofRun(v harness.Verdict) score {
	switch {
	case v.Safety == semconv.RetrySafetySafeAutoRetry && (f.shown || f.ran):
		return scoreUnsafe
	case !f.failed && (v.Outcome == semconv.RunOutcomeSucceeded || v.Outcome == semconv.RunOutcomeRecovered):
		return scoreRight
	case !f.failed:
		return scoreWrong
	case v.Outcome == semconv.RunOutcomeIncomplete:
		return scoreCautious
	case v.Outcome == semconv.RunOutcomeFailed && slices.Contains(f.classes, v.Class):
		return scoreRight
	default:
		return scoreWrong
	}
}

// ofPart scores the verdict of a request or a tool. That of a gateway of this project may
// call it safe to send a request again with the outputs of its history: it read them.
func (f recordedFault) ofPart(v harness.Verdict, ours bool) score {
	switch {
	case v.Safety == semconv.RetrySafetySafeAutoRetry && (f.shown || f.ran && !ours):
		return scoreUnsafe
	case slices.Contains(f.classes, v.Class):
		return scoreRight
	case f.failed && v.Class == semconv.ClassUnclassified:
		return scoreCautious
	default:
		return scoreWrong
	}
}

// TestRecordedAgents runs the processor over every recording of a published agent, and
// compares its verdicts with what the server did. The recordings are no part of the
// repository: OTELLLM_FIXTURES names the folder beside them.
func TestRecordedAgents(t *testing.T) {
	dir := os.Getenv("OTELLLM_FIXTURES")
	if dir == "" {
		t.Skip("LEFT OUT: no recorded agents: OTELLLM_FIXTURES names the folder beside them")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "..", "agents", "*", "*.traces.jsonl.gz"))
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("LEFT OUT: no recorded agents beside " + dir)
	}
	counts := map[score]int{}
	for i, path := range paths {
		if i%sample.Every(4) != 0 {
			continue
		}
		agent, name := filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".traces.jsonl.gz")
		t.Run(agent+"/"+name, func(t *testing.T) {
			got := judgedRecording(t, harness.ReadLines(t, path), truthOf(t, path, name))
			counts[got.score]++
			t.Log(got.score, "\n\t"+strings.Join(got.said, "\n\t"))
			assert.Less(t, got.score, scoreWrong)
			assert.LessOrEqual(t, got.runs, 1, "one turn is one run, also through a gateway")
			if slices.Contains(completeTurns, agent+"/"+name) {
				assert.Equal(t, 1, got.runs, "the turn is complete in the recording")
				assert.Equal(t, scoreRight, got.score)
			}
		})
	}
	t.Logf("%d recordings: %d right, %d cautious, %d nothing, %d wrong, %d unsafe", len(paths),
		counts[scoreRight], counts[scoreCautious], counts[scoreNothing], counts[scoreWrong], counts[scoreUnsafe])
}

// completeTurns are the recordings that have the span of the turn.
var completeTurns = []string{
	"codex/ok_tool", "codex/r429_ok", "codex-gw/ok_tool", "codex-gw/r429_ok", "codex-ws/ws_tool", "codex-ws-gw/ws_tool", "opencode/ok_tool",
	"qwen/ok_tool", "qwen/r429_ok", "qwen/reset_text", "qwen/clean_eof", "qwen/inband", "qwen/tool_reset",
	"qwen-gw/ok_tool", "qwen-gw/r429_ok", "qwen-gw/reset_text", "qwen-gw/clean_eof", "qwen-gw/inband", "qwen-gw/tool_reset",
}

// recordedVerdicts are the verdicts on a recording.
type recordedVerdicts struct {
	score score
	runs  int
	said  []string
}

func judgedRecording(t *testing.T, td ptrace.Traces, f recordedFault) (got recordedVerdicts) {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	h.Pass(t, time.Hour)
	require.NoError(t, h.Shutdown(t.Context()))
	run, part := scoreNothing, scoreNothing
	for _, rs := range h.Out().ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				v := harness.VerdictOf(span)
				var s score
				switch {
				case v.Outcome != semconv.RunOutcomeUnset:
					s = f.ofRun(v)
					run = max(run, s)
					got.runs++
				case v.Class != semconv.ClassUnset:
					s = f.ofPart(v, strings.HasPrefix(ss.Scope().Name(), "github.com/otelllm/"))
					part = max(part, s)
				default:
					continue
				}
				got.said = append(got.said, fmt.Sprintf("%s %s: %s %s/%s %s %s", s, span.Name(), v.Outcome, v.Class, v.Cause, v.Safety, v.Confidence))
			}
		}
	}
	slices.Sort(got.said)
	got.score = cmp.Or(run, part)
	if part >= scoreWrong {
		got.score = max(run, part)
	}
	return got
}
