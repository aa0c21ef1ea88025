package agents_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
)

// command is a command in an empty home.
func command(t *testing.T, args ...string) agents.Command {
	t.Helper()
	home := t.TempDir()
	work := filepath.Join(home, "work")
	require.NoError(t, os.Mkdir(work, 0o755))
	return agents.Command{
		Args: args, Env: []string{"PATH=/bin", "KEEP=me"}, Dir: work, Home: home,
		Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:4567"},
	}
}

func prepare(t *testing.T, c agents.Command) *agents.Plan {
	t.Helper()
	plan, err := agents.Prepare(c)
	require.NoError(t, err)
	return plan
}

// env returns a variable of a plan, and whether it is set.
func env(p *agents.Plan, name string) string {
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// reached returns the URL that a request is sent to that a client of a base URL makes: what
// the proxy does with it.
func reached(t *testing.T, p *agents.Plan, base, path string) string {
	t.Helper()
	u, err := url.Parse(strings.TrimSuffix(base, "/") + path)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:4567", u.Host, "%s does not lead to the proxy", base)
	var best *agents.Route
	for i := range p.Routes {
		r := &p.Routes[i]
		if rest, ok := strings.CutPrefix(u.Path, r.Prefix); ok && (rest == "" || rest[0] == '/') && (best == nil || len(r.Prefix) > len(best.Prefix)) {
			best = r
		}
	}
	require.NotNil(t, best, "no route for %s", u.Path)
	out := strings.TrimSuffix(best.URL.String(), "/") + strings.TrimPrefix(u.EscapedPath(), best.Prefix)
	return out
}

func TestEveryProgramGetsVariables(t *testing.T) {
	p := prepare(t, command(t, "python3", "agent.py"))
	assert.Equal(t, []string{"python3", "agent.py"}, p.Args)
	assert.Equal(t, agents.Generic, p.Agent.Name)
	assert.Equal(t, "me", env(p, "KEEP"))
	for _, tt := range []struct{ name, path, want string }{
		{"OPENAI_BASE_URL", "/chat/completions", "https://api.openai.com/v1/chat/completions"},
		{"OPENAI_API_BASE", "/responses", "https://api.openai.com/v1/responses"},
		{"ANTHROPIC_BASE_URL", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"ANTHROPIC_BASE_URL", "/messages", "https://api.anthropic.com/v1/messages"}, // Vercel's AI SDK
		{"GOOGLE_GEMINI_BASE_URL", "/v1beta/models/m:generateContent", "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"},
		{"OPENROUTER_API_BASE", "/chat/completions", "https://openrouter.ai/api/v1/chat/completions"},
		{"OLLAMA_API_BASE", "/api/chat", "http://127.0.0.1:11434/api/chat"},
	} {
		assert.Equal(t, tt.want, reached(t, p, env(p, tt.name), tt.path), tt.name)
	}
	assert.Empty(t, env(p, "AZURE_OPENAI_ENDPOINT"), "there is no default for it")
	assert.Empty(t, p.Notes)
}

func TestOwnBaseURLStaysTheDestination(t *testing.T) {
	c := command(t, "agent")
	c.Env = append(c.Env,
		"OPENAI_BASE_URL=https://user:secret@gw.example:8443/team%2Fa/openai/v1?api-version=1",
		"ANTHROPIC_BASE_URL=http://localhost:4000", "AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com/",
		"GOOGLE_GEMINI_BASE_URL=unix:///run/model.sock")
	p := prepare(t, c)
	u, err := url.Parse(env(p, "OPENAI_BASE_URL"))
	require.NoError(t, err)
	assert.Equal(t, "user:secret", u.User.String(), "the client sends it")
	assert.Equal(t, "api-version=1", u.RawQuery)
	u.RawQuery, u.User = "", nil
	assert.Equal(t, "https://gw.example:8443/team%2Fa/openai/v1/responses", reached(t, p, u.String(), "/responses"))
	assert.Equal(t, "http://localhost:4000/v1/messages", reached(t, p, env(p, "ANTHROPIC_BASE_URL"), "/v1/messages"))
	assert.Equal(t, "https://x.openai.azure.com/openai/deployments", reached(t, p, env(p, "AZURE_OPENAI_ENDPOINT"), "/openai/deployments"))
	assert.Empty(t, env(p, "OPENAI_API_BASE"), "a program that reads only this one was not redirected before")
	assert.Equal(t, "unix:///run/model.sock", env(p, "GOOGLE_GEMINI_BASE_URL"))
	require.Len(t, p.Notes, 1)
	assert.Contains(t, p.Notes[0], "GOOGLE_GEMINI_BASE_URL")
	for _, r := range p.Routes {
		assert.Nil(t, r.URL.User)
	}
}

// Whatever base URL is set, a request reaches what it would have reached without the proxy.
func TestEveryBaseURLIsReached(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 500 {
		base := pick("http", "https") + "://" + pick("a.example", "127.0.0.1", "[::1]") + pick("", ":8080") +
			pick("", "/", "/v1", "/openai/v1", "/a%2Fb/v1", "/v1/v1", "/openai") + pick("", "/")
		c := command(t, "agent")
		names := []string{"OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "AZURE_API_BASE"}
		name, other := pick(names...), pick(names...)
		c.Env = append(c.Env, name+"="+base)
		if other != name {
			c.Env = append(c.Env, other+"=https://other.example/x")
		}
		p := prepare(t, c)
		assert.Equal(t, strings.TrimSuffix(base, "/")+"/responses", reached(t, p, env(p, name), "/responses"), "%s=%s", name, base)
		if other != name {
			assert.Equal(t, "https://other.example/x/responses", reached(t, p, env(p, other), "/responses"))
		}
	}
}

func TestUpstream(t *testing.T) {
	c := command(t, "agent")
	c.Env = append(c.Env, "OPENAI_BASE_URL=https://other.example/v1")
	c.Upstreams = map[string]*url.URL{"openai": {Scheme: "https", Host: "gw.example", Path: "/team/v1"}, "": {Scheme: "http", Host: "all.example"}}
	p := prepare(t, c)
	assert.Equal(t, "https://gw.example/team/v1/responses", reached(t, p, env(p, "OPENAI_BASE_URL"), "/responses"), "what is given counts")
	assert.Equal(t, "http://all.example/v1/messages", reached(t, p, env(p, "ANTHROPIC_BASE_URL"), "/v1/messages"))
	assert.Equal(t, "http://all.example/v1/messages", reached(t, p, env(p, "ANTHROPIC_BASE_URL"), "/messages"))

	c.Upstreams = map[string]*url.URL{"nobody": {}}
	_, err := agents.Prepare(c)
	require.ErrorContains(t, err, "nobody")
	c.Upstreams, c.Agent = nil, "nothing"
	_, err = agents.Prepare(c)
	require.ErrorContains(t, err, "codex")
}

func TestFileOfVariables(t *testing.T) {
	c := command(t, "agent")
	require.NoError(t, os.WriteFile(filepath.Join(c.Home, ".env"), []byte("# x\nOPENAI_BASE_URL=\nexport ANTHROPIC_BASE_URL=\"https://gw.example/secret-path\"\n"), 0o600))
	p := prepare(t, c)
	assert.Empty(t, env(p, "ANTHROPIC_BASE_URL"), "the program may take it from the file")
	assert.NotEmpty(t, env(p, "OPENAI_BASE_URL"), "it is empty there")
	require.Len(t, p.Notes, 1)
	assert.Contains(t, p.Notes[0], "--upstream anthropic=URL")
	assert.NotContains(t, p.Notes[0], "secret-path")
	c.Upstreams = map[string]*url.URL{"anthropic": {Scheme: "https", Host: "gw.example"}}
	p = prepare(t, c)
	assert.Equal(t, "https://gw.example/v1/messages", reached(t, p, env(p, "ANTHROPIC_BASE_URL"), "/v1/messages"))
	assert.Empty(t, p.Notes)
}

// The proxy itself is excepted from an HTTP proxy that may also come from a file of the agent's, and what is excepted
// already stays so: a program that reads no_proxy first does not lose what NO_PROXY has.
func TestLoopbackGoesThroughNoOtherProxy(t *testing.T) {
	for _, tt := range []struct {
		env          []string
		upper, lower string
	}{
		{nil, "127.0.0.1", "127.0.0.1"},
		{[]string{"HTTP_PROXY=http://proxy.example:3128"}, "127.0.0.1", "127.0.0.1"},
		{[]string{"NO_PROXY=.internal"}, ".internal,127.0.0.1", ".internal,127.0.0.1"},
		{[]string{"no_proxy=.internal"}, ".internal,127.0.0.1", ".internal,127.0.0.1"},
		{[]string{"NO_PROXY=.internal", "no_proxy=127.0.0.1"}, ".internal,127.0.0.1", "127.0.0.1"},
		{[]string{"NO_PROXY=*"}, "*", "*"},
	} {
		c := command(t, "agent")
		c.Env = append(c.Env, tt.env...)
		p := prepare(t, c)
		assert.Equal(t, tt.upper, env(p, "NO_PROXY"), tt.env)
		assert.Equal(t, tt.lower, env(p, "no_proxy"), tt.env)
	}
}

// A provider that the command line of Codex defines is sent through the proxy.
func TestCodexProviderOfTheCommandLine(t *testing.T) {
	const table = `{ name="own", base_url="https://own.example/v1", env_key="KEY" }`
	for _, flags := range [][]string{
		{"-c", `model_providers.own.base_url="https://own.example/v1"`},
		{"-c", `model_providers.own.base_url=https://own.example/v1`},
		{"-c", `model_providers.own=` + table},
		{"--config", `model_providers={ own=` + table + ` }`},
		{`--config=model_providers.own.base_url='https://own.example/v1'`},
	} {
		c := command(t, append(append([]string{"codex"}, flags...), "-c", `model="x=1"`, "exec")...)
		p := prepare(t, c)
		last := p.Args[len(p.Args)-4]
		base := regexp.MustCompile(`http://127[^"' ]+`).FindString(last)
		assert.Equal(t, "https://own.example/v1/responses", reached(t, p, base, "/responses"), last)
		assert.Equal(t, strings.ReplaceAll(flags[len(flags)-1], "https://own.example/v1", base), last)
		assert.Equal(t, c.Args[len(c.Args)-3:], p.Args[len(p.Args)-3:])
	}
}

func TestCodex(t *testing.T) {
	c := command(t, "/opt/bin/codex", "exec", "fix it")
	p := prepare(t, c)
	require.Len(t, p.Args, 5)
	assert.Equal(t, []string{"/opt/bin/codex", "-c"}, p.Args[:2])
	assert.Equal(t, []string{"exec", "fix it"}, p.Args[3:])
	assert.Equal(t, "https://api.openai.com/v1/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"))

	dir := filepath.Join(c.Home, ".codex")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(`openai_base_url = "https://gw.example/openai/v1"
[model_providers.local]
base_url = "http://127.0.0.1:1234/v1"
experimental_bearer_token = "canary"
[model_providers."with space"]
base_url = "http://127.0.0.1:1234/v1"
`), 0o600))
	p = prepare(t, c)
	require.Len(t, p.Args, 7)
	assert.Equal(t, "https://gw.example/openai/v1/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"))
	assert.Equal(t, "http://127.0.0.1:1234/v1/responses", reached(t, p, assigned(t, p.Args[4], "model_providers.local.base_url"), "/responses"))
	assert.NotContains(t, strings.Join(p.Args, " "), "canary")
	assert.Len(t, p.Notes, 1)

	c.Args = []string{"npx", "-y", "@openai/codex@latest", "-c", "openai_base_url='https://flag.example/v1'", "exec"}
	c.Agent = "codex"
	p = prepare(t, c)
	assert.Equal(t, []string{"npx", "-y", "@openai/codex@latest"}, p.Args[:3])
	at := slices.IndexFunc(p.Args, func(arg string) bool { return strings.HasPrefix(arg, "openai_base_url") })
	assert.Equal(t, "https://flag.example/v1/responses", reached(t, p, assigned(t, p.Args[at], "openai_base_url"), "/responses"))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(`key = "canary`), 0o600))
	_, err := agents.Prepare(c)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "canary")
}

// The calls of a Codex that is not signed in with an API key go to chatgpt.com, with a token
// for that host: nothing may send them elsewhere.
func TestCodexWithoutAPIKeyIsLeftAlone(t *testing.T) {
	const key, tokens = `{"OPENAI_API_KEY":"canary"}`, `{"OPENAI_API_KEY":null,"tokens":{"access_token":"canary"}}`
	for _, tt := range []struct {
		name, auth, config string
		args, env          []string
		routed             bool
	}{
		{name: "an API key", auth: key, routed: true},
		{name: "an API key, with its mode", auth: `{"auth_mode":"apikey","OPENAI_API_KEY":"canary"}`, routed: true},
		{name: "ChatGPT", auth: tokens},
		{name: "ChatGPT, with its mode", auth: `{"auth_mode":"chatgpt","OPENAI_API_KEY":"canary","tokens":{}}`},
		{name: "tokens that another program gives", auth: `{"auth_mode":"chatgptAuthTokens"}`},
		{name: "an agent identity", auth: `{"auth_mode":"agentIdentity"}`},
		{name: "a mode that is not known", auth: `{"auth_mode":"next","OPENAI_API_KEY":"canary"}`},
		{name: "no JSON", auth: `{"auth_mode":`},
		{name: "a keyring", config: `cli_auth_credentials_store = "keyring"`},
		{name: "a keyring, if there is one", config: `cli_auth_credentials_store = "auto"`, auth: key},
		{name: "a token of the environment", env: []string{"CODEX_ACCESS_TOKEN=canary"}, auth: key},
		{name: "a key of the environment outweighs ChatGPT", auth: tokens, env: []string{"CODEX_API_KEY=canary"}, routed: true},
		{name: "but not for the interactive program", auth: tokens, env: []string{"CODEX_API_KEY=canary"}, args: []string{"codex"}},
		{name: "not signed in", routed: true},
		{name: "not signed in, and will ask", args: []string{"codex"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if args == nil {
				args = []string{"codex", "exec", "fix it"}
			}
			c := command(t, args...)
			dir := filepath.Join(c.Home, ".codex")
			require.NoError(t, os.Mkdir(dir, 0o755))
			if tt.auth != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), []byte(tt.auth), 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(tt.config), 0o600))
			c.Env = append(c.Env, tt.env...)
			p := prepare(t, c)
			assert.NotContains(t, strings.Join(p.Args, " ")+strings.Join(p.Notes, " "), "canary")
			if tt.routed {
				assert.Equal(t, "https://api.openai.com/v1/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"))
				assert.Empty(t, p.Notes)
				return
			}
			assert.Equal(t, args, p.Args)
			assert.Empty(t, env(p, "OPENAI_BASE_URL"), "older versions read it with any sign-in")
			assert.False(t, slices.ContainsFunc(p.Routes, func(r agents.Route) bool { return r.URL.Host == "api.openai.com" }))
			require.Len(t, p.Notes, 1)
			assert.Contains(t, p.Notes[0], "ChatGPT")

			c.Upstreams = map[string]*url.URL{"openai": {Scheme: "http", Host: "gw.example"}}
			p = prepare(t, c)
			assert.Equal(t, "http://gw.example/v1/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"), "what is given counts")
		})
	}
}

// A base URL that the user has set stays the destination, also of one that is signed in with
// ChatGPT.
func TestCodexWithChatGPTAndABaseURL(t *testing.T) {
	c := command(t, "codex", "exec")
	c.Env = append(c.Env, "OPENAI_BASE_URL=https://gw.example/v1")
	dir := filepath.Join(c.Home, ".codex")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), []byte(`{"tokens":{}}`), 0o600))
	assert.Equal(t, "https://gw.example/v1", env(prepare(t, c), "OPENAI_BASE_URL"), "left as it was")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(`openai_base_url = "https://gw.example/openai/v1"`), 0o600))
	p := prepare(t, c)
	assert.Equal(t, "https://gw.example/openai/v1/responses", reached(t, p, assigned(t, p.Args[2], "openai_base_url"), "/responses"))
	assert.Empty(t, p.Notes)
}

// assigned returns the value of an argument key="value".
func assigned(t *testing.T, arg, key string) string {
	t.Helper()
	value, ok := strings.CutPrefix(arg, key+"=")
	require.True(t, ok, arg)
	return strings.Trim(value, `"'`)
}

func TestOpencode(t *testing.T) {
	c := command(t, "opencode", "run")
	dir := filepath.Join(c.Home, ".config", "opencode")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "opencode.jsonc"), []byte(`{
		// mine
		"provider": {"team": {"options": {"baseURL": "https://gw.example/v1", "apiKey": "canary"}}, "google": {"options": {"baseURL": "{env:GOOGLE}"}}, "env": {"options": {"baseURL": "{env:ORIGIN}/v1"}}},
	}`), 0o600))
	c.Env = append(c.Env, "ORIGIN=https://env.example", `OPENCODE_CONFIG_CONTENT={"theme":"x","provider":{"openai":{"options":{"timeout":5,"baseURL":"https://mine.example/v1"}}}}`)
	p := prepare(t, c)
	var content struct {
		Theme    string `json:"theme"`
		Provider map[string]struct {
			Options map[string]any `json:"options"`
		} `json:"provider"`
	}
	require.NoError(t, json.Unmarshal([]byte(env(p, "OPENCODE_CONFIG_CONTENT")), &content))
	base := func(id string) string { return content.Provider[id].Options["baseURL"].(string) }
	assert.Equal(t, "x", content.Theme)
	assert.InDelta(t, 5, content.Provider["openai"].Options["timeout"], 0)
	assert.Equal(t, "https://mine.example/v1/responses", reached(t, p, base("openai"), "/responses"))
	assert.Equal(t, "https://gw.example/v1/chat/completions", reached(t, p, base("team"), "/chat/completions"))
	assert.Equal(t, "https://api.anthropic.com/v1/messages", reached(t, p, base("anthropic"), "/messages"))
	assert.Equal(t, "https://env.example/v1/chat/completions", reached(t, p, base("env"), "/chat/completions"))
	assert.NotContains(t, content.Provider, "google", "it refers to a variable that is not set")
	assert.NotContains(t, env(p, "OPENCODE_CONFIG_CONTENT"), "canary")
}

func TestAgentIsKnownByItsCommand(t *testing.T) {
	for arg, want := range map[string]string{
		"codex": "codex", "/usr/local/bin/claude": "claude", "gemini.js": "gemini", "qwen": "qwen", "cn": "continue", "aider": "aider",
		"python3": agents.Generic, "codexx": agents.Generic,
	} {
		assert.Equal(t, want, prepare(t, command(t, arg)).Agent.Name, arg)
	}
	c := command(t, "my-wrapper")
	c.Agent = "claude"
	assert.Equal(t, "claude", prepare(t, c).Agent.Name)
	_, err := agents.Prepare(agents.Command{})
	require.Error(t, err)
}

func TestPi(t *testing.T) {
	c := command(t, "pi", "-p", "fix it")
	dir := filepath.Join(c.Home, ".pi", "agent")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "models.json"), []byte(`{"providers": {
		"anthropic": {"baseUrl": "https://gw.example/anthropic"}, "team": {"baseUrl": "https://team.example/v1", "apiKey": "canary"}, "plain": {}
	}}`), 0o600))
	c.Temp = func() (string, error) { return c.Home, nil }
	p := prepare(t, c)
	require.Equal(t, []string{"pi", "--extension", filepath.Join(c.Home, "otelllm.js"), "-p", "fix it"}, p.Args)
	raw, err := os.ReadFile(p.Args[2])
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "canary")
	bases := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		var id, base string
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "pi.registerProvider(%q, { baseUrl: %q });", &id, &base); err == nil {
			bases[id] = base
		}
	}
	require.Len(t, bases, 4, "%s", raw)
	assert.Equal(t, "https://gw.example/anthropic/v1/messages", reached(t, p, bases["anthropic"], "/v1/messages"))
	assert.Equal(t, "https://team.example/v1/chat/completions", reached(t, p, bases["team"], "/chat/completions"))
	assert.Equal(t, "https://api.openai.com/v1/responses", reached(t, p, bases["openai"], "/responses"))
	assert.Equal(t, "https://generativelanguage.googleapis.com/v1beta/models", reached(t, p, bases["google"], "/models"))
	for _, rest := range p.Rests {
		assert.Nil(t, rest.URL, "a request to %s that names no route may be for a server of models.json", rest.Host)
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "models.json"), []byte(`{"providers": {"anthropic": {"baseUrl": "https://gw.example/anthropic"}}}`), 0o600))
	for _, rest := range prepare(t, c).Rests {
		assert.Equal(t, rest.Host == "api.anthropic.com", rest.URL == nil, "the server of models.json is one of %s", rest.Host)
	}
}

func TestAgentsWithSettingsAlone(t *testing.T) {
	p := prepare(t, command(t, "cline", "fix it"))
	require.Len(t, p.Notes, 1)
	assert.Contains(t, p.Notes[0], "cline auth -b URL")
}
