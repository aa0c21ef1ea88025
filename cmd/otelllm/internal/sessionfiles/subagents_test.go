package sessionfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// TestLaunchedSubAgent reads sessions of Claude Code in which a sub-agent goes on after its call has
// returned, and while a person goes on with another turn.
func TestLaunchedSubAgent(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "claude", "ok_subagent.jsonl"))
	require.NoError(t, err)
	lines := slices.Collect(bytes.Lines(raw))
	ended := slices.IndexFunc(lines, func(line []byte) bool { return bytes.Contains(line, []byte("task-notification")) })
	first := lines[:ended-1] // until the answer after the launch
	prompt := first[0]
	again := [][]byte{prompt, first[4], bytes.ReplaceAll(first[5], []byte(`"id":"msg_`), []byte(`"id":"msg_again_`))}
	for name, tt := range map[string]struct {
		lines  [][]byte
		writer turns.Writer
		want   []turns.State
	}{
		"it ends in its turn":                         {lines, turns.WriterDead, []turns.State{turns.Well}},
		"its process dies with it":                    {first, turns.WriterDead, []turns.State{turns.Died}},
		"it runs":                                     {first, turns.WriterAlive, []turns.State{turns.Running}},
		"it runs beside another turn":                 {slices.Concat(first, again), turns.WriterAlive, []turns.State{turns.Running, turns.Well}},
		"its process dies with it in another turn":    {slices.Concat(first, again), turns.WriterDead, []turns.State{turns.Died, turns.Well}},
		"it ends in another turn":                     {slices.Concat(first, again, lines[ended:]), turns.WriterDead, []turns.State{turns.Well, turns.Well}},
		"it ends in another turn, the process dies":   {slices.Concat(first, again, lines[ended:ended+1]), turns.WriterDead, []turns.State{turns.Well, turns.Died}},
		"its process dies before the model is asked":  {lines[:ended+1], turns.WriterDead, []turns.State{turns.Died}},
		"its process dies after the model was asked":  {lines[:ended+2], turns.WriterDead, []turns.State{turns.Died}},
		"the process runs on, and the model is asked": {lines[:ended+2], turns.WriterAlive, []turns.State{turns.Running}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []turns.State
			all := judgeAll(logOf(t, Find(Claude), bytes.Join(tt.lines, nil)), Find(Claude), tt.writer)
			for i := range all {
				got = append(got, all[i].State)
				if p := all[i].Plan; p != nil && i == 0 && !strings.Contains(name, "ask") {
					require.Len(t, p.MayHaveRun, 1)
					assert.Equal(t, "Agent (call_1)", p.MayHaveRun[0].String())
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
