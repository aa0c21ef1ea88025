package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidwall/jsonc"
)

// opencodeProviders are opencode's names for the providers that it needs no configuration
// for, and what follows the provider's URL in their base URL.
var opencodeProviders = []struct{ id, provider, path string }{
	{"openai", "openai", "/v1"},
	{"anthropic", "anthropic", "/v1"},
	{"google", "gemini", "/v1beta"},
}

// opencodeConfig is the part of opencode's configuration that is read.
type opencodeConfig struct {
	Provider map[string]struct {
		Options struct {
			BaseURL string `json:"baseURL"`
		} `json:"options"`
	} `json:"provider"`
}

const opencodeContent = "OPENCODE_CONFIG_CONTENT"

// setOpencode gives opencode its base URLs in OPENCODE_CONFIG_CONTENT, which takes precedence
// over its files. Providers that the files give a base URL keep it, through the proxy.
func setOpencode(b *builder) error {
	content := map[string]any{}
	var sources [][]byte
	for _, path := range b.opencodeFiles() {
		if raw, err := os.ReadFile(path); err == nil {
			sources = append(sources, raw)
		}
	}
	if own := b.env(opencodeContent); own != "" {
		if json.Unmarshal(jsonc.ToJSON([]byte(own)), &content) != nil {
			return errors.New(opencodeContent + " is not JSON")
		}
		sources = append(sources, []byte(own))
	}
	configured := map[string]string{}
	for _, source := range sources {
		var config opencodeConfig
		if json.Unmarshal(jsonc.ToJSON(source), &config) != nil {
			return errors.New("its configuration is not JSON")
		}
		for id, p := range config.Provider {
			configured[id] = cmp.Or(p.Options.BaseURL, configured[id])
		}
	}
	bases := b.opencodeBases(configured)
	for id, base := range bases {
		object(object(object(content, "provider"), id), "options")["baseURL"] = base
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	b.setenv(opencodeContent, string(raw))
	return nil
}

// opencodeBases returns the base URLs through the proxy, by the provider's id.
func (b *builder) opencodeBases(configured map[string]string) map[string]string {
	bases := map[string]string{}
	for _, known := range opencodeProviders {
		p := *findProvider(known.provider)
		p.Path = known.path
		bases[known.id] = b.base(&p)
		if b.upstream(p.Name) != nil {
			delete(configured, known.id) // what is given counts
		}
	}
	for id, value := range configured {
		if base, ok := b.through("opencode", value); ok {
			bases[id] = base
		} else if value != "" {
			delete(bases, id) // such as a {env:…} reference
			b.note("the base URL of a provider in opencode's configuration is not an http or https URL, so its calls are left alone")
		}
	}
	return bases
}

// opencodeFiles returns the files of opencode's configuration, what takes precedence last.
func (b *builder) opencodeFiles() []string {
	config := cmp.Or(b.env("XDG_CONFIG_HOME"), filepath.Join(b.Home, ".config"))
	dirs := []string{filepath.Join(config, "opencode")}
	var up []string
	for dir := b.Dir; dir != "" && len(up) < 2*maxParents; dir = filepath.Dir(dir) {
		up = append(up, filepath.Join(dir, ".opencode"), dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(up)
	dirs = append(dirs, up...)
	if own := b.env("OPENCODE_CONFIG_DIR"); own != "" {
		dirs = append(dirs, own)
	}
	var files []string
	for i, dir := range dirs {
		if i == 1 && b.env("OPENCODE_CONFIG") != "" {
			files = append(files, b.env("OPENCODE_CONFIG"))
		}
		for _, name := range []string{"config.json", "opencode.json", "opencode.jsonc"} {
			if name == "config.json" && i > 0 {
				continue
			}
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files
}

// object returns the object under a key, which it makes if need be.
func object(parent map[string]any, key string) map[string]any {
	child, ok := parent[key].(map[string]any)
	if !ok {
		child = map[string]any{}
		parent[key] = child
	}
	return child
}
