package agents_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
)

// The agent is found behind the commands that start it, and gets its arguments.
func TestAgentsBehindWrappers(t *testing.T) {
	for command, want := range map[string]string{
		"codex exec x":                                 "codex • exec x",
		"/usr/local/bin/codex.exe exec":                "/usr/local/bin/codex.exe • exec",
		"npx -y @openai/codex@latest exec":             "npx -y @openai/codex@latest • exec",
		"npx --package @openai/codex -- codex exec":    "npx --package @openai/codex -- codex • exec",
		"npm exec -- @openai/codex exec":               "npm exec -- @openai/codex • exec",
		"pnpm dlx @openai/codex exec":                  "pnpm dlx @openai/codex • exec",
		"bunx @openai/codex@0.169.0":                   "bunx @openai/codex@0.169.0 •",
		"node --enable-source-maps bin/codex.js exec":  "node --enable-source-maps bin/codex.js • exec",
		"node a/node_modules/@openai/codex/b/main.js":  "node a/node_modules/@openai/codex/b/main.js •",
		"env -u A B=c codex exec":                      "env -u A B=c codex • exec",
		"env B=c timeout -k 5 60 nice -n 3 codex exec": "env B=c timeout -k 5 60 nice -n 3 codex • exec",
		"timeout 60 bash -lc¦codex exec 'a b'":         "timeout 60 bash -lc¦codex ° exec 'a b'",
		"sh -c¦cd x && A=b codex exec; echo $?":        "sh -c¦cd x && A=b codex ° exec; echo $?",
		"bash -e -c¦if true; then codex exec; fi":      "bash -e -c¦if true; then codex ° exec; fi",
		"sh -c¦(codex exec a || codex exec b) | cat":   "sh -c¦(codex ° exec a || codex ° exec b) | cat",
		"sh -c¦npx @openai/codex exec¦codex":           "sh -c¦npx @openai/codex ° exec¦codex",
		"sh -c¦echo 'run codex exec'":                  "",
		"sh -c¦echo codex":                             "",
		"bash script.sh codex":                         "",
		"echo codex":                                   "",
		"python3 -c codex":                             "",
		"env":                                          "",
		"sh -c":                                        "",
	} {
		t.Run(command, func(t *testing.T) {
			words, line, inLine := strings.Cut(command, "¦")
			args := strings.Fields(words)
			if inLine {
				args = append(args, strings.Split(line, "¦")[0])
				if strings.HasSuffix(line, "¦codex") {
					args = append(args, "codex") // $0
				}
			}
			p := prepare(t, signedIn(t, args))
			if want == "" {
				assert.Equal(t, agents.Generic, p.Agent.Name)
				assert.Equal(t, args, p.Args)
				return
			}
			assert.Equal(t, "codex", p.Agent.Name)
			base := `openai_base_url="http://127.0.0.1:4567/openai/v1"`
			want := strings.NewReplacer(" •", " -c "+base, " °", " '-c' '"+base+"'", "¦", " ").Replace(want)
			assert.Equal(t, want, strings.Join(p.Args, " "))
		})
	}
}

// signedIn is a command in a home where Codex is signed in with a key.
func signedIn(t *testing.T, args []string) agents.Command {
	t.Helper()
	c := command(t, args...)
	c.Env = append(c.Env, "CODEX_HOME="+c.Home)
	write(t, c.Home, "auth.json", `{"OPENAI_API_KEY":"canary"}`)
	return c
}

func TestOtherAgentsBehindWrappers(t *testing.T) {
	for command, want := range map[string]string{
		"uvx aider":                                   "aider",
		"uvx --from aider-chat aider":                 "aider",
		"uv run --with x aider":                       "aider",
		"uv tool run aider-chat":                      "aider",
		"python3 -m aider --model x":                  "aider",
		"python agent.py":                             agents.Generic,
		"npx @google/gemini-cli -p x":                 "gemini",
		"node x/node_modules/@kilocode/cli/b/main.js": "kilo",
		"npx @qwen-code/qwen-code":                    "qwen",
		"npx @github/copilot":                         "copilot",
		"npx @vibe-kit/grok-cli":                      "grok",
		"npx @ampcode/cli@latest":                     "amp",
		"crush run x":                                 "crush",
		"goose run":                                   "goose",
	} {
		assert.Equal(t, want, prepare(t, signedIn(t, strings.Fields(command))).Agent.Name, command)
	}
}

// What `env` sets for the command counts as its environment does.
func TestAssignmentsBeforeTheCommand(t *testing.T) {
	p := prepare(t, command(t, "env", "OPENAI_BASE_URL=https://gw.example/v1", "KEEP=x", "qwen"))
	assert.Equal(t, []string{"env", "OPENAI_BASE_URL=http://127.0.0.1:4567/openai/v1", "KEEP=x", "qwen"}, p.Args)
	assert.Equal(t, "https://gw.example/v1/responses", reached(t, p, "http://127.0.0.1:4567/openai/v1", "/responses"))
	c := command(t, "env", "OPENAI_BASE_URL=https://gw.example/v1", "qwen")
	c.Upstreams = map[string]*url.URL{"openai": {Scheme: "https", Host: "other.example", Path: "/v1"}}
	p = prepare(t, c)
	assert.Equal(t, "https://other.example/v1/responses", reached(t, p, strings.TrimPrefix(p.Args[1], "OPENAI_BASE_URL="), "/responses"))
}
