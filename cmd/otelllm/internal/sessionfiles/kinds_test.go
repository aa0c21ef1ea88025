package sessionfiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/semconv"
)

// kindsDir has sessions of the kinds that public reports and the sources of agents describe. They
// were made by hand, and truth.json says what happened in each.
var kindsDir = filepath.Join("testdata", "kinds")

// kind is what happened in a session of [kindsDir].
type kind struct {
	// Last is how the last turn ended: well, died, stopped or failed. Left: well, and something that
	// it began in the background was cut off. Unclear: well, and the file cannot show it. None: there
	// is no turn.
	Last       string   `json:"last"`
	Ran        []string `json:"ran"`         // the calls that ran, or may have run, in the last turn
	Hidden     bool     `json:"hidden"`      // calls ran that are not in the file
	Alive      string   `json:"alive"`       // what is said while the process runs, if that matters
	DiedBefore bool     `json:"died_before"` // the turn before the last one died
}

func kinds(t *testing.T) (list map[string]kind) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(kindsDir, "truth.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &list))
	return list
}

// mayBeSaid are the states that may be said of a last turn whose process is known to be gone.
// Undetermined is right for what a file does not show.
var mayBeSaid = map[string][]turns.State{
	"well":    {turns.Well},
	"died":    {turns.Died},
	"stopped": {turns.Unwell},
	"failed":  {turns.Unwell},
	"left":    {turns.Undetermined, turns.Died},
	"unclear": {turns.Undetermined},
}

// undeterminedKinds are those of which an agent does not record enough.
var undeterminedKinds = map[string]bool{
	"pi/custom_message_turn_killed": true, // whether an extension's message asks the model
	"qwen/notification_cold":        true, // whether a notification asks the model
}

// TestKinds compares what is said of the sessions of [kindsDir] with what happened.
func TestKinds(t *testing.T) {
	truths := kinds(t)
	cases := casesIn(t, kindsDir)
	assert.Len(t, cases, len(truths))
	for _, c := range cases {
		name := c.agent.Name + "/" + c.name
		t.Run(name, func(t *testing.T) {
			want, ok := truths[name]
			require.True(t, ok)
			all := judgeAll(logOf(t, c.agent, c.raw), c.agent, turns.WriterDead)
			if want.Last == "none" {
				assert.Empty(t, all)
				return
			}
			require.NotEmpty(t, all)
			last := &all[len(all)-1]
			if undeterminedKinds[name] {
				assert.Equal(t, turns.Undetermined, last.State)
			} else {
				assert.Contains(t, mayBeSaid[want.Last], last.State)
			}
			if c.agent.Name != Cline { // its status says only that it did not end well
				assert.Equal(t, want.Last == "stopped", last.Aborted)
			}
			if !want.DiedBefore {
				assert.Empty(t, Resumed(&Session{Agent: c.agent, Turns: all}))
				for i := range all[:len(all)-1] {
					assert.NotEqual(t, turns.Died, all[i].State, "turn %d", i)
				}
			}
			checkKind(t, &want, all)
			if want.Alive != "" {
				alive := judgeAll(logOf(t, c.agent, c.raw), c.agent, turns.WriterAlive)
				assert.Equal(t, want.Alive == "waits", alive[len(alive)-1].State == turns.Waits)
				assert.Equal(t, want.Alive == "running", alive[len(alive)-1].State == turns.Running)
			}
		})
	}
}

// checkKind checks that nothing unsafe is said of the last turn.
func checkKind(t *testing.T, want *kind, all []turns.Judged) {
	t.Helper()
	last := &all[len(all)-1]
	if r := RecordOf(last); r != nil && len(want.Ran) > 0 {
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry.String(), r.Text(semconv.RetrySafetyKey), "a tool ran")
	}
	for i := range all {
		if p := all[i].Plan; p != nil {
			for _, c := range p.NeverRan {
				assert.NotContains(t, want.Ran, c.ID, "it ran")
			}
		}
	}
	if p := last.Plan; p != nil && want.Hidden {
		assert.True(t, p.More, "calls ran that are not listed")
	}
}

// TestLeftRunning: a command that goes on in the background is not listed as ended, with an output, before its end is
// recorded.
func TestLeftRunning(t *testing.T) {
	for name, agent := range map[string]string{"bash_left_killed_in_text": Claude, "shell_running_killed": Codex, "shell_background_killed": Qwen, "task_left_killed": OpenCode} {
		raw, err := os.ReadFile(filepath.Join(kindsDir, agent, name+".jsonl"))
		require.NoError(t, err)
		all := judgeAll(logOf(t, Find(agent), raw), Find(agent), turns.WriterDead)
		p := all[len(all)-1].Plan
		require.NotNil(t, p, name)
		assert.Empty(t, p.Ran, name)
		require.NotEmpty(t, p.MayHaveRun, name)
		assert.Equal(t, "c1", p.MayHaveRun[0].ID, name)
	}
}

// TestResumeOfLaunched: of a call that returned when its sub-agent began, a resume makes up no output.
func TestResumeOfLaunched(t *testing.T) {
	for name, warns := range map[string]bool{"agent_background_left": false, "agent_background_killed": true} {
		raw, err := os.ReadFile(filepath.Join(kindsDir, Qwen, name+".jsonl"))
		require.NoError(t, err)
		all := judgeAll(logOf(t, Find(Qwen), raw), Find(Qwen), turns.WriterDead)
		warning := ResumeWarning(&Session{Agent: Find(Qwen), Turns: all}, &all[len(all)-1])
		assert.Equal(t, warns, warning != "", name)
	}
}
