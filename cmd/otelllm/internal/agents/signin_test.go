package agents_test

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// chatGPT is Codex's sign-in with a plan of ChatGPT.
func chatGPT(plan string) string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"https://api.openai.com/auth":{"chatgpt_plan_type":"` + plan + `"}}`))
	return `{"OPENAI_API_KEY":null,"tokens":{"id_token":"canary.` + claims + `.canary"}}`
}

const codexBase = "codex -c openai_base_url" // where a base URL is looked for: the argument of Codex

// The routing decision of every agent and every way to sign in. In the end-to-end tests, TestHosts holds it
// against what the agents call directly.
func TestSignIns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  string
		env   []string
		files map[string]string // below the home
		// base is the variable, or codexBase, that leads to want; "": nothing may lead anywhere in its place.
		base, want string
		left       string // in the note that says what is left alone; "": no note
	}{
		{name: "codex, a key", args: "codex exec", files: map[string]string{".codex/auth.json": `{"OPENAI_API_KEY":"canary"}`}, base: codexBase, want: "https://api.openai.com/v1"},
		{name: "codex, ChatGPT", args: "codex", files: map[string]string{".codex/auth.json": chatGPT("plus")}, base: codexBase, want: "https://chatgpt.com/backend-api/codex"},
		{name: "codex, ChatGPT elsewhere", args: "codex exec", env: []string{"CODEX_HOME=HOME/other"}, files: map[string]string{"other/auth.json": chatGPT("Pro"), ".codex/auth.json": `{"OPENAI_API_KEY":"canary"}`}, base: codexBase, want: "https://chatgpt.com/backend-api/codex"},
		{name: "codex, ChatGPT of a company", args: "codex exec", files: map[string]string{".codex/auth.json": chatGPT("business")}, base: codexBase, left: "workspace"},
		{name: "codex, ChatGPT with another plan", args: "codex exec", files: map[string]string{".codex/auth.json": chatGPT("next")}, base: codexBase, left: "workspace"},
		{name: "codex, ChatGPT behind another host", args: "codex exec", files: map[string]string{".codex/auth.json": chatGPT("pro"), ".codex/config.toml": `chatgpt_base_url = "https://gw.example/backend-api"`}, base: codexBase, left: "chatgpt_base_url"},
		{name: "codex, a profile", args: "codex -p work exec", files: map[string]string{".codex/auth.json": chatGPT("pro"), ".codex/work.config.toml": `openai_base_url = "https://gw.example/v1"`}, base: codexBase, want: "https://gw.example/v1"},
		{name: "codex, a profile over the rest", args: "codex exec --profile=work", files: map[string]string{".codex/config.toml": `openai_base_url = "https://a.example/v1"`, ".codex/work.config.toml": `openai_base_url = "https://gw.example/v1"`}, base: codexBase, want: "https://gw.example/v1"},
		{name: "codex, Bedrock", args: "codex exec", files: map[string]string{".codex/config.toml": `model_provider = "amazon-bedrock"`}, left: "model provider"},
		{name: "claude, a key", args: "claude", env: []string{"ANTHROPIC_API_KEY=canary"}, base: "ANTHROPIC_BASE_URL", want: "https://api.anthropic.com"},
		{name: "claude, a file of OAuth", args: "claude", files: map[string]string{".claude/.credentials.json": `{}`}, base: "ANTHROPIC_BASE_URL", want: "https://api.anthropic.com"},
		{name: "claude, Bedrock", args: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=eu-west-1"}, base: "ANTHROPIC_BEDROCK_BASE_URL", left: "Bedrock"},
		{name: "claude, Bedrock by its settings", args: "claude", env: []string{"AWS_REGION=eu-west-1"}, files: map[string]string{".claude/settings.json": `{"env":{"CLAUDE_CODE_USE_BEDROCK":1}}`}, base: "ANTHROPIC_BEDROCK_BASE_URL", left: "Bedrock"},
		{name: "claude, Bedrock with a token", args: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=true", "AWS_REGION=eu-west-1", "AWS_BEARER_TOKEN_BEDROCK=canary"}, base: "ANTHROPIC_BEDROCK_BASE_URL", want: "https://bedrock-runtime.eu-west-1.amazonaws.com"},
		{name: "claude, Bedrock without a region", args: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=true", "AWS_BEARER_TOKEN_BEDROCK=canary"}, base: "ANTHROPIC_BEDROCK_BASE_URL", left: "AWS_REGION"},
		{name: "claude, a gateway to Bedrock", args: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=1", "CLAUDE_CODE_SKIP_BEDROCK_AUTH=1", "ANTHROPIC_BEDROCK_BASE_URL=https://gw.example/b"}, base: "ANTHROPIC_BEDROCK_BASE_URL", want: "https://gw.example/b"},
		{name: "claude, a gateway that verifies signatures", args: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=1", "ANTHROPIC_BEDROCK_BASE_URL=https://gw.example/b"}, left: "signature"},
		{name: "claude, Vertex", args: "claude", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=us-east5"}, base: "ANTHROPIC_VERTEX_BASE_URL", want: "https://us-east5-aiplatform.googleapis.com/v1"},
		{name: "claude, Vertex everywhere", args: "claude", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=global"}, base: "ANTHROPIC_VERTEX_BASE_URL", want: "https://aiplatform.googleapis.com/v1"},
		{name: "claude, Vertex by the model", args: "claude", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=us-east5", "VERTEX_REGION_CLAUDE_4_SONNET=europe-west1"}, base: "ANTHROPIC_VERTEX_BASE_URL", left: "Vertex"},
		{name: "claude, Vertex in a region of another form", args: "claude", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=eu"}, base: "ANTHROPIC_VERTEX_BASE_URL", left: "Vertex"},
		{name: "claude, Foundry", args: "claude", env: []string{"CLAUDE_CODE_USE_FOUNDRY=1", "ANTHROPIC_FOUNDRY_RESOURCE=x"}, base: "ANTHROPIC_FOUNDRY_BASE_URL", left: "Foundry"},
		{name: "claude, Foundry by its URL", args: "claude", env: []string{"CLAUDE_CODE_USE_FOUNDRY=1", "ANTHROPIC_FOUNDRY_BASE_URL=https://x.example/anthropic"}, base: "ANTHROPIC_FOUNDRY_BASE_URL", want: "https://x.example/anthropic"},
		{name: "claude, a socket", args: "claude", env: []string{"ANTHROPIC_UNIX_SOCKET=/run/gateway.sock"}, base: "ANTHROPIC_BASE_URL", left: "ANTHROPIC_UNIX_SOCKET"},
		{name: "claude, its own --settings", args: "claude --settings x.json", files: map[string]string{".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"https://gw.example"}}`}, left: "settings.json"},
		{name: "gemini, a key", args: "gemini", env: []string{"GEMINI_API_KEY=canary"}, base: "GOOGLE_GEMINI_BASE_URL", want: "https://generativelanguage.googleapis.com"},
		{name: "gemini, Vertex", args: "gemini", env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true"}, base: "GOOGLE_VERTEX_BASE_URL", left: "Vertex"},
		{name: "gemini, Vertex by its URL", args: "gemini", env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true", "GOOGLE_VERTEX_BASE_URL=https://aiplatform.googleapis.com"}, base: "GOOGLE_VERTEX_BASE_URL", want: "https://aiplatform.googleapis.com"},
		{name: "gemini, OAuth", args: "gemini", files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"oauth-personal"}}}`}, left: "Google"},
		{name: "qwen, a key", args: "qwen", env: []string{"OPENAI_API_KEY=canary"}, base: "OPENAI_BASE_URL", want: "https://dashscope.aliyuncs.com/compatible-mode/v1"},
		{name: "qwen, a base URL", args: "qwen", env: []string{"OPENAI_BASE_URL=https://gw.example/v1"}, base: "OPENAI_BASE_URL", want: "https://gw.example/v1"},
		{name: "qwen, Anthropic", args: "qwen", base: "ANTHROPIC_BASE_URL"},
		{name: "opencode, ChatGPT", args: "opencode", files: map[string]string{".local/share/opencode/auth.json": `{"openai":{"type":"oauth"}}`}, left: "ChatGPT"},
		{name: "copilot, GitHub", args: "copilot", base: "COPILOT_PROVIDER_BASE_URL", left: "GitHub"},
		{name: "copilot, a provider", args: "copilot", env: []string{"COPILOT_PROVIDER_BASE_URL=https://gw.example/v1"}, base: "COPILOT_PROVIDER_BASE_URL", want: "https://gw.example/v1"},
		{name: "grok", args: "grok", base: "GROK_BASE_URL", want: "https://api.x.ai/v1"},
		{name: "grok, a base URL", args: "grok", env: []string{"GROK_BASE_URL=https://gw.example/v1"}, base: "GROK_BASE_URL", want: "https://gw.example/v1"},
		{name: "crush", args: "crush", base: "OPENAI_API_ENDPOINT", want: "https://api.openai.com/v1"},
		{name: "goose", args: "goose", base: "OPENAI_HOST", want: "https://api.openai.com"},
		{name: "amp", args: "amp", left: "Amp"},
		{name: "a program with Azure", args: "node agent.js", env: []string{"AZURE_OPENAI_API_KEY=canary"}, base: "OPENAI_BASE_URL", left: "AZURE_OPENAI_API_KEY"},
		{name: "a program with Azure's endpoint", args: "node agent.js", env: []string{"AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com"}, base: "AZURE_OPENAI_ENDPOINT", want: "https://x.openai.azure.com", left: "OPENAI_BASE_URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := command(t, strings.Fields(tt.args)...)
			for _, kv := range tt.env {
				c.Env = append(c.Env, strings.Replace(kv, "HOME/", c.Home+"/", 1))
			}
			for name, text := range tt.files {
				write(t, c.Home, name, text)
			}
			p := prepare(t, c)
			assert.NotContains(t, strings.Join(p.Notes, "")+strings.Join(p.Args, ""), "canary")
			said := slices.ContainsFunc(p.Notes, func(note string) bool { return strings.Contains(note, tt.left) })
			assert.Equal(t, tt.left != "", said && len(p.Notes) == 1, "%q", p.Notes)
			base := env(p, tt.base)
			if tt.base == codexBase {
				if at := slices.IndexFunc(p.Args, func(arg string) bool { return strings.HasPrefix(arg, "openai_base_url") }); at > 0 {
					base = assigned(t, p.Args[at], "openai_base_url")
				}
			}
			if tt.want == "" {
				assert.Empty(t, base)
				return
			}
			assert.Equal(t, tt.want+"/x", reached(t, p, base, "/x"))
		})
	}
}

// A base URL in Claude Code's settings.json is the destination, and not api.anthropic.com.
func TestClaudeSettings(t *testing.T) {
	c := command(t, "claude", "-p", "x")
	write(t, c.Dir, ".claude/settings.local.json", `{"env":{"ANTHROPIC_BASE_URL":"https://gw.example/a","ANTHROPIC_AUTH_TOKEN":"canary"}}`)
	p := prepare(t, c)
	assert.Equal(t, []string{"claude", "--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:4567/anthropic-2/a"}}`, "-p", "x"}, p.Args)
	assert.Equal(t, "https://gw.example/a/v1/messages", reached(t, p, "http://127.0.0.1:4567/anthropic-2/a", "/v1/messages"))
	c.Upstreams = map[string]*url.URL{"anthropic": {Scheme: "https", Host: "other.example"}}
	p = prepare(t, c)
	assert.JSONEq(t, `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:4567/anthropic"}}`, p.Args[2])
}

// An HTTP proxy in Claude Code's settings is the proxy's for what goes upstream, and never gets what goes to the proxy.
func TestClaudeProxyOfItsSettings(t *testing.T) {
	c := command(t, "claude", "-p", "x")
	write(t, c.Home, ".claude/settings.json", `{"env":{"HTTPS_PROXY":"http://proxy.example:3128","NO_PROXY":".internal"}}`)
	p := prepare(t, c)
	assert.Equal(t, "http://proxy.example:3128", p.Getenv("HTTPS_PROXY"))
	assert.Equal(t, []string{"claude", "--settings", `{"env":{"NO_PROXY":".internal,127.0.0.1"}}`, "-p", "x"}, p.Args)
	assert.Equal(t, ".internal,127.0.0.1", env(p, "no_proxy"))

	write(t, c.Home, ".claude/settings.json", `{"env":{"HTTPS_PROXY":"","NO_PROXY":".internal"}}`)
	c.Env = append(c.Env, "HTTPS_PROXY=http://proxy.example:3128")
	p = prepare(t, c)
	assert.Empty(t, p.Getenv("HTTPS_PROXY"))
	assert.Equal(t, c.Args, p.Args)

	write(t, c.Home, ".claude/settings.json", `{"env":{"HTTPS_PROXY":"http://proxy.example:3128","NO_PROXY":".internal"}}`)
	c.Args = []string{"claude", "--settings", "mine.json"}
	p = prepare(t, c)
	assert.Equal(t, c.Args, p.Args)
	assert.Empty(t, env(p, "ANTHROPIC_BASE_URL"), "it cannot be excepted, so it is not used")
	assert.Contains(t, strings.Join(p.Notes, " "), "NO_PROXY")
}

// The HTTP proxy in a file that an agent reads at its start is used as well, but for that of a project.
func TestProxyOfAFileOfVariables(t *testing.T) {
	const text = "# ours\nexport HTTPS_PROXY=\"http://user:canary@proxy.example:3128\"\nNO_PROXY=.internal\nNODE_EXTRA_CA_CERTS=/ca.pem\n"
	for agent, file := range map[string]string{"codex": ".codex/.env", "gemini": ".gemini/.env", "qwen": ".qwen/.env"} {
		c := command(t, agent)
		write(t, c.Home, file, text)
		p := prepare(t, c)
		assert.Equal(t, "http://user:canary@proxy.example:3128", p.Getenv("HTTPS_PROXY"), agent)
		assert.Empty(t, p.Getenv("NODE_EXTRA_CA_CERTS"), agent)
		assert.Empty(t, env(p, "HTTPS_PROXY"), "%s has it from its file", agent)
		assert.Equal(t, ".internal,127.0.0.1", env(p, "NO_PROXY"), "%s takes it in place of that of its file", agent)
		c.Env = append(c.Env, "HTTPS_PROXY=http://other.example:3128")
		assert.Equal(t, "http://other.example:3128", prepare(t, c).Getenv("HTTPS_PROXY"), agent)

		c = command(t, agent)
		write(t, c.Dir, file, text)
		p = prepare(t, c)
		assert.Empty(t, p.Getenv("HTTPS_PROXY"), agent)
		if agent != "codex" { // which reads none of a project
			assert.Contains(t, strings.Join(p.Notes, " "), "sets HTTPS_PROXY")
			assert.NotContains(t, strings.Join(p.Notes, " "), "canary")
		}
	}
}

// The URL of ChatGPT's subscribers is a base URL as it is.
func TestUpstreamOfChatGPT(t *testing.T) {
	c := command(t, "codex", "exec")
	write(t, c.Home, ".codex/auth.json", chatGPT("business"))
	for _, path := range []string{"/backend-api/codex", "/backend-api/codex/"} {
		c.Upstreams = map[string]*url.URL{"openai": {Scheme: "https", Host: "chatgpt.com", Path: path}}
		p := prepare(t, c)
		assert.Equal(t, "https://chatgpt.com/backend-api/codex/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"))
	}
}

// A configuration that cannot be read is an error that names the file, and nothing of what is in it.
func TestBrokenConfigurations(t *testing.T) {
	for agent, file := range map[string]string{
		"codex": ".codex/config.toml", "claude": ".claude/settings.json", "opencode": ".config/opencode/opencode.json",
		"kilo": ".config/kilo/kilo.json", "pi": ".pi/agent/models.json",
	} {
		c := command(t, agent)
		c.Temp = func() (string, error) { return t.TempDir(), nil }
		write(t, c.Home, file, `{"canary`)
		_, err := agents.Prepare(c)
		require.Error(t, err, agent)
		assert.Contains(t, err.Error(), filepath.FromSlash(file), agent)
		assert.Contains(t, err.Error(), "mend it", agent)
		assert.NotContains(t, err.Error(), "canary", agent)
	}
}
