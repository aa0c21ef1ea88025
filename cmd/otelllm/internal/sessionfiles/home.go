package sessionfiles

import (
	"cmp"
	"path/filepath"
)

// Place is where the sessions of an agent are.
type Place struct {
	Agent *Agent
	Home  string // the agent's own folder, with its locks
	// Patterns are those of the files of its sessions, below Home, with slashes. ** is any number
	// of folders.
	Patterns []string
}

// Places returns where agents keep their sessions for a user with this home directory and these
// environment variables. All agents use the same folders on Linux, macOS and Windows.
func Places(home string, env func(string) string) []Place {
	in := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	data := cmp.Or(env("XDG_DATA_HOME"), in(".local", "share"))
	opencode := Place{Find(OpenCode), filepath.Join(data, "opencode"), []string{"opencode*.db"}}
	if db := env("OPENCODE_DB"); db != "" && db != ":memory:" {
		if !filepath.IsAbs(db) {
			db = filepath.Join(opencode.Home, db)
		}
		opencode.Home, opencode.Patterns = filepath.Dir(db), []string{filepath.Base(db)}
	}
	cline := Place{Find(Cline), cmp.Or(env("CLINE_DATA_DIR"), filepath.Join(cmp.Or(env("CLINE_DIR"), in(".cline")), "data")), []string{"sessions/*/*.json"}}
	if dir := env("CLINE_SESSION_DATA_DIR"); dir != "" {
		cline.Home, cline.Patterns = dir, []string{"*/*.json"}
	}
	pi := Place{Find(Pi), cmp.Or(env("PI_CODING_AGENT_DIR"), in(".pi", "agent")), []string{"sessions/*/*.jsonl"}}
	if dir := env("PI_CODING_AGENT_SESSION_DIR"); dir != "" {
		pi.Home, pi.Patterns = dir, []string{"*.jsonl"}
	}
	return []Place{
		{Find(Codex), cmp.Or(env("CODEX_HOME"), in(".codex")), []string{"sessions/**/rollout-*.jsonl", "sessions/**/rollout-*.jsonl.zst"}},
		{Find(Claude), cmp.Or(env("CLAUDE_CONFIG_DIR"), in(".claude")), []string{"projects/*/*.jsonl"}},
		opencode,
		{Find(Qwen), cmp.Or(env("QWEN_RUNTIME_DIR"), env("QWEN_HOME"), in(".qwen")), []string{"projects/*/chats/*.jsonl"}},
		pi,
		{Find(Gemini), filepath.Join(cmp.Or(env("GEMINI_CLI_HOME"), home), ".gemini"), []string{"tmp/*/chats/session-*.jsonl"}},
		cline,
	}
}
