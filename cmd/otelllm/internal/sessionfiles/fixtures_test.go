package sessionfiles

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/cline"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/opencode"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/semconv"
)

// logOf reads a session from memory. The files of opencode have the rows of its database.
func logOf(tb testing.TB, a *Agent, raw []byte) *event.Log {
	tb.Helper()
	log := &event.Log{}
	switch a.Name {
	case OpenCode:
		readRows(log, raw)
	case Cline:
		session, messages, _ := bytes.Cut(raw, []byte("\n"))
		cline.Read(log, session, messages)
	default:
		r := a.lines(log)
		skipped, err := event.Lines(bytes.NewReader(raw), r.Line)
		require.NoError(tb, err)
		log.Unread += skipped
	}
	return log
}

// readRows reads rows of opencode's database, one a line.
func readRows(log *event.Log, raw []byte) {
	r := opencode.New(log)
	defer r.Close()
	for line := range bytes.Lines(raw) {
		var row struct {
			Table, ID, Version string
			Created            int64           `json:"time_created"`
			Updated            int64           `json:"time_updated"`
			Data               json.RawMessage `json:"data"`
		}
		if json.Unmarshal(line, &row) != nil {
			log.Unread++
			continue
		}
		switch row.Table {
		case "session":
			log.SetSession(row.ID, row.Version)
		case "message":
			r.Message(row.Data)
		case "part":
			r.Part(row.Data, row.Created, row.Updated)
		}
	}
}

// judgeAll judges all turns of a session.
func judgeAll(log *event.Log, a *Agent, w turns.Writer) []turns.Judged {
	s := Scan{All: true}
	return s.judge(&File{Agent: a}, log, w, false).Turns
}

// truth is what really happened in the first turn of a case, as the server and the side effects of
// its tools showed.
type truth struct {
	well    bool // it ended with its answer, at once or after failures
	effects bool // a tool took effect
}

// truthOf returns the truth of a case of an agent.
func truthOf(agent, of string) truth {
	runsCutCalls := agent == Codex || agent == Claude || agent == OpenCode
	switch of = strings.TrimSuffix(of, "_resumed"); of {
	case "ok_tool", "ok_subagent":
		return truth{well: true, effects: true}
	case "text_reset", "args_reset":
		return truth{well: agent == Claude} // its request that does not stream got through
	case "call_no_end":
		return truth{well: agent == Codex || agent == Claude, effects: runsCutCalls}
	case "call_no_end_dead":
		return truth{effects: runsCutCalls}
	case "tool_reset_all":
		return truth{well: agent == Claude, effects: true}
	case "r429", "kill_in_text":
		return truth{}
	default: // int_in_tool, kill_in_tool, kill_in_tool_after_text, kill_in_second_of_two_tools, kill_just_after_tool_began
		return truth{effects: true}
	}
}

// sessionCase is a recorded session.
type sessionCase struct {
	agent *Agent
	name  string
	raw   []byte
	made  bool // by hand
}

// casesIn returns the recorded sessions below a folder, which has one for each agent.
func casesIn(tb testing.TB, dir string) (list []sessionCase) {
	tb.Helper()
	for _, a := range Agents {
		files, err := filepath.Glob(filepath.Join(dir, a.Name, "*.jsonl"))
		require.NoError(tb, err)
		require.NotEmpty(tb, files, a.Name)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(tb, err)
			list = append(list, sessionCase{agent: a, name: strings.TrimSuffix(filepath.Base(file), ".jsonl"), raw: raw})
		}
	}
	return list
}

// TestTruth compares what is said of sessions with what really happened: those of testdata, and
// where OTELLLM_FIXTURES names the folder of recorded streams, those beside it.
func TestTruth(t *testing.T) {
	dirs := []string{"testdata"}
	if dir := os.Getenv("OTELLLM_FIXTURES"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "..", "sessions"))
	}
	for _, dir := range dirs {
		for _, c := range casesIn(t, dir) {
			t.Run(filepath.Base(dir)+"/"+c.agent.Name+"/"+c.name, func(t *testing.T) {
				for _, w := range []turns.Writer{turns.WriterDead, turns.WriterGone, turns.WriterUnknown, turns.WriterAlive} {
					log := logOf(t, c.agent, c.raw)
					assert.Zero(t, log.Unread)
					assert.True(t, c.agent.Known(log.Version), log.Version)
					checkTruth(t, &c, judgeAll(log, c.agent, w), w)
				}
			})
		}
	}
}

func checkTruth(t *testing.T, c *sessionCase, all []turns.Judged, w turns.Writer) {
	t.Helper()
	require.NotEmpty(t, all)
	want := truthOf(c.agent.Name, c.name)
	first := &all[0]
	if !want.well {
		assert.NotEqual(t, turns.Well, first.State, "it did not end well")
	}
	if want.well && !c.agent.Profile.HidesCalls {
		assert.Equal(t, turns.Well, first.State, "it ended well")
	}
	if want.well {
		assert.Contains(t, []turns.State{turns.Well, turns.Undetermined, turns.Waits}, first.State, "nothing else may be said of a session that is well")
	}
	if r := RecordOf(first); r != nil && want.effects {
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry.String(), r.Text(semconv.RetrySafetyKey), "a tool took effect")
	}
	if p := first.Plan; p != nil && want.effects {
		assert.Empty(t, p.NeverRan)
		assert.True(t, len(p.Ran)+len(p.MayHaveRun) > 0 || p.More, "a tool took effect")
	}
	if strings.HasSuffix(c.name, "_resumed") {
		require.Len(t, all, 2)
		assert.Contains(t, []turns.State{turns.Died, turns.Undetermined}, first.State)
		if w != turns.WriterAlive && !c.agent.Profile.HidesCalls {
			assert.Equal(t, turns.Well, all[1].State, "the turn after it")
		}
		return
	}
	require.Len(t, all, 1)
	killed := strings.HasPrefix(c.name, "kill_")
	switch {
	case killed && w == turns.WriterAlive:
		assert.Contains(t, []turns.State{turns.Running, turns.Waits}, first.State, "a process that runs has no verdict")
	case killed && w == turns.WriterUnknown:
		assert.Equal(t, turns.Undetermined, first.State)
	case killed && !c.agent.Profile.HidesCalls:
		assert.Equal(t, turns.Died, first.State)
	case c.name == "int_in_tool" && c.agent.Name != OpenCode && c.agent.Name != Pi && c.agent.Name != Gemini: // which do not record it
		assert.True(t, first.Aborted)
		assert.Equal(t, turns.Unwell, first.State)
	}
}
