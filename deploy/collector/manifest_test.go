package collector

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A builder that is newer than its components mixes versions silently, and a processor that is tested against one
// release and built into another has not been tested. So the manifest, the tools, and the modules of the processor and the
// connector name one release.
func TestVersionsMoveTogether(t *testing.T) {
	manifest := manifestVersions(t)
	tools := goModVersions(t, "../../internal/tools/collector/go.mod")
	processor := goModVersions(t, "../../processor/llmclassify/go.mod")
	connector := goModVersions(t, "../../connector/llmagentlogs/go.mod")

	const (
		core   = "go.opentelemetry.io/collector/"
		beta   = core + "receiver/otlpreceiver"
		stable = core + "confmap/provider/envprovider"
	)
	require.Contains(t, manifest, beta)
	require.Contains(t, manifest, stable)

	release := manifest[beta]
	assert.Equal(t, release, tools[core+"cmd/builder"], "builder")
	assert.Equal(t, release, tools[core+"cmd/mdatagen"], "mdatagen")
	for module, version := range manifest {
		if strings.HasPrefix(module, core) {
			assert.Contains(t, []string{release, manifest[stable]}, version, "%s in manifest.yaml", module)
		}
	}

	assert.Contains(t, processor, core+"processor")
	assert.Contains(t, connector, core+"connector")
	for name, component := range map[string]map[string]string{"processor": processor, "connector": connector} {
		for module, version := range component {
			if strings.HasPrefix(module, core) {
				assert.Contains(t, []string{release, manifest[stable]}, version, "%s in the %s's go.mod", module, name)
			}
		}
	}
}

// manifestVersions maps the modules that the manifest names to their versions.
func manifestVersions(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("manifest.yaml")
	require.NoError(t, err)
	var manifest map[string]yaml.Node
	require.NoError(t, yaml.Unmarshal(raw, &manifest))
	versions := map[string]string{}
	for section, node := range manifest {
		if section == "dist" || section == "replaces" {
			continue
		}
		var components []struct{ GoMod string }
		require.NoError(t, node.Decode(&components), section)
		for _, c := range components {
			module, version, ok := strings.Cut(c.GoMod, " ")
			require.True(t, ok, "%s: %q has no version", section, c.GoMod)
			versions[module] = version
		}
	}
	return versions
}

// goModVersions maps the modules that a go.mod requires to their versions.
func goModVersions(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	versions := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			versions[fields[0]] = fields[1]
		}
	}
	return versions
}
