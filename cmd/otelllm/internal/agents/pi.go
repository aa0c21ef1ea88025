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

	"github.com/tidwall/jsonc"
)

// piProviders are pi's names for providers, and what follows the provider's URL in their base
// URL.
var piProviders = []struct{ id, provider, path string }{
	{"openai", "openai", "/v1"},
	{"anthropic", "anthropic", ""},
	{"google", "gemini", "/v1beta"},
}

// setPi gives pi its base URLs in an extension, the only way that takes precedence over its
// built-in ones and is not a file of the user's.
func setPi(b *builder) error {
	if b.Temp == nil {
		return nil
	}
	configured, err := readPiModels(filepath.Join(cmp.Or(b.env("PI_CODING_AGENT_DIR"), filepath.Join(b.Home, ".pi", "agent")), "models.json"))
	if err != nil {
		return err
	}
	bases := map[string]string{}
	for _, known := range piProviders {
		p := *findProvider(known.provider)
		p.Path = known.path
		switch base, ok := b.through(known.provider, configured[known.id]); {
		case b.upstream(known.provider) != nil || configured[known.id] == "":
			bases[known.id] = b.base(&p)
		case ok:
			bases[known.id] = base
		}
		delete(configured, known.id)
	}
	for id, value := range configured {
		if base, ok := b.through("pi", value); ok {
			bases[id] = base
		}
	}
	dir, err := b.Temp()
	if err != nil {
		return err
	}
	var code strings.Builder
	code.WriteString("export default function (pi) {\n")
	for _, id := range slices.Sorted(maps.Keys(bases)) {
		name, err := json.Marshal(id)
		if err != nil {
			return err
		}
		fmt.Fprintf(&code, "\tpi.registerProvider(%s, { baseUrl: %q });\n", name, bases[id])
	}
	code.WriteString("}\n")
	path := filepath.Join(dir, "otelllm.js")
	if err := os.WriteFile(path, []byte(code.String()), 0o600); err != nil {
		return err
	}
	b.after("--extension", path)
	return nil
}

// readPiModels returns the base URLs in pi's models.json, by the provider's name.
func readPiModels(path string) (map[string]string, error) {
	configured := map[string]string{}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return configured, nil
	}
	if err != nil {
		return nil, err
	}
	var models struct {
		Providers map[string]struct {
			BaseURL string `json:"baseUrl"`
		} `json:"providers"`
	}
	if json.Unmarshal(jsonc.ToJSON(raw), &models) != nil {
		return nil, notJSON(path)
	}
	for id, p := range models.Providers {
		if p.BaseURL != "" {
			configured[id] = p.BaseURL
		}
	}
	return configured, nil
}
