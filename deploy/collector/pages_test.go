package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Every configuration that a page shows works when it is joined to config.yaml. What else there is in YAML, a part of a
// builder's manifest, is for the tests of internal/docs.
func TestPagesValidate(t *testing.T) {
	bin := binary(t)
	var checked int
	for _, path := range pages(t) {
		for i, match := range yamlBlock.FindAllStringSubmatch(read(t, path), -1) {
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
	}
	assert.GreaterOrEqual(t, checked, 5)
}
