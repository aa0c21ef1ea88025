package agents

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
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

// opencodeKind is opencode, or a program that was made of it.
type opencodeKind struct {
	name string // of its files, and of its folders
	vars string // what its variables begin with
}

func setOpencode(b *builder) error { return b.setOpencode(opencodeKind{"opencode", "OPENCODE"}) }
func setKilo(b *builder) error     { return b.setOpencode(opencodeKind{"kilo", "KILO"}) }

// setOpencode gives opencode its base URLs in OPENCODE_CONFIG_CONTENT, which takes precedence
// over its files. Providers that the files give a base URL keep it, through the proxy.
func (b *builder) setOpencode(kind opencodeKind) error {
	opencodeContent := kind.vars + "_CONFIG_CONTENT"
	content := map[string]any{}
	type source struct {
		name string
		text []byte
	}
	var sources []source
	for _, path := range b.opencodeFiles(kind) {
		if raw, err := os.ReadFile(path); err == nil {
			sources = append(sources, source{path, raw})
		}
	}
	if own := b.env(opencodeContent); own != "" {
		if json.Unmarshal(jsonc.ToJSON([]byte(own)), &content) != nil {
			return notJSON(opencodeContent)
		}
		sources = append(sources, source{opencodeContent, []byte(own)})
	}
	configured := map[string]string{}
	for _, source := range sources {
		var config opencodeConfig
		if json.Unmarshal(jsonc.ToJSON(source.text), &config) != nil {
			return notJSON(source.name)
		}
		for id, p := range config.Provider {
			configured[id] = cmp.Or(p.Options.BaseURL, configured[id])
		}
	}
	bases := b.opencodeBases(configured)
	if b.opencodeUsesChatGPT(kind) && configured["openai"] == "" && b.upstream("openai") == nil {
		delete(bases, "openai")
		b.note("OpenAI is signed in to with ChatGPT, whose calls go to another host whatever the base URL: they are left alone")
	}
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
		if base, ok := b.through("opencode", b.substituted(value)); ok {
			bases[id] = base
		} else if value != "" {
			delete(bases, id) // such as a {file:…} reference
			b.note("the base URL of a provider in opencode's configuration is not an http or https URL, so its calls are left alone")
		}
	}
	return bases
}

// envReference is where opencode puts a variable into its configuration.
var envReference = regexp.MustCompile(`\{env:([^}]+)\}`)

// substituted returns a value of opencode's configuration with the variables in it.
func (b *builder) substituted(value string) string {
	return envReference.ReplaceAllStringFunc(value, func(ref string) string { return b.env(envReference.FindStringSubmatch(ref)[1]) })
}

// opencodeUsesChatGPT reports whether its sign-in to OpenAI is one with ChatGPT.
func (b *builder) opencodeUsesChatGPT(kind opencodeKind) bool {
	raw, err := os.ReadFile(filepath.Join(cmp.Or(b.env("XDG_DATA_HOME"), filepath.Join(b.Home, ".local", "share")), kind.name, "auth.json"))
	var signIns map[string]struct {
		Type string `json:"type"`
	}
	return err == nil && json.Unmarshal(raw, &signIns) == nil && signIns["openai"].Type == "oauth"
}

// opencodeFiles returns the files of opencode's configuration, what takes precedence last.
func (b *builder) opencodeFiles(kind opencodeKind) []string {
	config := cmp.Or(b.env("XDG_CONFIG_HOME"), filepath.Join(b.Home, ".config"))
	dirs := []string{filepath.Join(config, kind.name)}
	var up []string
	for dir := b.Dir; dir != "" && len(up) < 2*maxParents; dir = filepath.Dir(dir) {
		up = append(up, filepath.Join(dir, "."+kind.name), dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(up)
	dirs = append(dirs, up...)
	if own := b.env(kind.vars + "_CONFIG_DIR"); own != "" {
		dirs = append(dirs, own)
	}
	var files []string
	for i, dir := range dirs {
		if own := b.env(kind.vars + "_CONFIG"); i == 1 && own != "" {
			files = append(files, own)
		}
		for _, name := range []string{"config.json", kind.name + ".json", kind.name + ".jsonc"} {
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
