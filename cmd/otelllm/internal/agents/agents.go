package agents

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
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

	// Unreachable is what comes nearest, for this agent, to an upstream that it cannot connect to
	// itself. The agents' matrix measures it: docs/agents-matrix/unreachable.md.
	Unreachable proxy.Unreachable

	// Proxies are the variables that it takes its HTTP proxy for HTTPS from, the first that is
	// set; nil: HTTPS_PROXY alone.
	Proxies []string

	// Certificate are the variables that name the files of its client certificate and of the key, in
	// PEM; "": it has none.
	Certificate struct{ File, Key string }

	// settings are files in which a base URL outweighs the variables.
	settings []setting

	// elsewhere are the providers that the agent calls at another base URL than their own
	// where no variable says so; "": at none.
	elsewhere map[string]string

	// set adds what the agent needs beside the variables that every command gets.
	set func(*builder) error
}

// byEnvironment is the way of agents that need nothing but the variables.
const byEnvironment = "environment variables"

// either are the variables for the HTTP proxy of the many programs in Node that take that of HTTP
// for HTTPS, if there is no other.
var either = []string{"HTTPS_PROXY", "HTTP_PROXY"}

// Table returns the known agents, in the order of documents.
func Table() []Agent {
	return []Agent{
		{
			Name: "codex", Title: "Codex CLI", Commands: []string{"codex"}, Version: "0.169.0", set: setCodex, Proxies: []string{"HTTPS_PROXY", "ALL_PROXY"},
			Unreachable: proxy.UnreachableRefuse,
			Way:         "`-c openai_base_url=…`, and `-c model_providers.….base_url=…` for each provider of its configuration, its profile and its command line",
			Limits:      "signed in with ChatGPT to the workspace of a company, which may have a host of its own; a sign-in in a keyring; Bedrock; `--oss`",
		},
		{
			Name: "claude", Title: "Claude Code", Commands: []string{"claude", "claude-code"}, Version: "2.1.330", set: setClaude, Proxies: []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"},
			Certificate: struct{ File, Key string }{"CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY"},
			Unreachable: proxy.UnreachableStatus,
			Way:         "environment variables, and `--settings` where its settings.json sets the base URL",
			Limits:      "Bedrock with AWS credentials, whose signature is for the host; Vertex and Bedrock in a region that no variable names; Foundry without `ANTHROPIC_FOUNDRY_BASE_URL`; `ANTHROPIC_UNIX_SOCKET`",
		},
		{
			Name: "gemini", Title: "Gemini CLI", Commands: []string{"gemini", "gemini-cli"}, Version: "0.61.0", Way: byEnvironment, set: setGemini,
			Proxies: either, Unreachable: proxy.UnreachableStatus,
			Limits: "sign-in with Google (Code Assist); Vertex without `GOOGLE_VERTEX_BASE_URL`",
		},
		{
			Name: "qwen", Title: "Qwen Code", Commands: []string{"qwen", "qwen-code"}, Version: "0.24.4", Way: byEnvironment, set: setQwen,
			Proxies: either, Unreachable: proxy.UnreachableStatus,
			Limits:   "a base URL in its settings.json takes precedence; Anthropic's API without `ANTHROPIC_BASE_URL`",
			settings: []setting{{".qwen/settings.json", "baseUrl"}},
			elsewhere: map[string]string{
				"openai":    "https://dashscope.aliyuncs.com/compatible-mode/v1",
				"anthropic": "", // it wants ANTHROPIC_BASE_URL
			},
		},
		{
			Name: "opencode", Title: "opencode", Commands: []string{"opencode", "opencode-ai"}, Version: "1.18.33", set: setOpencode, Unreachable: proxy.UnreachableStatus,
			Way:    "`OPENCODE_CONFIG_CONTENT`, with the base URL of OpenAI, Anthropic and Google, and of each provider of its configuration",
			Limits: "OpenAI, signed in with ChatGPT; other providers that are not in its configuration, and its own gateway",
		},
		{
			Name: "kilo", Title: "Kilo CLI", Commands: []string{"kilo", "kilocode", "@kilocode/cli"}, Version: "7.7.9", set: setKilo, Unreachable: proxy.UnreachableStatus,
			Way:    "`KILO_CONFIG_CONTENT`, as opencode",
			Limits: "as opencode",
		},
		{
			Name: "pi", Title: "pi", Commands: []string{"pi", "pi-coding-agent"}, Version: "0.73.1", set: setPi, Proxies: either,
			Unreachable: proxy.UnreachableStatus,
			Way:         "`--extension`, with the base URL of OpenAI, Anthropic and Google, and of each provider of its models.json",
			Limits:      "other built-in providers, and those that are signed in to with OAuth",
		},
		{
			Name: "copilot", Title: "GitHub Copilot CLI", Commands: []string{"copilot"}, Version: "1.0.102", set: setCopilot,
			Way: "`COPILOT_PROVIDER_BASE_URL`, where it is set", Limits: "GitHub's own models, whose host GitHub names after the sign-in",
		},
		{
			Name: "grok", Title: "Grok CLI", Commands: []string{"grok", "grok-cli"}, Version: "0.0.34", Way: "`GROK_BASE_URL`",
			set: setVars(variable{"GROK_BASE_URL", "xai", "/v1"}), settings: []setting{{".grok/user-settings.json", "baseURL"}}, Limits: "a base URL in its user-settings.json takes precedence",
		},
		{
			Name: "crush", Title: "Crush", Commands: []string{"crush"}, Way: "`OPENAI_API_ENDPOINT`, `ANTHROPIC_API_ENDPOINT`, `GEMINI_API_ENDPOINT`",
			set:      setVars(variable{"OPENAI_API_ENDPOINT", "openai", "/v1"}, variable{"ANTHROPIC_API_ENDPOINT", "anthropic", ""}, variable{"GEMINI_API_ENDPOINT", "gemini", ""}),
			settings: []setting{{".config/crush/crush.json", "base_url"}, {"crush.json", "base_url"}, {".crush.json", "base_url"}},
			Limits:   "a base URL in its crush.json takes precedence; other providers",
		},
		{
			Name: "goose", Title: "goose", Commands: []string{"goose"}, Way: "`OPENAI_HOST`, `ANTHROPIC_HOST`",
			set:    setVars(variable{"OPENAI_HOST", "openai", ""}, variable{"ANTHROPIC_HOST", "anthropic", ""}),
			Limits: "other providers",
		},
		{
			Name: "amp", Title: "Amp", Commands: []string{"amp", "@ampcode/cli"}, set: leftAlone("its models are behind its own service"),
			Way: "not at all", Limits: "all: its models are behind its own service",
		},
		{
			Name: "cline", Title: "Cline CLI", Commands: []string{"cline"}, Version: "3.0.65", set: bySettings("cline auth -b URL"),
			Way: "its settings alone: `otelllm proxy`, and `cline auth -b URL`", Limits: "`otelllm run`",
		},
		{
			Name: "continue", Title: "Continue CLI", Commands: []string{"cn"}, Version: "1.5.47", set: bySettings("apiBase in its config.yaml"),
			Way: "its settings alone: `otelllm proxy`, and `apiBase` in its config.yaml", Limits: "`otelllm run`",
		},
		{Name: "aider", Title: "aider", Commands: []string{"aider", "aider-chat"}, Way: byEnvironment, settings: []setting{{".aider.conf.yml", "openai-api-base"}}, Limits: "`openai-api-base` in its configuration takes precedence"},
		{Name: "sdk", Title: "any program on a provider's SDK", Version: "Python (http.client, httpx)", Way: byEnvironment, Limits: "a base URL in the code, or in a file that the program reads"},
	}
}

// variable is a variable of an agent's own for the base URL of a provider.
type variable struct{ name, provider, path string }

// setVars is for an agent that has variables of its own. Those that are set stay the destination.
func setVars(vars ...variable) func(*builder) error {
	return func(b *builder) error {
		for _, v := range vars {
			p := *findProvider(v.provider)
			p.Path = v.path
			if b.upstream(p.Name) == nil && b.keep(p.Name, []string{v.name}) {
				continue
			}
			b.setenv(v.name, b.base(&p))
		}
		return nil
	}
}

// leftAlone is for an agent that cannot be sent through the proxy.
func leftAlone(why string) func(*builder) error {
	return func(b *builder) error {
		b.note("the model calls of %s are left alone: %s", b.plan.Agent.Title, why)
		return nil
	}
}

// setCopilot sends the calls to a provider of the user's own through the proxy.
func setCopilot(b *builder) error {
	if !b.keep("copilot", []string{"COPILOT_PROVIDER_BASE_URL"}) {
		return leftAlone("GitHub names the host of its models after the sign-in; those of a provider that COPILOT_PROVIDER_BASE_URL names are seen")(b)
	}
	return nil
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

// startedBy reports whether arg is the agent's command or package: codex, /usr/bin/codex,
// codex.js, @openai/codex@latest, node_modules/@openai/codex/bin/main.js.
func (a *Agent) startedBy(arg string) bool {
	arg = filepath.ToSlash(arg)
	base := path.Base(arg)
	if at := strings.LastIndexByte(base, '@'); at > 0 {
		base, arg = base[:at], strings.TrimSuffix(arg, base[at:])
	}
	for _, ext := range []string{".exe", ".cmd", ".js", ".mjs"} {
		base = strings.TrimSuffix(base, ext)
	}
	names := []string{base, arg}
	if i := strings.LastIndex(arg, "node_modules/"); i >= 0 {
		inside := strings.Split(arg[i+len("node_modules/"):], "/")
		if strings.HasPrefix(inside[0], "@") && len(inside) > 1 {
			names = append(names, inside[1], inside[0]+"/"+inside[1])
		} else {
			names = append(names, inside[0])
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(a.Commands, name) })
}
