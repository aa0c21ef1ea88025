//go:build !race

// Nothing runs concurrently here, and building compose-go with the race detector takes time for nothing.

package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// load reads the file as Compose does: it checks the schema, merges, and resolves relative paths.
func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"compose.yaml"})
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestCompose(t *testing.T) {
	project := load(t)
	assert.ElementsMatch(t, []string{"collector", "jaeger", "tempo", "prometheus", "grafana"}, project.ServiceNames())
	for name, service := range project.Services {
		t.Run(name, func(t *testing.T) {
			assert.Regexp(t, `:v?\d+\.\d+\.\d+$|^otelcol-llm:local$`, service.Image, "pinned")
			assert.Equal(t, name == "collector", service.Build != nil)
			assert.True(t, service.ReadOnly)
			assert.Equal(t, []string{"ALL"}, service.CapDrop)
			assert.Contains(t, service.SecurityOpt, "no-new-privileges:true")
			assert.False(t, service.Privileged)
			for _, port := range service.Ports {
				assert.Equal(t, "127.0.0.1", port.HostIP, "port %s is published beyond loopback", port.Published)
				assert.Greater(t, port.Target, uint32(1023))
			}
			for _, volume := range service.Volumes {
				if volume.Type == types.VolumeTypeBind {
					assert.True(t, volume.ReadOnly, volume.Source)
					_, err := os.Stat(volume.Source)
					assert.NoError(t, err, "Compose would create a folder in place of this missing file")
				}
			}
		})
	}
	build := project.Services["collector"].Build
	assert.FileExists(t, filepath.Join(build.Context, build.Dockerfile))
	assert.FileExists(t, filepath.Join(build.Context, build.Dockerfile+".dockerignore"))
	assert.FileExists(t, filepath.Join(build.Context, "Makefile"))
}

// Every address at which one service reaches another is one that the other listens on, according to our files.
func TestAddressesAgree(t *testing.T) {
	services := load(t).ServiceNames()
	listens := map[string][]string{
		"collector":  {"4317", "4318", "8888", "8889", "13133"}, // collector.yaml
		"tempo":      {"3200", "14317"},                         // ../tempo/tempo.yaml
		"jaeger":     {"4317", "16686"},                         // its image's own configuration
		"prometheus": {"9090"},
		"grafana":    {"3000"},
	}
	read := func(file string) string {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(raw)
	}
	for _, port := range listens["collector"] {
		assert.Contains(t, read("collector.yaml"), port)
	}
	for _, port := range listens["tempo"] {
		assert.Contains(t, read("../tempo/tempo.yaml"), port)
	}
	address := regexp.MustCompile(`\b(` + strings.Join(services, "|") + `):(\d+)\b`)
	var found int
	for _, file := range []string{"compose.yaml", "collector.yaml", "prometheus.yaml", "grafana/datasources.yaml"} {
		for _, a := range address.FindAllStringSubmatch(read(file), -1) {
			if strings.Contains(read(file), "/"+a[0]+".") { // an image and its version
				continue
			}
			found++
			assert.Contains(t, listens[a[1]], a[2], "%s: %s", file, a[0])
		}
	}
	assert.GreaterOrEqual(t, found, 7)
}

// The jobs, intervals and rules are the same as on one machine without containers: alerts and exemplars depend on
// them.
func TestPrometheusIsTheSame(t *testing.T) {
	read := func(file string) (config map[string]any) {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(raw, &config))
		return config
	}
	one, compose := read("../prometheus/prometheus.yaml"), read("prometheus.yaml")
	assert.Equal(t, one["global"], compose["global"])
	jobs := func(config map[string]any) (names []string) {
		for _, job := range config["scrape_configs"].([]any) {
			names = append(names, job.(map[string]any)["job_name"].(string))
		}
		return names
	}
	assert.Equal(t, jobs(one), jobs(compose))
	for i, file := range compose["rule_files"].([]any) {
		assert.Equal(t, one["rule_files"].([]any)[i], filepath.Base(file.(string)))
		assert.FileExists(t, file.(string))
	}
}

// Grafana's provisioned data sources are the ones that the dashboards use.
func TestProvisioning(t *testing.T) {
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	raw, err := os.ReadFile("grafana/datasources.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &sources))
	kinds := map[string]bool{}
	for _, s := range sources.Datasources {
		assert.Equal(t, s.Type, s.UID)
		kinds[s.Type] = true
	}
	assert.Equal(t, map[string]bool{"prometheus": true, "tempo": true, "jaeger": true}, kinds)
	for _, uid := range regexp.MustCompile(`datasourceUid: (\w+)`).FindAllStringSubmatch(string(raw), -1) {
		assert.True(t, kinds[uid[1]], uid[1])
	}

	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	raw, err = os.ReadFile("grafana/dashboards.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &providers))
	require.Len(t, providers.Providers, 1)
	dashboards, err := filepath.Glob("../grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
	grafana := load(t).Services["grafana"]
	for _, d := range dashboards {
		target := providers.Providers[0].Options.Path + "/" + filepath.Base(d)
		assert.True(t, slices.ContainsFunc(grafana.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Target == target && filepath.Base(v.Source) == filepath.Base(d)
		}), "%s is not mounted", target)
	}
	assert.FileExists(t, "../grafana/"+filepath.Base(*grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]))
}

// Tempo writes its service graph where Grafana looks for it, and Prometheus takes it.
func TestServiceGraph(t *testing.T) {
	project := load(t)
	assert.Contains(t, project.Services["prometheus"].Command, "--web.enable-remote-write-receiver")
	assert.Equal(t, "http://prometheus:9090/api/v1/write", *project.Services["tempo"].Environment["TEMPO_METRICS"])
	var tempo struct {
		MetricsGenerator struct {
			Storage struct {
				RemoteWrite []struct{ URL string } `yaml:"remote_write"`
			}
			Processor struct {
				ServiceGraphs struct {
					PeerAttributes []string `yaml:"peer_attributes"`
				} `yaml:"service_graphs"`
			}
		} `yaml:"metrics_generator"`
		Overrides struct {
			Defaults struct {
				MetricsGenerator struct{ Processors []string } `yaml:"metrics_generator"`
			}
		}
	}
	raw, err := os.ReadFile("../tempo/tempo.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &tempo))
	require.Len(t, tempo.MetricsGenerator.Storage.RemoteWrite, 1)
	assert.Contains(t, tempo.MetricsGenerator.Storage.RemoteWrite[0].URL, "${TEMPO_METRICS:-")
	assert.Equal(t, "gen_ai.provider.name", tempo.MetricsGenerator.Processor.ServiceGraphs.PeerAttributes[0])
	assert.Contains(t, tempo.MetricsGenerator.Processor.ServiceGraphs.PeerAttributes, "server.address")
	assert.Equal(t, []string{"service-graphs"}, tempo.Overrides.Defaults.MetricsGenerator.Processors)
	raw, err = os.ReadFile("grafana/datasources.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(raw), "serviceMap: {datasourceUid: prometheus}")
}

// Without a container engine, these properties of the image can be checked: base images are pinned, nothing runs as
// root, nothing is privileged, and every file that is copied from the tree exists.
func TestDockerfile(t *testing.T) {
	raw, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	text := string(raw)
	assert.Regexp(t, `(?m)^FROM golang:\d+\.\d+\.\d+-\w+ AS build$`, text)
	_, final, ok := strings.Cut(text, "FROM scratch\n")
	require.True(t, ok)
	assert.Contains(t, final, "\nUSER 10001:10001\n")
	assert.NotContains(t, final, "RUN ", "there is no shell")
	copied := regexp.MustCompile(`(?m)^COPY (deploy\S+) `).FindAllStringSubmatch(final, -1)
	require.NotEmpty(t, copied)
	for _, c := range copied {
		files, err := filepath.Glob("../../../" + c[1])
		require.NoError(t, err)
		assert.NotEmpty(t, files, c[1])
	}
	for _, config := range regexp.MustCompile(`/etc/otelcol-llm/([\w.-]+)`).FindAllStringSubmatch(final, -1) {
		assert.FileExists(t, "../"+config[1])
	}
	for _, port := range regexp.MustCompile(`\d+`).FindAllString(regexp.MustCompile(`(?m)^EXPOSE .*$`).FindString(final), -1) {
		assert.Greater(t, len(port), 3, "port %s is privileged", port)
	}
}
