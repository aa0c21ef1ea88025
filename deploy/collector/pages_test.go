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
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Every configuration that a page of the repository shows works when it is joined to config.yaml. A part of a builder's
// manifest, which is YAML as well, is for the tests of internal/docs.
func TestPagesValidate(t *testing.T) {
	const root = "../.."
	bin := binary(t)
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
			if strings.Contains(match[1], "- gomod: ") {
				continue
			}
			checked++
			t.Run(fmt.Sprintf("%s/%d", filepath.ToSlash(path), i+1), func(t *testing.T) {
				snippet := filepath.Join(t.TempDir(), "snippet.yaml")
				require.NoError(t, os.WriteFile(snippet, []byte(match[1]), 0o600))
				out, err := validate(t, bin, nil, "config.yaml", snippet)
				assert.NoError(t, err, out)
			})
		}
		return nil
	}))
	assert.GreaterOrEqual(t, checked, 5)
}
