//go:build unix

package agents

import (
	"bytes"
	"encoding/base64"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
)

// signIn is a way to sign in to a provider with an agent.
type signIn struct {
	agent  string // its name, here and for otelllm
	name   string
	args   []string // in place of the agent's
	env    []string
	files  map[string]string
	routed bool // its calls go through the proxy
	silent bool // it makes none
	direct bool // it uses no HTTP proxy, and is in Node

	workspace string // the host of the user's workspace in ChatGPT, if it has one
}

// jwt is a token that is valid for long.
func jwt(claims string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256"}`) + "." + part(claims) + "." + "canary-signature"
}

// chatGPT is Codex's sign-in with a plan of ChatGPT.
func chatGPT(plan string) map[string]string {
	id := jwt(`{"email":"a@b.example","https://api.openai.com/auth":{"chatgpt_plan_type":"` + plan + `","chatgpt_account_id":"acct"},"exp":4102444800}`)
	return map[string]string{".codex/auth.json": `{"OPENAI_API_KEY":null,"tokens":{"id_token":"` + id + `","access_token":"` + jwt(`{"exp":4102444800}`) +
		`","refresh_token":"canary-refresh","account_id":"acct"},"last_refresh":"2126-01-01T00:00:00Z"}`}
}

var codexArgs = []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "PROMPT"}

var signIns = []signIn{
	{agent: "codex", name: "key", args: codexArgs, files: map[string]string{".codex/auth.json": `{"OPENAI_API_KEY":"canary-key"}`}, routed: true},
	{agent: "codex", name: "key in the environment", args: codexArgs, env: []string{"CODEX_API_KEY=canary-key"}, routed: true},
	{agent: "codex", name: "ChatGPT", args: codexArgs, files: chatGPT("pro"), routed: true},
	{agent: "codex", name: "ChatGPT, a company's", args: codexArgs, files: chatGPT("business"), workspace: "https://eu.chatgpt.example"},
	{agent: "claude", name: "key", env: []string{"ANTHROPIC_API_KEY=canary-key"}, routed: true},
	{agent: "claude", name: "token", env: []string{"CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-canary-token"}, routed: true},
	{agent: "claude", name: "OAuth", files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"sk-ant-oat01-canary-oauth","refreshToken":"canary-refresh","expiresAt":4102444800000,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}`}, routed: true},
	{agent: "claude", name: "Bedrock", env: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=canary-id", "AWS_SECRET_ACCESS_KEY=canary-secret"}},
	{agent: "claude", name: "Bedrock, a token", env: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=us-east-1", "AWS_BEARER_TOKEN_BEDROCK=canary-token"}, routed: true},
	{agent: "claude", name: "Vertex", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=us-east5", "ANTHROPIC_VERTEX_PROJECT_ID=p", "CLAUDE_CODE_SKIP_VERTEX_AUTH=1"}, routed: true},
	{agent: "claude", name: "Vertex, global", env: []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=global", "ANTHROPIC_VERTEX_PROJECT_ID=p", "CLAUDE_CODE_SKIP_VERTEX_AUTH=1"}, routed: true},
	{agent: "claude", name: "Foundry", env: []string{"CLAUDE_CODE_USE_FOUNDRY=1", "ANTHROPIC_FOUNDRY_RESOURCE=team", "ANTHROPIC_FOUNDRY_API_KEY=canary-key"}},
	{agent: "claude", name: "settings.json", env: []string{"ANTHROPIC_API_KEY=canary-key"}, files: map[string]string{".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"https://gateway.example/a"}}`}, routed: true},
	{agent: "gemini", name: "key", env: []string{"GEMINI_API_KEY=canary-key"}, routed: true},
	{agent: "gemini", name: "Vertex", env: []string{"GOOGLE_API_KEY=canary-key", "GOOGLE_GENAI_USE_VERTEXAI=true"}, files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"vertex-ai"}}}`}},
	{agent: "gemini", name: "OAuth", files: map[string]string{
		".gemini/settings.json":    `{"security":{"auth":{"selectedType":"oauth-personal"}}}`,
		".gemini/oauth_creds.json": `{"access_token":"canary-access","refresh_token":"canary-refresh","expiry_date":4102444800000,"token_type":"Bearer"}`,
	}},
	{agent: "qwen", name: "key", args: []string{"--auth-type", "openai", "-m", "qwen3-coder-plus", "-p", "PROMPT"}, env: []string{"OPENAI_API_KEY=canary-key"}, files: map[string]string{}, routed: true},
	{agent: "qwen", name: "key, another model", args: []string{"--auth-type", "openai", "-m", "gpt-5.5", "-p", "PROMPT"}, env: []string{"OPENAI_API_KEY=canary-key"}, files: map[string]string{}, routed: true},
	{agent: "qwen", name: "Anthropic", args: []string{"--auth-type", "anthropic", "-m", "claude-sonnet-4-5", "-p", "PROMPT"}, env: []string{"ANTHROPIC_API_KEY=canary-key", "ANTHROPIC_BASE_URL=https://gateway.example"}, files: map[string]string{}, routed: true},
	{agent: "qwen", name: "Anthropic, without a base URL", args: []string{"--auth-type", "anthropic", "-m", "claude-sonnet-4-5", "-p", "PROMPT"}, env: []string{"ANTHROPIC_API_KEY=canary-key"}, files: map[string]string{}, silent: true},
	{agent: "pi", name: "key", env: []string{"ANTHROPIC_API_KEY=canary-key"}, files: map[string]string{}, routed: true},
	{agent: "opencode", name: "key", env: []string{"OPENAI_API_KEY=canary-key"}, files: map[string]string{}, routed: true},
	{agent: "opencode", name: "ChatGPT", files: map[string]string{".data/opencode/auth.json": `{"openai":{"type":"oauth","refresh":"canary-refresh","access":"` + jwt(`{"exp":4102444800}`) + `","expires":4102444800000,"accountId":"acct"}}`}},
	{agent: "opencode", name: "Anthropic", args: []string{"run", "-m", "anthropic/claude-sonnet-4-5", "PROMPT"}, env: []string{"ANTHROPIC_API_KEY=canary-key"}, files: map[string]string{}, routed: true},
	{agent: "kilo", name: "a provider of its own", files: map[string]string{".config/kilo/kilo.json": strings.ReplaceAll(agentOf("kilo").files[".config/kilo/kilo.json"], "{BASE}", "https://gateway.example/v1")}, routed: true},
	{agent: "copilot", name: "a provider of the user's", env: []string{"COPILOT_PROVIDER_BASE_URL=https://gateway.example/v1", "COPILOT_PROVIDER_API_KEY=canary-key", "COPILOT_MODEL=gpt-5.5"}, routed: true},
	{agent: "grok", name: "key", env: []string{"GROK_API_KEY=canary-key"}, routed: true, direct: true},
}

// others are agents that are run for their hosts alone.
var others = map[string]agent{
	"copilot": {name: "copilot", program: "@github/copilot-linux-x64/copilot", args: []string{"-p", "PROMPT", "--allow-all-tools"}},
	"grok":    {name: "grok", program: "@vibe-kit/grok-cli/dist/index.js", args: []string{"-p", "PROMPT"}},
}

// Every host that an agent calls directly is a host that is called under `otelllm run`, with the same paths
// and the same credential, and no other is.
func TestHosts(t *testing.T) {
	t.Parallel()
	bin := built.Otelllm(t)
	for i := range signIns {
		s := &signIns[i]
		t.Run(s.agent+"/"+s.name, func(t *testing.T) {
			a, argv := s.prepare(t)
			t.Parallel()
			direct, itself := newRecorder(t), newRecorder(t)
			through := newRecorder(t) // of otelllm; the agent itself has another
			itself.ca, itself.issuer, itself.key = through.ca, through.issuer, through.key
			if s.workspace != "" {
				direct.workspace = strings.Replace(direct.workspace, "NO_CONSTRAINT", s.workspace, 1)
				itself.workspace = direct.workspace
			}
			alone, below := direct.environment(), itself.environment()
			if s.direct {
				alone, below = append(alone, direct.resolver(t)...), append(below, itself.resolver(t)...)
			}
			ask(t, &a, "", alone, argv)
			// What a line for a shell sets is the agent's alone.
			line := strings.Join(below, " ") + " '" + strings.Join(slices.Concat(argv, a.args), "' '") + "'"
			line = strings.ReplaceAll(line, "PROMPT", prompt)
			a.args = nil
			said := ask(t, &a, "", through.environment(), []string{bin, "run", "--", "sh", "-c", line})
			t.Logf("direct:  %v of %v\nthrough: %v of %v, and itself %v of %v\n%s", direct.calls(), direct.all(), through.calls(), through.all(), itself.calls(), itself.all(), said)
			if !s.silent && !assert.NotEmpty(t, direct.calls()) {
				return
			}
			if s.routed || s.silent {
				assert.Equal(t, direct.calls(), through.calls())
				assert.Empty(t, itself.calls())
				return
			}
			assert.Equal(t, direct.calls(), itself.calls())
			assert.Empty(t, through.calls())
			assert.Contains(t, said, "otelllm: note: ")
		})
	}
}

// prepare returns the agent that is signed in, and how it is started.
func (s *signIn) prepare(t *testing.T) (agent, []string) {
	t.Helper()
	a, ok := others[s.agent]
	if !ok {
		a = *agentOf(s.agent)
	}
	a.env = slices.DeleteFunc(slices.Clone(a.env), func(kv string) bool {
		return strings.Contains(kv, "{BASE}") || strings.Contains(kv, "API_KEY=")
	})
	a.env = append(a.env, s.env...)
	if s.files != nil {
		a.files = s.files
	}
	if s.args != nil {
		a.args = s.args
	}
	if s.agent == "codex" {
		a.files = map[string]string{".codex/config.toml": "check_for_update_on_startup = false\n[analytics]\nenabled = false\n"}
		maps.Copy(a.files, s.files)
	}
	return a, a.command(t)
}

// ask runs the agent once, and returns what it prints.
func ask(t *testing.T, a *agent, base string, env, argv []string) string {
	t.Helper()
	h := a.home(t, base)
	t.Cleanup(func() { endDaemons(h.dir) })
	for _, arg := range a.args {
		argv = append(argv, strings.ReplaceAll(arg, "PROMPT", prompt))
	}
	var said bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(a.environment(h, base), env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.work, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its status does not matter
	}()
	limit := time.AfterFunc(startPatience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	<-ended
	return said.String()
}

// gateway is a host that no resolver knows.
const gateway = "https://gateway.invalid"

// otelllm uses the HTTP proxies that the agent itself would use.
func TestHTTPProxies(t *testing.T) {
	t.Parallel()
	bin := built.Otelllm(t)
	for i := range agents {
		a := &agents[i]
		if a.settings || a.label != "" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			argv := a.command(t)
			t.Parallel()
			for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
				t.Run(name, func(t *testing.T) {
					direct, through := newRecorder(t), newRecorder(t)
					ask(t, a, gateway, direct.environment(name), argv)
					said := ask(t, a, gateway, through.environment(name), slices.Concat([]string{bin, "run", "--set", a.name, "--"}, argv))
					t.Logf("%s, direct: %v, through: %v\n%s", t.Name(), direct.calls(), through.calls(), said)
					assert.Equal(t, direct.calls(), through.calls())
				})
			}
		})
	}
}
