package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestSessionsFollowGone says that a session of pi or Gemini CLI died when the process that it has seen is gone. A session that
// looks the same, and whose process it has not seen, is not mentioned, nor one that may have ended well. As long as the process
// is there, an error is not mentioned: it may try again.
func TestSessionsFollowGone(t *testing.T) {
	home, work := agentHome(t), t.TempDir()
	now := time.Now().UTC()
	at := func(seconds int) string {
		return now.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339Nano)
	}
	put := func(name string, lines ...string) {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	for id, folder := range map[string]string{"seen": work, "elsewhere": "/container/work"} {
		put(".pi/agent/sessions/x/"+id+".jsonl",
			fmt.Sprintf(`{"type":"session","version":3,"id":"pi-%s","timestamp":%q,"cwd":%q}`, id, at(1), folder),
			fmt.Sprintf(`{"type":"message","id":"1","timestamp":%q,"message":{"role":"user","content":"x"}}`, at(1)),
			fmt.Sprintf(`{"type":"message","id":"2","timestamp":%q,"message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c1","name":"bash"}]}}`, at(2)))
	}
	put(".pi/agent/sessions/x/error.jsonl",
		fmt.Sprintf(`{"type":"session","version":3,"id":"pi-error","timestamp":%q,"cwd":%q}`, at(1), work),
		fmt.Sprintf(`{"type":"message","id":"1","timestamp":%q,"message":{"role":"user","content":"x"}}`, at(1)),
		fmt.Sprintf(`{"type":"message","id":"2","timestamp":%q,"message":{"role":"assistant","stopReason":"error","errorMessage":"429 x"}}`, at(2)))
	for id, answer := range map[string]string{"open": "", "answered": fmt.Sprintf(`{"id":"2","timestamp":%q,"type":"gemini","content":"x"}`, at(2))} {
		put(".gemini/tmp/x/chats/session-"+id+".jsonl",
			fmt.Sprintf(`{"sessionId":"gemini-%s","projectHash":"%x","kind":"main"}`, id, event.FolderOf(work)),
			fmt.Sprintf(`{"id":"1","timestamp":%q,"type":"user","content":"x"}`, at(1)), answer)
	}
	var stand []*exec.Cmd
	for _, name := range []string{"pi", "gemini"} {
		sleep, err := exec.LookPath("sleep")
		require.NoError(t, err)
		cmd := &exec.Cmd{Path: sleep, Args: []string{name, "60"}, Dir: work}
		require.NoError(t, cmd.Start())
		stand = append(stand, cmd)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lockedBuffer
	file := filepath.Join(home, "out.jsonl")
	o := &sessionsOptions{follow: true, since: 24 * time.Hour, json: file}
	require.NoError(t, o.check())
	all := &tally{}
	require.NoError(t, all.open(file))
	s := &sessionScan{options: o, all: all, out: &out, err: &out}
	ticks, done := make(chan time.Time), make(chan error)
	go func() { done <- s.follow(ctx, time.Now, ticks) }()
	tick := func() { ticks <- time.Time{}; ticks <- time.Time{} } // two looks, of which one is over
	tick()
	assert.Equal(t, "following; Ctrl-C ends it\n", out.String())
	for _, cmd := range stand {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	tick()
	tick()
	assert.Regexp(t, `pi +pi-seen  died: bash may have run; look first, then decide\n`, out.String())
	assert.Regexp(t, `gemini +gemini-open  died: before the model had answered; a tool may have run`, out.String())
	assert.Regexp(t, `pi +pi-error  failed: rate limited`, out.String())
	assert.Equal(t, 2, strings.Count(out.String(), "died: "))
	assert.NotContains(t, out.String(), "elsewhere")
	assert.NotContains(t, out.String(), "answered  ")
	cancel()
	require.NoError(t, <-done)
	_, err := all.close()
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(raw), `"`+string(semconv.RunEndKey)+`":"process_silent"`), "medium confidence")
	assert.NotContains(t, string(raw), work)
	assert.NotContains(t, out.String(), work)
}
