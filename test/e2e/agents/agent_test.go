//go:build unix

package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// agent is a published agent and how it is run without a person, a network and a home of its own.
type agent struct {
	name    string // that otelllm knows it by
	label   string // on the pages, where that is another
	wire    faultyllm.Wire
	program string // below node_modules
	// interpreter runs the program, which is then below testdata, and needs is a module of it.
	interpreter, needs string
	args               []string // PROMPT is the prompt
	env                []string // {BASE} is the base URL
	files              map[string]string
	endless            int // requests after which it is interrupted, since it tries for minutes; 0: maxRequests
	otlp               telemetry
	bun                bool   // its HTTP client drops what it has decompressed and not delivered when a body breaks, now and then
	settings           bool   // it takes its base URL from its settings alone: it needs otelllm proxy
	tool               string // that runs a command in a shell
	input              string // COMMAND is the command
}

// telemetry is how an agent exports its spans and logs; the zero value is not at all. {OTLP}
// is the endpoint, {CONTENT} whether prompts, answers, and the tools' input and output are
// exported: not if that is recorded.
type telemetry struct {
	env  []string
	more map[string]string // what is added to a file of the agent
	logs bool              // llm_agent_logs reads its logs
}

// any reports whether it exports anything.
func (o *telemetry) any() bool { return len(o.env)+len(o.more) > 0 }

// exportSoon lets OpenTelemetry's SDKs export spans and logs every 10 ms and not every few
// seconds, where an agent ends without exporting the rest.
var exportSoon = []string{"OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BLRP_SCHEDULE_DELAY=10"}

const prompt = "canary-prompt-7f3a: run echo hi"

var agents = []agent{
	{
		name: "codex", wire: faultyllm.Responses, program: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
		args: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "PROMPT"},
		env:  []string{"E2E_KEY=sk-canary-4be1"},
		files: map[string]string{".codex/config.toml": `model = "gpt-5.5"
model_provider = "e2e"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.e2e]
name = "e2e"
base_url = "{BASE}"
env_key = "E2E_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 2000
`},
		otlp: telemetry{logs: true, env: exportSoon, more: map[string]string{".codex/config.toml": `[otel]
environment = "test"
log_user_prompt = {CONTENT}
exporter = { otlp-http = { endpoint = "{OTLP}/v1/logs", protocol = "binary" } }
trace_exporter = { otlp-http = { endpoint = "{OTLP}/v1/traces", protocol = "binary" } }
`}},
		tool: "exec_command", input: `{"cmd":"COMMAND"}`,
	},
	{
		name: "claude", wire: faultyllm.Anthropic, program: "@anthropic-ai/claude-code-linux-x64/claude",
		args: []string{"-p", "PROMPT", "--allowedTools", "Bash"},
		env: []string{
			"ANTHROPIC_BASE_URL={BASE}", "ANTHROPIC_API_KEY=sk-ant-canary-4be1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "CLAUDE_CODE_MAX_RETRIES=2",
		},
		otlp: telemetry{logs: true, env: []string{
			"CLAUDE_CODE_ENABLE_TELEMETRY=1", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1", "OTEL_TRACES_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=otlp",
			"OTEL_METRICS_EXPORTER=none", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT={OTLP}",
			"OTEL_LOG_USER_PROMPTS={CONTENT}", "OTEL_LOG_TOOL_DETAILS={CONTENT}", "OTEL_LOG_TOOL_CONTENT={CONTENT}", "OTEL_LOG_ASSISTANT_RESPONSES={CONTENT}",
		}},
		tool: "Bash", input: `{"command":"COMMAND","description":"echo"}`,
	},
	{
		name: "gemini", wire: faultyllm.Gemini, program: "@google/gemini-cli/bundle/gemini.js",
		args: []string{"-m", "gemini-2.5-flash", "--yolo", "-p", "PROMPT"},
		env:  []string{"GOOGLE_GEMINI_BASE_URL={BASE}", "GEMINI_API_KEY=canary-4be1", "GEMINI_CLI_TRUST_WORKSPACE=true", "NO_BROWSER=1"},
		files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},
			"general":{"enableAutoUpdate":false,"disableAutoUpdate":true,"maxAttempts":2},"privacy":{"usageStatisticsEnabled":false}}`},
		otlp: telemetry{logs: true, env: []string{
			"GEMINI_TELEMETRY_ENABLED=true", "GEMINI_TELEMETRY_TARGET=local", "GEMINI_TELEMETRY_TRACES_ENABLED=true",
			"GEMINI_TELEMETRY_LOG_PROMPTS={CONTENT}", "GEMINI_TELEMETRY_OTLP_PROTOCOL=http", "GEMINI_TELEMETRY_OTLP_ENDPOINT={OTLP}",
		}},
		tool: "run_shell_command", input: `{"command":"COMMAND","description":"echo","is_background":false}`,
	},
	{
		name: "qwen", wire: faultyllm.Chat, program: "@qwen-code/qwen-code/cli-entry.js",
		args: []string{"--auth-type", "openai", "-m", "qwen3-coder-plus", "--yolo", "-p", "PROMPT"},
		env:  []string{"OPENAI_BASE_URL={BASE}", "OPENAI_API_KEY=sk-canary-4be1"},
		files: map[string]string{".qwen/settings.json": `{"general":{"enableAutoUpdate":false,"disableAutoUpdate":true},
			"privacy":{"usageStatisticsEnabled":false},"model":{"generationConfig":{"maxRetries":1,"timeout":20000}}}`},
		otlp: telemetry{env: []string{
			"QWEN_TELEMETRY_ENABLED=true", "QWEN_TELEMETRY_TARGET=local", "QWEN_TELEMETRY_LOG_PROMPTS={CONTENT}",
			"QWEN_TELEMETRY_OTLP_PROTOCOL=http", "QWEN_TELEMETRY_OTLP_ENDPOINT={OTLP}",
		}},
		endless: 8, tool: "run_shell_command", input: `{"command":"COMMAND","description":"echo","is_background":false}`,
	},
	{
		name: "pi", wire: faultyllm.Anthropic, program: "@mariozechner/pi-coding-agent/dist/cli.js",
		args:  []string{"-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "PROMPT"},
		env:   []string{"ANTHROPIC_API_KEY=sk-ant-canary-4be1", "PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1"},
		files: map[string]string{".pi/agent/models.json": `{"providers":{"anthropic":{"baseUrl":"{BASE}"}}}`},
		tool:  "bash", input: `{"command":"COMMAND"}`,
	},
	{
		name: "opencode", bun: true, wire: faultyllm.Responses, program: "opencode-linux-x64/bin/opencode",
		args: []string{"run", "-m", "openai/gpt-5.5", "PROMPT"},
		env: []string{
			"OPENAI_API_KEY=sk-canary-4be1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_SHARE=1",
		},
		files: map[string]string{".config/opencode/opencode.json": `{
			// The comment and the comma are allowed.
			"provider": {"openai": {"options": {"baseURL": "{BASE}"}}},
		}`},
		otlp: telemetry{env: []string{
			`OPENCODE_CONFIG_CONTENT={"experimental":{"openTelemetry":true}}`, "OTEL_EXPORTER_OTLP_ENDPOINT={OTLP}",
			"OTEL_BSP_SCHEDULE_DELAY=1", // it exits some 50 ms after the end of a run, without a flush
		}},
		endless: 4, tool: "bash", input: `{"command":"COMMAND","description":"echo"}`,
	},
	{
		// A provider of the user's own, by the AI SDK's package for those. It executes a call as
		// soon as its arguments are JSON.
		name: "opencode", label: "opencode-chat", bun: true, wire: faultyllm.Chat, program: "opencode-linux-x64/bin/opencode",
		args: []string{"run", "-m", "e2e/m", "PROMPT"},
		env:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_SHARE=1"},
		files: map[string]string{".config/opencode/opencode.json": `{"provider": {"e2e": {"npm": "@ai-sdk/openai-compatible",
			"options": {"baseURL": "{BASE}", "apiKey": "sk-canary-4be1"}, "models": {"m": {}}}}}`},
		endless: 4, tool: "bash", input: `{"command":"COMMAND","description":"echo"}`,
	},
	{
		name: "kilo", bun: true, wire: faultyllm.Chat, program: "@kilocode/cli-linux-x64/bin/kilo", settings: true,
		args: []string{"run", "--auto", "-m", "e2e/m", "PROMPT"},
		env:  []string{"KILO_DISABLE_AUTOUPDATE=1", "KILO_DISABLE_MODELS_FETCH=1", "KILO_DISABLE_SHARE=1", "KILO_TELEMETRY_LEVEL=off"},
		files: map[string]string{".config/kilo/kilo.json": `{"provider": {"e2e": {"npm": "@ai-sdk/openai-compatible",
			"options": {"baseURL": "{BASE}", "apiKey": "sk-canary-4be1"}, "models": {"m": {}}}}}`},
		endless: 4, tool: "bash", input: `{"command":"COMMAND","description":"echo"}`,
	},
	{
		name: "continue", wire: faultyllm.Responses, program: "@continuedev/cli/dist/cn.js", settings: true,
		args: []string{"--config", "../continue.yaml", "--auto", "-p", "PROMPT"},
		env:  []string{"CONTINUE_TELEMETRY_ENABLED=0"},
		files: map[string]string{"continue.yaml": `name: test
version: 0.0.1
schema: v1
models:
  - {name: gpt-5.5, provider: openai, model: gpt-5.5, apiBase: "{BASE}", apiKey: sk-canary-4be1, roles: [chat]}
`},
		tool: "Bash", input: `{"command":"COMMAND"}`,
	},
	{
		name: "cline", bun: true, wire: faultyllm.Chat, program: "@cline/cli-linux-x64/bin/cline", settings: true,
		args: []string{"--json", "--retries", "2", "PROMPT"},
		env:  []string{"CLINE_TELEMETRY_DISABLED=1"},
		files: map[string]string{".cline/data/settings/providers.json": `{"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible":
			{"settings": {"provider": "openai-compatible", "apiKey": "sk-canary-4be1", "model": "gpt-5.5", "baseUrl": "{BASE}"},
			"updatedAt": "2026-11-24T00:00:00.000Z", "tokenSource": "manual"}}}`},
		tool: "run_commands", input: `{"commands":["COMMAND"]}`,
	},
}

// programs are agents without a package: programs of testdata, in an interpreter.
var programs = []agent{
	{
		name: "sdk", wire: faultyllm.Chat, interpreter: "/usr/bin/python3", program: "agent.py", args: []string{"PROMPT"},
		env:  []string{"OPENAI_BASE_URL={BASE}", "OPENAI_API_KEY=sk-canary-4be1"},
		tool: "shell", input: `{"command":"COMMAND"}`,
	},
	{
		name: "sdk", wire: faultyllm.Chat, interpreter: "/usr/bin/python3", needs: "httpx", program: "agent.py", args: []string{"httpx", "PROMPT"},
		env:  []string{"OPENAI_BASE_URL={BASE}", "OPENAI_API_KEY=sk-canary-4be1"},
		tool: "shell", input: `{"command":"COMMAND"}`,
	},
}

// command returns how a program is started, and skips the test where it cannot be.
func (a *agent) command(t *testing.T) []string {
	t.Helper()
	if a.interpreter == "" {
		return []string{a.path(t)}
	}
	check := "import http.client"
	if a.needs != "" {
		check = "import " + a.needs
	}
	if err := exec.Command(a.interpreter, "-c", check).Run(); err != nil {
		if a.needs != "" {
			t.Skipf("LEFT OUT: %s -c %q: %v", a.interpreter, check, err)
		}
		leaveOut(t, "%s -c %q: %v", a.interpreter, check, err)
	}
	path, err := filepath.Abs(filepath.Join("testdata", a.program))
	require.NoError(t, err)
	return []string{a.interpreter, path}
}

func leaveOut(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_AGENTS") != "" {
		require.FailNowf(t, "REQUIRE_AGENTS is set", format, args...)
	}
	t.Skipf("LEFT OUT: "+format, args...)
}

// base returns the base URL of a case, without the slash at its end.
func (a *agent) base(srv *faultyllm.Server, key string) string {
	return strings.TrimSuffix(srv.BaseURL(key, a.wire), "/")
}

// path returns the agent's program, and skips the test without the packages.
func (a *agent) path(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("AGENT_PACKAGES") // as `make agents-matrix-short` installs some
	if folder == "" {
		folder = filepath.Join(built.Root(t), "test", "agents")
	}
	path := filepath.Join(folder, "node_modules", a.program)
	if _, err := os.Stat(path); err != nil {
		leaveOut(t, "%s: its package is not here; `make agents-packages` installs it", a.name)
	}
	return path
}

// home is a throw-away home directory, with the agent's files.
type home struct{ dir, work string }

func (a *agent) home(t *testing.T, base string) home {
	t.Helper()
	h := home{dir: t.TempDir()}
	h.work = filepath.Join(h.dir, "work")
	require.NoError(t, os.MkdirAll(h.work, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "tmp"), 0o755))
	for name, content := range a.files {
		path := filepath.Join(h.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(content, "{BASE}", base)), 0o600))
	}
	return h
}

// title is what the agent is called on the pages.
func (a *agent) title() string {
	switch {
	case a.interpreter != "":
		return strings.TrimSuffix("python-"+a.needs, "-")
	case a == &codexWS:
		return "codex-websocket"
	case a.label != "":
		return a.label
	default:
		return a.name
	}
}

// environment is all that the agent gets.
func (a *agent) environment(h home, base string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "TMPDIR=" + filepath.Join(h.dir, "tmp"), "TERM=dumb", "NO_COLOR=1", "LANG=C.UTF-8", "CI=1",
		"XDG_CONFIG_HOME=" + filepath.Join(h.dir, ".config"), "XDG_DATA_HOME=" + filepath.Join(h.dir, ".data"),
		"XDG_CACHE_HOME=" + filepath.Join(h.dir, ".cache"), "XDG_STATE_HOME=" + filepath.Join(h.dir, ".state"),
	}
	for _, kv := range a.env {
		env = append(env, strings.ReplaceAll(kv, "{BASE}", base))
	}
	return env
}

// exports lets the agent export to this endpoint, by its files and the variables that are
// returned.
func (a *agent) exports(t *testing.T, h home, endpoint string) (env []string) {
	t.Helper()
	fill := strings.NewReplacer("{OTLP}", endpoint, "{CONTENT}", strconv.FormatBool(*recordTo == "")).Replace
	for _, kv := range a.otlp.env {
		env = append(env, fill(kv))
	}
	for name, text := range a.otlp.more {
		f, err := os.OpenFile(filepath.Join(h.dir, name), os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(fill(text))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	return env
}
