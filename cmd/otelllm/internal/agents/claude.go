package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// isTrue reports whether a variable of Claude Code's is switched on.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "1", "true", "yes", "on":
		return true
	default:
		return false
	}
}

// clouds are the services that Claude Code calls in place of Anthropic's, each with the
// variable that chooses it and the one for its base URL.
var clouds = []struct {
	use, title, base string
	// url is the base URL without that variable; "": it is not known, or the proxy cannot be used.
	url func(value func(string) string, b *builder) string
	why string
}{
	{
		"CLAUDE_CODE_USE_BEDROCK", "Bedrock", bedrockVar, bedrockURL,
		"the signature of its requests is for their host, or AWS_REGION is not set; with AWS_BEARER_TOKEN_BEDROCK and AWS_REGION they are seen",
	},
	{
		"CLAUDE_CODE_USE_VERTEX", "Vertex", "ANTHROPIC_VERTEX_BASE_URL", vertexURL,
		"CLOUD_ML_REGION names no region that is one of all models; to see them, set ANTHROPIC_VERTEX_BASE_URL",
	},
	{
		"CLAUDE_CODE_USE_FOUNDRY", "Foundry", "ANTHROPIC_FOUNDRY_BASE_URL", func(func(string) string, *builder) string { return "" },
		"to see them, set ANTHROPIC_FOUNDRY_BASE_URL in place of ANTHROPIC_FOUNDRY_RESOURCE",
	},
}

func bedrockURL(value func(string) string, b *builder) string {
	if region := value("AWS_REGION"); region != "" && !b.signs() {
		return "https://bedrock-runtime." + region + ".amazonaws.com"
	}
	return ""
}

func vertexURL(value func(string) string, b *builder) string {
	for _, kv := range b.plan.Env {
		if strings.HasPrefix(kv, "VERTEX_REGION_") {
			return "" // of one model
		}
	}
	switch region := value("CLOUD_ML_REGION"); {
	case region == "global":
		return "https://aiplatform.googleapis.com/v1"
	case strings.Contains(region, "-"):
		return "https://" + region + "-aiplatform.googleapis.com/v1"
	default: // us and eu have hosts of another form
		return ""
	}
}

// setClaude routes what the variables of all programs do not: the clouds, and a base URL in
// a settings.json, which outweighs the environment.
func setClaude(b *builder) error {
	settings, managed, err := b.claudeSettings()
	if err != nil {
		return err
	}
	b.settings = settings
	if b.agentEnv("ANTHROPIC_UNIX_SOCKET") != "" {
		b.leaveAlone(findProvider("anthropic"))
		b.note("the model calls of Claude Code go to the socket of ANTHROPIC_UNIX_SOCKET whatever the base URL, and are left alone")
		return nil
	}
	name := "ANTHROPIC_BASE_URL"
	for _, c := range clouds {
		if !isTrue(b.agentEnv(c.use)) {
			continue
		}
		name = c.base
		if b.agentEnv(c.base) != "" {
			break
		}
		if base, ok := b.through(strings.ToLower(c.title), c.url(b.agentEnv, b)); ok {
			b.setenv(c.base, base)
		} else {
			b.note("the model calls of Claude Code go to %s, and are left alone: %s", c.title, c.why)
		}
		break
	}
	return b.overrideClaude(name, managed)
}

// overrideClaude sends what a settings.json has as the base URL through the proxy, and excepts the way to it from an
// HTTP proxy.
func (b *builder) overrideClaude(name string, managed bool) error {
	override := map[string]string{}
	proxied := slices.ContainsFunc(proxyVars, func(name string) bool { return b.agentEnv(name) != "" })
	for _, except := range exceptVars {
		if value, ok := b.settings[except]; ok && proxied && b.excepting(value) != value {
			override[except] = b.excepting(value)
		}
	}
	if value := b.settings[name]; value != "" {
		base, ok := b.through("anthropic", value)
		if b.upstream("anthropic") != nil {
			base, ok = b.base(findProvider("anthropic")), true
		}
		if !ok {
			b.note("%s in settings.json is not an http or https URL, so its calls are left alone", name)
			return nil
		}
		override[name] = base
	}
	if len(override) == 0 {
		return nil
	}
	if managed || override[name] != "" && name == bedrockVar && b.signs() || b.flag("--settings") != "" {
		b.leaveAlone(findProvider("anthropic"))
		b.note("a settings.json of Claude Code sets %s, and outweighs what otelllm can set: the calls are left alone", strings.Join(slices.Sorted(maps.Keys(override)), " and "))
		return nil
	}
	raw, err := json.Marshal(map[string]any{"env": override})
	if err != nil {
		return err
	}
	b.after("--settings", string(raw))
	return nil
}

// claudeSettings returns the variables that Claude Code's settings set, and whether those of
// an administrator are among them, which outweigh all others.
func (b *builder) claudeSettings() (env map[string]string, managed bool, err error) {
	env = map[string]string{}
	files := []string{
		filepath.Join(cmp.Or(b.env("CLAUDE_CONFIG_DIR"), filepath.Join(b.Home, ".claude")), "settings.json"),
		filepath.Join(b.Dir, ".claude", "settings.json"),
		filepath.Join(b.Dir, ".claude", "settings.local.json"),
		"/etc/claude-code/managed-settings.json",
		"/Library/Application Support/ClaudeCode/managed-settings.json",
	}
	for i, path := range files {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || err != nil && i > 2 {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		var settings struct {
			Env map[string]any `json:"env"`
		}
		if json.Unmarshal(raw, &settings) != nil {
			return nil, false, notJSON(path)
		}
		for name, value := range settings.Env {
			env[name] = fmt.Sprint(value)
			managed = managed || i > 2
		}
	}
	return env, managed, nil
}
