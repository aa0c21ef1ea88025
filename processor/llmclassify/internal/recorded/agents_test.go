package recorded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
)

// agentsInTestdata are the outcomes and classes of the runs of each recording, and the classes
// of requests without a run.
var agentsInTestdata = map[string][]string{
	"codex/ok_tool":          {"succeeded "},
	"codex/r429_ok":          {"recovered "},
	"codex/tool_reset":       nil, // the span of the turn is lost, and with it those of the attempts that failed
	"codex-ws/ws_tool":       {"succeeded "},
	"codex-ws/ws_tool_reset": nil,
	"gemini/ok_tool":         nil, // each request is a trace of its own, and OK is no success
	"gemini/r429_ok":         {" provider_error"},
	"gemini/clean_eof":       nil,
	"qwen/ok_tool":           {"succeeded "},
	"qwen/reset_text":        {"failed stream_interrupted"},
	"qwen/clean_eof":         {"failed stream_interrupted"},
	"qwen/tool_reset":        {"failed stream_interrupted"},
	"opencode/ok_tool":       {"succeeded "},
}

// What real agents export is judged right or carefully, in whatever order it comes, and no
// retry of it is called safe. TestRecordedAgents does more, with recordings that are no part of
// the repository.
func TestAgentsInTestdata(t *testing.T) {
	for name, want := range agentsInTestdata {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", "agents", filepath.FromSlash(name)+".traces.jsonl"))
			require.NoError(t, err)
			lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
			for range 2 {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, line := range lines {
					td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
					require.NoError(t, err)
					require.NoError(t, h.ConsumeTraces(t.Context(), td))
				}
				h.Pass(t, 2*harness.MaxHold)
				assert.Equal(t, want, statedOf(t, h.Out()))
				slices.Reverse(lines)
			}
		})
	}
}

// statedOf are the outcomes and classes of runs, and the classes of requests without one.
func statedOf(t *testing.T, td ptrace.Traces) (stated []string) {
	t.Helper()
	runs := false
	var requests []string
	for _, span := range harness.SpansOf(td) {
		v := harness.VerdictOf(span)
		assert.NotEqual(t, harness.Safe, v.Safety)
		switch {
		case v.Outcome != 0:
			runs = true
			stated = append(stated, fmt.Sprintf("%s %s", v.Outcome, v.Class))
		case v.Class != 0:
			requests = append(requests, fmt.Sprintf(" %s", v.Class))
		}
	}
	if !runs {
		stated = requests
	}
	slices.Sort(stated)
	return stated
}
