// Package sessionfiles reads what coding agents write to the disk of their sessions, and judges it.
//
// A reader for each agent makes neutral events of its files (package event), which are made into
// turns, and these into the facts that any other producer records (package turns). The rules are
// those of package classify. The session of `otelllm run` itself is another thing: package session.
package sessionfiles

import (
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/claude"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/cline"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/codex"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/gemini"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/opencode"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/pi"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/qwen"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// Agent is an agent whose session files are read.
type Agent struct {
	Name    string // of its command
	Title   string // as its makers write it
	Profile turns.Profile
	Known   func(version string) bool

	lines func(*event.Log) lineReader // nil for one whose files are not lines of JSON
}

// lineReader reads the lines of a file.
type lineReader interface{ Line(raw []byte) }

// The agents, by the names of their commands.
const (
	Codex    = "codex"
	Claude   = "claude"
	OpenCode = "opencode"
	Qwen     = "qwen"
	Pi       = "pi"
	Gemini   = "gemini"
	Cline    = "cline"
)

// Agents are all agents whose session files are read. What a profile claims was measured by killing
// the agent at every moment; what a resume tells the model was read on the wire.
var Agents = []*Agent{
	{
		Name: Codex, Title: "Codex", Known: codex.Known,
		Profile: turns.Profile{
			Agent: "codex", CallsFirst: true, EndsTurns: true, Resume: turns.ResumeMisleads,
			SubAgents: []string{"spawn_agent", "resume_agent", "send_input", "followup_task", "send_message"},
		},
		lines: func(l *event.Log) lineReader { return codex.New(l) },
	},
	{
		Name: Claude, Title: "Claude Code", Known: claude.Known,
		Profile: turns.Profile{Agent: "claude-code", Resume: turns.ResumeAsks, SubAgents: []string{"Agent", "Task"}},
		lines:   func(l *event.Log) lineReader { return claude.New(l) },
	},
	{
		Name: OpenCode, Title: "opencode", Known: opencode.Known,
		Profile: turns.Profile{Agent: "opencode", CallsFirst: true, Resume: turns.ResumeMisleads, SubAgents: []string{opencode.SubAgents}},
	},
	{
		Name: Qwen, Title: "Qwen Code", Known: qwen.Known,
		Profile: turns.Profile{Agent: "qwen-code", CallsFirst: true, Resume: turns.ResumeSaysRetry, SubAgents: []string{"agent", "task"}},
		lines:   func(l *event.Log) lineReader { return qwen.New(l) },
	},
	{
		Name: Pi, Title: "pi", Known: pi.Known,
		Profile: turns.Profile{Agent: "pi", CallsFirst: true, PartialText: true, Resume: turns.ResumeMisleads},
		lines:   func(l *event.Log) lineReader { return pi.New(l) },
	},
	{
		Name: Gemini, Title: "Gemini CLI", Known: gemini.Known,
		Profile: turns.Profile{Agent: "gemini-cli", HidesCalls: true, Resume: turns.ResumeSendsPrompt},
		lines:   func(l *event.Log) lineReader { return gemini.New(l) },
	},
	{
		Name: Cline, Title: "Cline", Known: cline.Known,
		Profile: turns.Profile{Agent: "cline", CallsFirst: true},
	},
}

// Find returns the agent with this name, or nil.
func Find(name string) *Agent {
	for _, a := range Agents {
		if a.Name == name {
			return a
		}
	}
	return nil
}
