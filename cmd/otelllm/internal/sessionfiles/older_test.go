package sessionfiles

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// Commands of the user interface of Claude Code are no turns, unless the model is asked.
func TestClaudeCommands(t *testing.T) {
	raw := goldenSession(t, Claude, "ok_tool")
	command := []byte(`{"type":"user","isSidechain":false,"message":{"role":"user","content":"<command-name>/exit</command-name>"},"timestamp":"2026-11-20T09:40:00.000Z","sessionId":"x","version":"2.1.330"}` + "\n" +
		`{"type":"user","isSidechain":false,"message":{"role":"user","content":"<local-command-stdout>Canary 4711</local-command-stdout>"},"timestamp":"2026-11-20T09:40:00.100Z","sessionId":"x","version":"2.1.330"}` + "\n")
	all := judgeAll(logOf(t, Find(Claude), append(bytes.Clone(raw), command...)), Find(Claude), turns.WriterDead)
	require.Len(t, all, 1)
	assert.Equal(t, turns.Well, all[0].State)

	asks := []byte(`{"type":"api-request","sessionId":"x","id":"1","timestamp":"2026-11-20T09:40:01.000Z","querySource":"sdk"}` + "\n")
	all = judgeAll(logOf(t, Find(Claude), append(append(bytes.Clone(raw), command...), asks...)), Find(Claude), turns.WriterDead)
	require.Len(t, all, 2)
	assert.Equal(t, turns.Died, all[1].State)
}

// Older versions of Claude Code write no stop reasons: how a turn ended is not known.
func TestClaudeWithoutStopReasons(t *testing.T) {
	raw := bytes.ReplaceAll(goldenSession(t, Claude, "ok_tool"), []byte(`"stop_reason":"end_turn"`), []byte(`"stop_reason":null`))
	all := judgeAll(logOf(t, Find(Claude), raw), Find(Claude), turns.WriterDead)
	require.Len(t, all, 1)
	assert.Equal(t, turns.Undetermined, all[0].State)
}

// Older versions of Codex record neither that an answer is complete nor what a request carried.
func TestOlderCodex(t *testing.T) {
	var raw []byte
	for line := range bytes.Lines(goldenSession(t, Codex, "ok_tool")) {
		if !bytes.Contains(line, []byte("token_usage_record")) {
			raw = append(raw, line...)
		}
	}
	raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("sampled_through_sequence"), []byte("x")), []byte("0.169.0"), []byte("0.117.0"))
	all := judgeAll(logOf(t, Find(Codex), raw), Find(Codex), turns.WriterDead)
	require.Len(t, all, 1)
	assert.Equal(t, turns.Well, all[0].State)
}

// A turn of Codex that did something without the model is well.
func TestCodexWithoutModel(t *testing.T) {
	raw := []byte(`{"timestamp":"2026-11-20T09:32:35.470Z","type":"session_meta","payload":{"id":"x","cli_version":"0.169.0"}}
{"timestamp":"2026-11-20T09:32:35.478Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}
{"timestamp":"2026-11-20T09:32:35.500Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":null}}
`)
	all := judgeAll(logOf(t, Find(Codex), raw), Find(Codex), turns.WriterDead)
	require.Len(t, all, 1)
	assert.Equal(t, turns.Well, all[0].State)
}
