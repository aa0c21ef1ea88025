package agents

import (
	"cmp"
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
	ModelProviders map[string]struct {
		BaseURL string `toml:"base_url"`
	} `toml:"model_providers"`
}

// setCodex gives Codex its base URLs as arguments. It takes precedence over its
// configuration, and Codex does not read OPENAI_BASE_URL.
func setCodex(b *builder) error {
	config, err := readCodexConfig(filepath.Join(cmp.Or(b.env("CODEX_HOME"), filepath.Join(b.Home, ".codex")), "config.toml"))
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
