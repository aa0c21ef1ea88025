package agents

import (
	"path/filepath"
	"slices"
	"strings"
)

// Agent is what is known of a published agent.
type Agent struct {
	Name     string   // as --set takes it
	Title    string   // as people write it
	Commands []string // base names of its commands, and of its packages
	Way      string   // how it is sent through the proxy, for documents
	Limits   string   // what does not go through the proxy, for documents

	// Version is the version that the tests run through the proxy; "" if none could be tried.
	Version string

	// set adds what the agent needs beside the variables that every command gets.
	set func(*builder) error
}

// byEnvironment is the way of agents that need nothing but the variables.
const byEnvironment = "environment variables"

// Table returns the known agents, in the order of documents.
func Table() []Agent {
	return []Agent{
		{
			Name: "codex", Title: "Codex CLI", Commands: []string{"codex"}, Version: "0.169.0", set: setCodex,
			Way:    "`-c openai_base_url=…`, and `-c model_providers.….base_url=…` for each provider of its configuration",
			Limits: "signed in with ChatGPT, or by a keyring (its calls go to another host; `run` says so); profiles with a base URL of their own; `--oss`",
		},
		{
			Name: "claude", Title: "Claude Code", Commands: []string{"claude", "claude-code"}, Version: "2.1.330", Way: byEnvironment,
			Limits: "a base URL in the `env` of its settings.json takes precedence; Bedrock and Vertex without a base URL variable",
		},
		{
			Name: "gemini", Title: "Gemini CLI", Commands: []string{"gemini", "gemini-cli"}, Version: "0.61.0", Way: byEnvironment,
			Limits: "sign-in with Google (Code Assist)",
		},
		{
			Name: "qwen", Title: "Qwen Code", Commands: []string{"qwen", "qwen-code"}, Version: "0.24.4", Way: byEnvironment,
			Limits: "a base URL in its settings.json takes precedence; sign-in with Qwen",
		},
		{
			Name: "opencode", Title: "opencode", Commands: []string{"opencode", "opencode-ai"}, Version: "1.18.33", set: setOpencode,
			Way:    "`OPENCODE_CONFIG_CONTENT`, with the base URL of OpenAI, Anthropic and Google, and of each provider of its configuration",
			Limits: "providers that are signed in to with OAuth, and opencode's own gateway",
		},
		{
			Name: "pi", Title: "pi", Commands: []string{"pi", "pi-coding-agent"}, Version: "0.73.1", set: setPi,
			Way:    "`--extension`, with the base URL of OpenAI, Anthropic and Google, and of each provider of its models.json",
			Limits: "other built-in providers, and those that are signed in to with OAuth",
		},
		{
			Name: "cline", Title: "Cline CLI", Commands: []string{"cline"}, Version: "3.0.65", set: bySettings("cline auth -b URL"),
			Way: "its settings alone: `otelllm proxy`, and `cline auth -b URL`", Limits: "`otelllm run`",
		},
		{
			Name: "continue", Title: "Continue CLI", Commands: []string{"cn"}, Version: "1.5.47", set: bySettings("apiBase in its config.yaml"),
			Way: "its settings alone: `otelllm proxy`, and `apiBase` in its config.yaml", Limits: "`otelllm run`",
		},
		{Name: "aider", Title: "aider", Commands: []string{"aider", "aider-chat"}, Way: byEnvironment, Limits: "`openai-api-base` in its configuration takes precedence"},
		{Name: "sdk", Title: "any program on a provider's SDK", Version: "Python (http.client, httpx)", Way: byEnvironment, Limits: "a base URL in the code, or in a file that the program reads"},
	}
}

// bySettings is for an agent whose base URL is in its own settings alone, which are the
// user's. It says how they are set.
func bySettings(how string) func(*builder) error {
	return func(b *builder) error {
		b.note("%s takes its base URL from its own settings: start `otelllm proxy`, and set the URL with %s", b.plan.Agent.Title, how)
		return nil
	}
}

// Generic is the name of the entry for programs that are not known.
const Generic = "sdk"

// Names returns the names of the known agents.
func Names() []string {
	var names []string
	for _, a := range Table() {
		names = append(names, a.Name)
	}
	return names
}

// ByName returns the agent of that name.
func ByName(name string) (Agent, bool) {
	table := Table()
	i := slices.IndexFunc(table, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return table[i], true
}

// byCommand returns the agent that a command starts, or the generic entry.
func byCommand(command string) Agent {
	for _, a := range Table() {
		if a.startedBy(command) {
			return a
		}
	}
	generic, _ := ByName(Generic)
	return generic
}

// startedBy reports whether arg is the agent's command or package: codex, /usr/bin/codex,
// codex.js, @openai/codex@latest.
func (a *Agent) startedBy(arg string) bool {
	base := filepath.Base(arg)
	if at := strings.LastIndexByte(base, '@'); at > 0 {
		base = base[:at]
	}
	for _, ext := range []string{".exe", ".cmd", ".js", ".mjs"} {
		base = strings.TrimSuffix(base, ext)
	}
	return slices.Contains(a.Commands, base)
}
