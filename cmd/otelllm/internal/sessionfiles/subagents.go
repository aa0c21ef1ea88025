package sessionfiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/claude"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// The bounds of the sub-agents of one session that are read.
const (
	maxSubAgents = 100     // the newest
	maxFolder    = 10_000  // files of a folder
	maxDepth     = 4       // of a sub-agent below others
	maxMeta      = 1 << 16 // bytes of the file that describes one
)

// addSubAgents reads the sub-agents of which no output in a session shows that they ended well. What is not found or cannot
// be read is not listed, and the turn says so.
func addSubAgents(f *File, log *event.Log) {
	switch f.Agent.Name {
	case Codex:
		var files map[string]string
		addFound(f, log, 0, func(of *event.Log, call string) string {
			if files == nil {
				files = rolloutsBeside(f.Path)
			}
			return files[of.Began[call]]
		})
	case Claude:
		agent := *f.Agent
		agent.lines = func(l *event.Log) lineReader { return claude.NewSubAgent(l) }
		var files map[string]string
		addFound(&File{Agent: &agent}, log, 0, func(_ *event.Log, call string) string {
			if files == nil {
				files = claudeSubAgents(f.Path)
			}
			return files[call]
		})
	}
}

// addFound reads the sub-agents of a log whose files are found, and those below them.
func addFound(f *File, log *event.Log, depth int, find func(of *event.Log, call string) string) {
	calls := log.Unended(f.Agent.Profile.SubAgents)
	for _, call := range calls[max(0, len(calls)-maxSubAgents):] {
		name := find(log, call)
		if name == "" {
			continue
		}
		logs, err := readLines(&File{Agent: f.Agent, Path: name})
		if err != nil || len(logs) == 0 {
			continue
		}
		log.AddSubAgent(call, logs[0])
		if depth < maxDepth {
			addFound(f, logs[0], depth+1, find)
		}
	}
}

// regularFiles returns the names of the files in a folder that end so, without that. Links are left out.
func regularFiles(folder, end string) (names []string) {
	in, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer in.Close()
	list, err := in.ReadDir(maxFolder)
	if err != nil {
		return nil
	}
	for _, d := range list {
		if name, ok := strings.CutSuffix(d.Name(), end); ok && d.Type().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

// rolloutsBeside returns the rollouts in the folder of one, by the ids of their threads. That folder has those that began on the
// same day.
func rolloutsBeside(rollout string) map[string]string {
	const id = len("01234567-89ab-cdef-0123-456789abcdef")
	files, folder := make(map[string]string), filepath.Dir(rollout)
	for _, name := range regularFiles(folder, ".jsonl") {
		if len(name) > id {
			files[name[len(name)-id:]] = filepath.Join(folder, name+".jsonl")
		}
	}
	return files
}

// claudeSubAgents returns the files of the sub-agents of a session of Claude Code, by the calls that began them.
func claudeSubAgents(session string) map[string]string {
	files, folder := make(map[string]string), filepath.Join(strings.TrimSuffix(session, ".jsonl"), "subagents")
	sessions := make(map[string]bool)
	for _, name := range regularFiles(folder, ".jsonl") {
		sessions[name] = true
	}
	for _, name := range regularFiles(folder, ".meta.json") {
		info, err := os.Stat(filepath.Join(folder, name+".meta.json"))
		if err != nil || info.Size() > maxMeta || !sessions[name] {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, name+".meta.json"))
		var meta struct {
			Call string `json:"toolUseId"`
		}
		if err == nil && json.Unmarshal(raw, &meta) == nil && meta.Call != "" {
			files[meta.Call] = filepath.Join(folder, name+".jsonl")
		}
	}
	return files
}
