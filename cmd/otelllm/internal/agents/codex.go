package agents

import (
	"cmp"
	"encoding/base64"
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
	ChatGPTBaseURL string `toml:"chatgpt_base_url"`
	AuthStore      string `toml:"cli_auth_credentials_store"` // file (the default), keyring, auto
	ModelProvider  string `toml:"model_provider"`
	ModelProviders map[string]struct {
		BaseURL string `toml:"base_url"`
	} `toml:"model_providers"`
}

// chatGPTBase is where Codex sends its model calls when it is signed in with ChatGPT.
const chatGPTBase = "https://chatgpt.com" + chatGPTPath

// setCodex gives Codex its base URLs as arguments. It takes precedence over its
// configuration, and Codex does not read OPENAI_BASE_URL.
func setCodex(b *builder) error {
	home := cmp.Or(b.env("CODEX_HOME"), filepath.Join(b.Home, ".codex"))
	b.file = proxiesIn(filepath.Join(home, ".env"))
	config, err := b.codexConfig(home)
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
	case given:
		set("openai_base_url", b.base(openai))
	default:
		switch in, why := b.codexSignIn(home, config); in {
		case withKey:
			set("openai_base_url", b.base(openai))
		case withChatGPT:
			b.leaveAlone(openai) // older versions read the variables with any sign-in
			base, _ := b.through("chatgpt", chatGPTBase)
			set("openai_base_url", base)
		default:
			b.leaveAlone(openai)
			b.note("the model calls of Codex are left alone: %s; to see them, say where they go: --upstream openai=URL, such as %s for ChatGPT", why, chatGPTBase)
		}
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
	if p := config.ModelProvider; p != "" && p != "openai" && config.ModelProviders[p].BaseURL == "" {
		b.note("config.toml chooses a model provider without a base_url: its calls are left alone")
	}
	b.after(args...)
	return nil
}

// codexConfig reads config.toml, and on top of it the file of the profile that the command
// line chooses.
func (b *builder) codexConfig(home string) (codexConfig, error) {
	var config codexConfig
	if !slices.Contains(b.args(), "--ignore-user-config") {
		if err := readTOML(filepath.Join(home, "config.toml"), &config); err != nil {
			return config, err
		}
	}
	if profile := b.flag("-p", "--profile"); profile != "" && profile == filepath.Base(profile) {
		return config, readTOML(filepath.Join(home, profile+".config.toml"), &config)
	}
	return config, nil
}

// readTOML reads a file on top of what config has. A file that does not exist changes nothing.
func readTOML(path string, config any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := toml.Unmarshal(raw, config); err != nil {
		return fmt.Errorf("%s is not valid TOML: mend it, or run the agent without otelllm to see what it says", path) // the error of the parser quotes the file
	}
	return nil
}

// rewriteFlags sends the base URLs that the command line gives through the proxy, and reports
// whether OpenAI's is among them: a later flag takes precedence over an earlier one.
func (b *builder) rewriteFlags(given bool) bool {
	found := false
	for i, arg := range b.plan.Args {
		name, assignment := "", arg
		if before, after, ok := strings.Cut(arg, "="); ok && before == "--config" {
			name, assignment = "--config=", after
		} else if i == 0 || b.plan.Args[i-1] != "-c" && b.plan.Args[i-1] != "--config" {
			continue
		}
		key, value, _ := strings.Cut(assignment, "=")
		for _, url := range baseURLs(strings.TrimSpace(key), value) {
			base, ok := b.through("openai", url)
			if given {
				base, ok = b.base(findProvider("openai")), true
			}
			if ok {
				value = strings.Replace(value, url, base, 1)
				b.plan.Args[i] = name + key + "=" + value
				found = found || strings.TrimSpace(key) == "openai_base_url"
			}
		}
	}
	return found
}

// baseURLs returns the base URLs in an assignment of Codex's configuration. Codex takes a value that is not TOML as a string.
func baseURLs(key, value string) (urls []string) {
	var config codexConfig
	if toml.Unmarshal([]byte(key+" = "+value), &config) != nil && toml.Unmarshal([]byte(fmt.Sprintf("%s = %q", key, strings.TrimSpace(value))), &config) != nil {
		return nil
	}
	for _, p := range config.ModelProviders {
		if p.BaseURL != "" {
			urls = append(urls, p.BaseURL)
		}
	}
	if config.OpenAIBaseURL != "" {
		urls = append(urls, config.OpenAIBaseURL)
	}
	return urls
}

// isBareKey reports whether a name needs no quotes as a part of a TOML key.
func isBareKey(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// codexSignIn is how Codex is signed in to OpenAI, which says where its calls go.
type codexSignIn int

const (
	notKnown    codexSignIn = iota
	withKey                 // api.openai.com
	withChatGPT             // chatgpt.com
)

// codexSignIn returns how Codex is signed in, or why that is not known. The interactive
// program asks for a sign-in where it finds none, and the kind of that one is not known yet.
// Source: openai/codex, codex-rs/login/src/auth, November 2026.
func (b *builder) codexSignIn(home string, config codexConfig) (in codexSignIn, why string) {
	if b.env("CODEX_ACCESS_TOKEN") != "" {
		return notKnown, "CODEX_ACCESS_TOKEN is for a host that is not known"
	}
	exec := slices.ContainsFunc(b.args(), func(arg string) bool { return arg == "exec" || arg == "e" })
	if b.env("CODEX_API_KEY") != "" && exec {
		return withKey, "" // the interactive program does not read it
	}
	if config.AuthStore != "" && config.AuthStore != "file" {
		return notKnown, "its sign-in is in a keyring"
	}
	raw, err := os.ReadFile(filepath.Join(home, "auth.json"))
	if errors.Is(err, fs.ErrNotExist) && exec {
		return withKey, ""
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notKnown, "it is not signed in yet"
	}
	var auth codexAuth
	if err != nil || json.Unmarshal(raw, &auth) != nil {
		return notKnown, "auth.json, with its sign-in, cannot be read"
	}
	switch mode := strings.ToLower(auth.Mode); {
	case mode == "apikey", mode == "api_key", mode == "" && auth.Key != "":
		return withKey, ""
	case mode != "" && mode != "chatgpt":
		return notKnown, "it is signed in neither with an API key nor with ChatGPT"
	case config.ChatGPTBaseURL != "":
		return notKnown, "config.toml sets chatgpt_base_url"
	case !slices.Contains(personalPlans, auth.plan()):
		return notKnown, "the workspace that it is signed in to with ChatGPT may have a host of its own"
	default:
		return withChatGPT, ""
	}
}

// personalPlans are the plans of ChatGPT whose calls go to chatgpt.com. The workspace of a
// company may have a host of its own, which Codex asks for.
// Source: openai/codex, workspace_routing.rs, November 2026.
var personalPlans = []string{"free", "go", "plus", "pro", "prolite"}

// codexAuth is the part of Codex's auth.json that is read.
type codexAuth struct {
	Mode   string `json:"auth_mode"`
	Key    string `json:"OPENAI_API_KEY"`
	Tokens struct {
		ID string `json:"id_token"`
	} `json:"tokens"`
}

// plan returns the plan of ChatGPT that the token of the sign-in names, or "".
func (a *codexAuth) plan() string {
	var claims struct {
		OpenAI struct {
			Plan string `json:"chatgpt_plan_type"`
		} `json:"https://api.openai.com/auth"`
	}
	if parts := strings.Split(a.Tokens.ID, "."); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(raw, &claims) // a token of another form has no plan that is known
		}
	}
	return strings.ToLower(claims.OpenAI.Plan)
}
