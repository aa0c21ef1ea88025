package sessionfiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/claude"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/qwen"
)

// The bounds of what is looked at to find the sub-agents of a session.
const (
	maxFolder = 10_000  // files of a folder
	maxMeta   = 1 << 16 // bytes of the file that describes one
)

// addSubAgents reads the sub-agents of which no output in a session shows that they ended well. What is not found or cannot
// be read is not listed, and the turn says so.
func addSubAgents(f *File, log *event.Log) {
	agent := *f.Agent
	var find func(of *event.Log, call string) string
	switch f.Agent.Name {
	case Codex:
		find = rollouts(f.Path)
	case Claude:
		agent.lines = func(l *event.Log) lineReader { return claude.NewSubAgent(l) }
		find = described(filepath.Join(strings.TrimSuffix(f.Path, ".jsonl"), "subagents"))
	case Qwen:
		agent.lines = func(l *event.Log) lineReader { return qwen.NewSubAgent(l) }
		chats, name := filepath.Split(f.Path)
		find = described(filepath.Join(filepath.Dir(filepath.Clean(chats)), "subagents", strings.TrimSuffix(name, ".jsonl")))
	default:
		return
	}
	log.AddSubAgents(agent.Profile.SubAgents, func(of *event.Log, call string) *event.Log {
		name := find(of, call)
		if name == "" {
			return nil
		}
		logs, err := readLines(&File{Agent: &agent, Path: name})
		if err != nil || len(logs) == 0 {
			return nil
		}
		return logs[0]
	})
}

// regularFiles returns the names of the files in a folder that end so, without that. Links are left out.
func regularFiles(folder, end string) (names []string) {
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
		return nil
	}
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

// rollouts returns what finds the rollout of a sub-agent of Codex, by the id of its thread: beside the one that began it, or in
// the folder of the day on which its thread began.
func rollouts(rollout string) func(of *event.Log, call string) string {
	const id = len("01234567-89ab-cdef-0123-456789abcdef")
	folders := make(map[string]map[string]string) // files by threads, by folder
	return func(of *event.Log, call string) string {
		thread := of.Began[call]
		for _, folder := range append(daysOf(rollout, thread), filepath.Dir(rollout)) {
			files, ok := folders[folder]
			if !ok {
				files = make(map[string]string)
				for _, name := range regularFiles(folder, ".jsonl") {
					if len(name) > id {
						files[name[len(name)-id:]] = filepath.Join(folder, name+".jsonl")
					}
				}
				folders[folder] = files
			}
			if files[thread] != "" {
				return files[thread]
			}
		}
		return ""
	}
}

// daysOf returns the folders of the days, in any time zone, on which a thread may have begun. Its id has the time (RFC 9562,
// version 7).
func daysOf(rollout, thread string) (folders []string) {
	const stamp = len("01234567-89ab")
	if len(thread) < stamp {
		return nil
	}
	ms, err := strconv.ParseInt(strings.ReplaceAll(thread[:stamp], "-", ""), 16, 64)
	at := event.Millis(ms)
	if err != nil || at.IsZero() {
		return nil
	}
	day := filepath.Dir(rollout) // sessions/YYYY/MM/DD
	sessions := filepath.Dir(filepath.Dir(filepath.Dir(day)))
	for _, offset := range []int{0, -1, 1} {
		folders = append(folders, filepath.Join(sessions, filepath.FromSlash(at.AddDate(0, 0, offset).Format("2006/01/02"))))
	}
	return folders
}

// described returns what finds the file of a sub-agent in a folder where each has another file, which names the call that began
// it.
func described(folder string) func(of *event.Log, call string) string {
	files := sync.OnceValue(func() map[string]string { return describedIn(folder) })
	return func(_ *event.Log, call string) string { return files()[call] }
}

// describedIn returns the files of sub-agents by the calls that began them.
func describedIn(folder string) map[string]string {
	sessions := make(map[string]bool)
	for _, name := range regularFiles(folder, ".jsonl") {
		sessions[name] = true
	}
	files := make(map[string]string)
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
