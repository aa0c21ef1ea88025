package docs

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func checkJSON(t *testing.T, b *block) {
	assert.True(t, json.Valid([]byte(b.text)))
}

// component is an entry of a builder's manifest.
type component struct{ GoMod string }

// manifest is the part of a builder's manifest that pages show.
type manifest struct {
	Processors, Connectors []component
	Replaces               []string
}

// config is a Collector's configuration.
type config struct {
	Receivers, Processors, Exporters, Connectors, Extensions map[string]yaml.Node

	Service struct {
		Extensions []string
		Pipelines  map[string]struct{ Receivers, Processors, Exporters []string }
		Telemetry  yaml.Node
	}
}

// workflow is a workflow of GitHub Actions.
type workflow struct {
	Name, On string
	Jobs     map[string]struct {
		RunsOn string `yaml:"runs-on"`
		Steps  []struct {
			Name, Uses, Run, If string
			With, Env           yaml.Node
		}
	}
}

// problems returns what is wrong with the commands that the workflow runs.
func (w *workflow) problems(t *testing.T) (list []string) {
	t.Helper()
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			for _, command := range commands(step.Run) {
				if command[0] == "otelllm" {
					list = append(list, shellProblems(t, "", strings.Join(command, " "))...)
				}
			}
		}
	}
	return list
}

// checkYAML checks a configuration of the Collector, a part of its builder's manifest, or a workflow. Keys that none has fail.
func checkYAML(t *testing.T, b *block) {
	for _, problem := range yamlProblems(t, b.text) {
		t.Error(problem)
	}
}

func yamlProblems(t *testing.T, text string) []string {
	t.Helper()
	strict := func(into any) error {
		decoder := yaml.NewDecoder(strings.NewReader(text))
		decoder.KnownFields(true)
		return decoder.Decode(into)
	}
	var m manifest
	if strict(&m) == nil {
		return m.problems(t)
	}
	var w workflow
	if strict(&w) == nil {
		return w.problems(t)
	}
	var c config
	if err := strict(&c); err != nil {
		return []string{"neither a Collector's configuration nor a builder's manifest: " + err.Error()}
	}
	return c.problems(t)
}

// problems compares a manifest with the one that `make collector` builds from.
func (m *manifest) problems(t *testing.T) (list []string) {
	t.Helper()
	var built manifest
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/collector/manifest.yaml")), &built))
	for _, c := range m.Processors {
		if !slices.Contains(built.Processors, c) {
			list = append(list, "manifest.yaml has no processor "+c.GoMod)
		}
	}
	for _, c := range m.Connectors {
		if !slices.Contains(built.Connectors, c) {
			list = append(list, "manifest.yaml has no connector "+c.GoMod)
		}
	}
	replaced := func(all []string) (modules []string) {
		for _, line := range all {
			module, _, _ := strings.Cut(line, " => ")
			modules = append(modules, module)
		}
		slices.Sort(modules)
		return modules
	}
	if is, want := replaced(m.Replaces), replaced(built.Replaces); !slices.Equal(is, want) {
		list = append(list, "it replaces "+strings.Join(is, ", ")+", manifest.yaml "+strings.Join(want, ", "))
	}
	return list
}

// problems are names in the pipelines that nothing configures: neither this file nor config.yaml, which a reader joins it to.
// In `make validate` the built Collector validates the two together, with every option.
func (c *config) problems(t *testing.T) (list []string) {
	t.Helper()
	var base config
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/collector/config.yaml")), &base))
	names := func(kind string, used []string, configured ...map[string]yaml.Node) {
		for _, name := range used {
			if !slices.ContainsFunc(configured, func(in map[string]yaml.Node) bool { _, ok := in[name]; return ok }) {
				list = append(list, kind+" "+name+" is not configured")
			}
		}
	}
	names("extension", c.Service.Extensions, c.Extensions, base.Extensions)
	for _, id := range slices.Sorted(maps.Keys(c.Service.Pipelines)) {
		p := c.Service.Pipelines[id]
		names("receiver", p.Receivers, c.Receivers, base.Receivers, c.Connectors, base.Connectors)
		names("processor", p.Processors, c.Processors, base.Processors)
		names("exporter", p.Exporters, c.Exporters, base.Exporters, c.Connectors, base.Connectors)
	}
	return list
}

// TestYAMLRefuses: a configuration that cannot work fails.
func TestYAMLRefuses(t *testing.T) {
	files(t, ".md")
	for text, want := range map[string]string{
		"processors:\n  batch:\n  batch:\n": "already defined",
		"procesors:\n  batch:\n":            "not found",
		"service: {pipelines: {traces: {receivers: [otlp], processors: [llm_clasify], exporters: [otlp_grpc]}}}\n": "processor llm_clasify is not configured",
		"service: {extensions: [file_storage]}\n":                                         "extension file_storage is not configured",
		"service: {pipelines: {traces: {processor: [batch]}}}\n":                          "not found",
		"processors:\n  - gomod: example.com/llmclassify v0.0.0\nreplaces:\n  - a => b\n": "manifest.yaml has no processor example.com/llmclassify v0.0.0",
	} {
		problems := yamlProblems(t, text)
		if assert.NotEmpty(t, problems, text) {
			assert.Contains(t, problems[0], want, text)
		}
	}
}

var (
	relativeImport = regexp.MustCompile(`import \{([^}]*)\} from '(\.[^']*)'`)
	exported       = regexp.MustCompile(`(?m)^export (?:async )?(?:class|const|function) (\w+)`)
)

// checkJavaScript: what a snippet imports from a file beside its page is there, and where there is a Node, the snippet
// parses.
func checkJavaScript(t *testing.T, b *block) {
	for _, match := range relativeImport.FindAllStringSubmatch(b.text, -1) {
		var names []string
		for _, export := range exported.FindAllStringSubmatch(read(t, path.Join(path.Dir(b.page), match[2])), -1) {
			names = append(names, export[1])
		}
		for name := range strings.SplitSeq(match[1], ",") {
			assert.Contains(t, names, strings.TrimSpace(name), match[2])
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("LEFT OUT: the syntax of a snippet in JavaScript: there is no node")
	}
	file := filepath.Join(t.TempDir(), "snippet.mjs")
	require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
	out, err := exec.CommandContext(t.Context(), node, "--check", file).CombinedOutput()
	assert.NoError(t, err, string(out))
}
