package collector

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Every configuration that a page of the repository shows works: one with a whole pipeline by itself, with the components
// of config.yaml, any other when it is joined to config.yaml. A part of a builder's manifest, which is YAML as well, is for
// the tests of internal/docs, and a workflow for `make workflows-check`.
func TestPagesValidate(t *testing.T) {
	const root = "../.."
	bin := binary(t)
	components := join(t, []string{"config.yaml"})
	delete(components, "connectors")
	delete(components["service"].(map[string]any), "pipelines")
	raw, err := yaml.Marshal(components)
	require.NoError(t, err)
	base := filepath.Join(t.TempDir(), "components.yaml")
	require.NoError(t, os.WriteFile(base, raw, 0o600))
	var checked int
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (name == "build" || name == "node_modules" || name == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, match := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(match[1], "- gomod: ") || strings.Contains(match[1], "\njobs:\n") {
				continue
			}
			checked++
			t.Run(fmt.Sprintf("%s/%d", filepath.ToSlash(path), i+1), func(t *testing.T) {
				snippet := filepath.Join(t.TempDir(), "snippet.yaml")
				require.NoError(t, os.WriteFile(snippet, []byte(match[1]), 0o600))
				var shown map[string]any
				require.NoError(t, yaml.Unmarshal([]byte(match[1]), &shown))
				to := "config.yaml"
				if effective(shown).at("service", "pipelines", "traces", "exporters") != nil {
					to = base
				}
				out, err := validate(t, bin, nil, to, snippet)
				assert.NoError(t, err, out)
			})
		}
		return nil
	}))
	assert.GreaterOrEqual(t, checked, 5)
}
