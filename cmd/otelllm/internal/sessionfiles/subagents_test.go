package sessionfiles

import (
	"bytes"
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

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
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

// subAgentsDir has sessions of real agents that were killed in the second call of a sub-agent, by agent. Their contents are
// replaced.
var subAgentsDir = filepath.Join("testdata", "subagents")

// withSubAgent reads the session of an agent in [subAgentsDir] that began a sub-agent.
func withSubAgent(t *testing.T, agent string) *event.Log {
	t.Helper()
	home := filepath.Join(subAgentsDir, agent)
	places := []Place{{Agent: Find(agent), Home: home}}
	switch agent {
	case OpenCode:
		raw, err := os.ReadFile(filepath.Join(home, "rows.jsonl"))
		require.NoError(t, err)
		places[0].Home, places[0].Patterns = t.TempDir(), []string{"opencode*.db"}
		openCodeDatabase(t, filepath.Join(places[0].Home, "opencode.db"), raw)
	default:
		for _, p := range Places("", func(string) string { return "" }) {
			if p.Agent == places[0].Agent {
				places[0].Patterns = p.Patterns
			}
		}
	}
	var found *event.Log
	for _, f := range Discover(places, time.Time{}, noProblem(t)) {
		logs, err := Read(t.Context(), &f, 0)
		require.NoError(t, err)
		for _, log := range logs {
			assert.Zero(t, log.Unread)
			if len(log.SubAgents) > 0 {
				require.Nil(t, found)
				found = log
			}
		}
	}
	require.NotNil(t, found)
	return found
}

// TestCallsOfSubAgents lists what a sub-agent ran when it died with its agent.
func TestCallsOfSubAgents(t *testing.T) {
	for _, agent := range []string{Codex, Claude, OpenCode, Qwen} {
		t.Run(agent, func(t *testing.T) {
			log := withSubAgent(t, agent)
			all := judgeAll(log, Find(agent), turns.WriterDead)
			j := &all[len(all)-1]
			assert.Equal(t, turns.Died, j.State)
			assert.False(t, j.Unlisted)
			calls := make(map[string]string)
			for _, c := range j.Plan.Ran {
				calls[c.ID] = "ran, " + c.Output.String()
			}
			for _, c := range j.Plan.MayHaveRun {
				calls[c.ID] = "may have run"
			}
			assert.Equal(t, "ran, kept", calls["call_e2e_5Yq8"])
			assert.Equal(t, "may have run", calls["call_e2e_7Kd2"])
			assert.Contains(t, calls, "call_e2e_3Nw6", "the call that began it")
			assert.Empty(t, j.Plan.NeverRan)
			assert.True(t, j.Plan.More)
			out, err := json.Marshal([]any{RecordOf(j), j.Plan})
			require.NoError(t, err)
			assert.NotContains(t, string(out), "Canary")

			for _, sub := range log.SubAgents {
				for i := range sub.Events { // as some servers number calls
					if sub.Events[i].ID == "call_e2e_7Kd2" {
						sub.Events[i].ID = "call_e2e_3Nw6"
					}
				}
			}
			all = judgeAll(log, Find(agent), turns.WriterDead)
			assert.Len(t, append(all[len(all)-1].Plan.Ran, all[len(all)-1].Plan.MayHaveRun...), 3, "an id that is the agent's, too")

			log.SubAgents = nil
			all = judgeAll(log, Find(agent), turns.WriterDead)
			assert.True(t, all[len(all)-1].Unlisted)
			assert.True(t, all[len(all)-1].Plan.More)
		})
	}
}

// TestSubAgentsOfOtherDays finds the rollout of a sub-agent of Codex that began on another day than its agent, in any time zone.
func TestSubAgentsOfOtherDays(t *testing.T) {
	home := filepath.Join(subAgentsDir, Codex)
	files := Discover([]Place{{Find(Codex), home, []string{"sessions/**/rollout-*.jsonl"}}}, time.Time{}, noProblem(t))
	require.Len(t, files, 2)
	for _, days := range []int{-2, -1, 0, 1, 2} {
		sessions := t.TempDir()
		put := func(f File, days int) string {
			raw, err := os.ReadFile(f.Path)
			require.NoError(t, err)
			day := time.Date(2026, 11, 29+days, 0, 0, 0, 0, time.UTC).Format("2006/01/02")
			name := filepath.Join(sessions, filepath.FromSlash(day), filepath.Base(f.Path))
			write(t, name, raw)
			return name
		}
		found := 0
		for i := range files {
			put(files[1-i], days)
			logs, err := Read(t.Context(), &File{Agent: Find(Codex), Path: put(files[i], -9)}, 0)
			require.NoError(t, err)
			found += len(logs[0].SubAgents)
			require.NoError(t, os.RemoveAll(sessions))
		}
		want := 1
		if days < -1 || days > 1 {
			want = 0 // its id says that it began on 29 November
		}
		assert.Equal(t, want, found, "%d", days)
	}
}

// TestSubAgentThatBeganItself is read so often, and not again below each.
func TestSubAgentThatBeganItself(t *testing.T) {
	log := &event.Log{}
	for i := range 200 {
		log.Add(event.Event{Kind: event.Call, ID: fmt.Sprint("c", i), Name: "task"})
	}
	reads := 0
	log.AddSubAgents([]string{"task"}, func(of *event.Log, _ string) *event.Log {
		reads++
		again := *of
		again.SubAgents = nil
		return &again
	})
	assert.Equal(t, 100, reads)
}
