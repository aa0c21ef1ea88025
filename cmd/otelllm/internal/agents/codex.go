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

	"github.com/BurntSushi/toml"
)

// codexConfig is the part of Codex's config.toml that is read.
type codexConfig struct {
	OpenAIBaseURL  string `toml:"openai_base_url"`
	AuthStore      string `toml:"cli_auth_credentials_store"` // file (the default), keyring, auto
	ModelProviders map[string]struct {
		BaseURL string `toml:"base_url"`
	} `toml:"model_providers"`
}

// setCodex gives Codex its base URLs as arguments. It takes precedence over its
// configuration, and Codex does not read OPENAI_BASE_URL.
func setCodex(b *builder) error {
	home := cmp.Or(b.env("CODEX_HOME"), filepath.Join(b.Home, ".codex"))
	config, err := readCodexConfig(filepath.Join(home, "config.toml"))
	if err != nil {
		return err
	}
	var args []string
	set := func(key, base string) { args = append(args, "-c", fmt.Sprintf("%s=%q", key, base)) }
	openai := findProvider("openai")
	given := b.upstream("openai") != nil
	switch base, ok := b.through("openai", config.OpenAIBaseURL); {
	case b.rewriteFlags(given):
	case ok && !given:
		set("openai_base_url", base)
	case !given && !b.codexUsesKey(home, config):
		b.leaveAlone(openai)
		b.note("Codex is signed in with ChatGPT, or keeps its sign-in where it cannot be read: its calls go to another host than those with an API key, and are left alone; to see them, sign in with an API key, or add --upstream openai=URL")
	default:
		set("openai_base_url", b.base(openai))
	}
	for _, name := range slices.Sorted(maps.Keys(config.ModelProviders)) {
		url := config.ModelProviders[name].BaseURL
		base, ok := b.through("openai", url)
		switch {
		case url == "":
		case !isBareKey(name):
			b.note("model provider with a quoted name in config.toml: its calls are left alone")
		case given:
			set("model_providers."+name+".base_url", b.base(openai))
		case ok:
			set("model_providers."+name+".base_url", base)
		}
	}
	b.after(args...)
	return nil
}

func readCodexConfig(path string) (codexConfig, error) {
	var config codexConfig
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config, nil
	}
	if err != nil {
		return config, err
	}
	if err := toml.Unmarshal(raw, &config); err != nil {
		return config, fmt.Errorf("%s is not valid TOML", path) // the error of the parser quotes the file
	}
	return config, nil
}

// rewriteFlags sends the base URL that the command line gives through the proxy, and reports
// whether there is one: a later flag takes precedence over an earlier one.
func (b *builder) rewriteFlags(given bool) bool {
	found := false
	for i, arg := range b.plan.Args {
		name, assignment := "", arg
		if before, after, ok := strings.Cut(arg, "="); ok && before == "--config" {
			name, assignment = "--config=", after
		} else if i == 0 || b.plan.Args[i-1] != "-c" && b.plan.Args[i-1] != "--config" {
			continue
		}
		key, value, ok := strings.Cut(assignment, "=")
		if !ok || strings.TrimSpace(key) != "openai_base_url" {
			continue
		}
		base, ok := b.through("openai", strings.Trim(strings.TrimSpace(value), `"'`))
		if given {
			base, ok = b.base(findProvider("openai")), true
		}
		if ok {
			b.plan.Args[i], found = fmt.Sprintf("%s%s=%q", name, key, base), true
		}
	}
	return found
}

// isBareKey reports whether a name needs no quotes as a part of a TOML key.
func isBareKey(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// codexUsesKey reports whether Codex's own provider is called with an API key, and so at
// api.openai.com. With any other sign-in (ChatGPT, an agent identity) its calls go to
// chatgpt.com with a token for that host. The interactive program asks for a sign-in where
// it finds no sign-in, and the kind of that one is not known yet.
// Source: openai/codex, codex-rs/login/src/auth, November 2026.
func (b *builder) codexUsesKey(home string, config codexConfig) bool {
	if b.env("CODEX_ACCESS_TOKEN") != "" {
		return false
	}
	exec := slices.ContainsFunc(b.plan.Args, func(arg string) bool { return arg == "exec" || arg == "e" })
	if b.env("CODEX_API_KEY") != "" && exec {
		return true // the interactive program does not read it
	}
	if config.AuthStore != "" && config.AuthStore != "file" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(home, "auth.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return exec
	}
	var auth struct {
		Mode string `json:"auth_mode"`
		Key  string `json:"OPENAI_API_KEY"`
	}
	if err != nil || json.Unmarshal(raw, &auth) != nil {
		return false
	}
	switch strings.ToLower(auth.Mode) {
	case "apikey", "api_key":
		return true
	case "":
		return auth.Key != ""
	default:
		return false
	}
}
