package collector

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// shipped lists every configuration as it is meant to be run. TestEveryFileIsShipped checks that the list is complete.
var shipped = []struct {
	name  string
	files []string
	// env holds the variables that the configuration requires and that have no default.
	env map[string]string
	// ownListeners is set if the caller chooses the addresses to listen on, by ${env:…_ENDPOINT}. All other
	// configurations are for one machine and listen on loopback only.
	ownListeners bool
	// beyond is the file, if any, that listens beyond loopback: with TLS on an address that the caller chooses, or
	// inside a container, where loopback is not reachable from outside. Access is then decided, and tested, where the
	// container is published.
	beyond string
}{
	{name: "one machine", files: []string{"config.yaml"}},
	{name: "one machine with metrics", files: []string{"config.yaml", "config-metrics.yaml"}},
	{name: "demo", files: []string{"config-demo.yaml"}, env: demoEnv, ownListeners: true},
	{
		name:         "demo with a backend",
		files:        []string{"config-demo.yaml", "config-forward.yaml"},
		env:          demoEnv,
		ownListeners: true,
	},
	{
		name:   "one machine with TLS",
		files:  []string{"config.yaml", "config-tls.yaml"},
		env:    tlsEnv,
		beyond: "config-tls.yaml",
	},
	{
		name:   "one machine with TLS, tokens, metrics and redaction",
		files:  []string{"config.yaml", "config-metrics.yaml", "config-tls.yaml", "config-token.yaml", "config-redaction.yaml"},
		env:    tlsEnv,
		beyond: "config-tls.yaml",
	},
	{
		name:   "one machine with TLS and OpenID Connect",
		files:  []string{"config.yaml", "config-tls.yaml", "config-oidc.yaml"},
		env:    tlsEnv,
		beyond: "config-tls.yaml",
	},
	{name: "one machine with agents' logs", files: []string{"config.yaml", "config-agents.yaml"}, env: logsEnv},
	{
		name:  "one machine with agents' logs, metrics and redaction",
		files: []string{"config.yaml", "config-metrics.yaml", "config-redaction.yaml", "config-agents.yaml"},
		env:   logsEnv,
	},
	{
		name:  "gateway before Kafka with agents' logs",
		files: []string{"config.yaml", "config-kafka-gateway.yaml", "config-agents.yaml"},
		env:   map[string]string{"KAFKA_BROKERS": "127.0.0.1:9092", "LOGS_OTLP": "127.0.0.1:24317"},
	},
	{name: "one machine with redaction", files: []string{"config.yaml", "config-redaction.yaml"}},
	{
		name:  "gateway before Kafka",
		files: []string{"config.yaml", "config-kafka-gateway.yaml"},
		env:   map[string]string{"KAFKA_BROKERS": "127.0.0.1:9092,127.0.0.1:9093"},
	},
	{
		name:  "classifier behind Kafka",
		files: []string{"config.yaml", "config-metrics.yaml", "config-kafka-classifier.yaml"},
		env:   map[string]string{"KAFKA_BROKERS": "127.0.0.1:9092", "KAFKA_INSTANCE": "classifier-0", "JOURNAL": os.TempDir()},
	},
	{
		name:   "Compose",
		files:  []string{"config.yaml", "config-metrics.yaml", "compose/collector.yaml"},
		env:    map[string]string{"BACKEND_OTLP": "tempo:14317"},
		beyond: "compose/collector.yaml",
	},
	{
		name:   "Kubernetes, single",
		files:  []string{"config.yaml", "config-metrics.yaml", "kubernetes/single/collector.yaml"},
		beyond: "kubernetes/single/collector.yaml",
	},
	{
		name:   "Kubernetes, gateway",
		files:  []string{"kubernetes/two-layers/collector-gateway.yaml"},
		beyond: "kubernetes/two-layers/collector-gateway.yaml",
	},
	{
		name:   "Kubernetes, classifier",
		files:  []string{"config.yaml", "config-metrics.yaml", "kubernetes/two-layers/collector-classifier.yaml"},
		env:    map[string]string{"JOURNAL": os.TempDir()},
		beyond: "kubernetes/two-layers/collector-classifier.yaml",
	},
}

var demoEnv = map[string]string{
	"OTLP_GRPC_ENDPOINT": "127.0.0.1:4317",
	"OTLP_HTTP_ENDPOINT": "127.0.0.1:4318",
	"HEALTH_ENDPOINT":    "127.0.0.1:13133",
	"OUT_FILE":           "traces.jsonl",
	"FORWARD_ENDPOINT":   "127.0.0.1:14317",
}

// logsEnv holds the variable that config-agents.yaml requires.
var logsEnv = map[string]string{"LOGS_OTLP": "127.0.0.1:24317"}

// tlsEnv holds the variables that the files for access beyond loopback require. validate does not read the files that
// they name.
var tlsEnv = map[string]string{
	"OTLP_GRPC_ENDPOINT": "127.0.0.1:4317",
	"OTLP_HTTP_ENDPOINT": "127.0.0.1:4318",
	"TLS_CERT":           "cert.pem",
	"TLS_KEY":            "key.pem",
	"TLS_CLIENT_CA":      "ca.pem",
	"TOKENS_FILE":        "tokens",
	"OIDC_ISSUER":        "https://login.example",
	"OIDC_AUDIENCE":      "otelcol-llm",
}

func TestEveryFileIsShipped(t *testing.T) {
	named := map[string]bool{"manifest.yaml": true}
	for _, s := range shipped {
		for _, file := range s.files {
			named[file] = true
		}
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		// The folders hold files for other programs, which have tests of their own, and the overlays for the Collector.
		collectors := filepath.Dir(path) == "." || strings.HasPrefix(filepath.Base(path), "collector")
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" && collectors {
			assert.True(t, named[path], "%s is in no entry of `shipped`, so nothing validates it", path)
		}
		return err
	}))
}

func TestValidate(t *testing.T) {
	bin := binary(t)
	for _, s := range shipped {
		t.Run(s.name, func(t *testing.T) {
			out, err := validate(t, bin, s.env, s.files...)
			assert.NoError(t, err, out)
		})
	}
}

// TestValidateRefuses checks that validate can fail: it refuses wrong configurations and names the mistake.
func TestValidateRefuses(t *testing.T) {
	bin := binary(t)
	for _, tt := range []struct{ name, overlay, want string }{
		{"unknown key of llm_classify", "processors: {llm_classify: {max_holt: 1s}}", "max_holt"},
		{"negative hold", "processors: {llm_classify: {max_hold: -1s}}", "max_hold"},
		{"unknown processor", "service: {pipelines: {traces: {processors: [llm_clasify]}}}", "llm_clasify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overlay := filepath.Join(t.TempDir(), "overlay.yaml")
			require.NoError(t, os.WriteFile(overlay, []byte(tt.overlay), 0o600))
			out, err := validate(t, bin, nil, "config.yaml", overlay)
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, out)
			assert.Contains(t, out, tt.want)
		})
	}
}

// binary returns the path of the built Collector, from OTELCOL_BIN. `make validate` sets it, and then a missing binary
// is a failure. A plain `go test` has no Collector and skips.
func binary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("OTELCOL_BIN")
	if bin == "" {
		t.Skip("OTELCOL_BIN names no Collector: run `make validate`, which builds one")
	}
	require.FileExists(t, bin, "OTELCOL_BIN")
	return bin
}

func validate(t *testing.T, bin string, env map[string]string, files ...string) (string, error) {
	t.Helper()
	args := []string{"validate"}
	for _, file := range files {
		args = append(args, "--config", "file:"+file)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = environ(env)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// environ returns the process's own environment without the variables that the shipped configurations read, plus env.
func environ(env map[string]string) []string {
	var list []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if _, ours := demoEnv[name]; !ours && name != "BACKEND_OTLP" {
			list = append(list, entry)
		}
	}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

func TestListensOnLoopback(t *testing.T) {
	for _, s := range shipped {
		for _, file := range s.files {
			t.Run(s.name+"/"+file, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, l := range listeners(t, raw) {
					if s.ownListeners {
						assert.Regexp(t, `^\$\{env:[A-Z_]+_ENDPOINT\}$`, l.address, "%s", l.path)
						continue
					}
					// An address from the environment is the caller's choice.
					if _, port, err := net.SplitHostPort(l.address); err == nil && !strings.HasPrefix(l.address, "${env:") {
						number, err := strconv.Atoi(port)
						require.NoError(t, err, l.path)
						assert.Greater(t, number, 1023, "%s: a port below 1024 needs a privilege", l.path)
					}
					if file == s.beyond {
						continue
					}
					assert.True(t, loopback(l.address), "%s listens on %q", l.path, l.address)
				}
			})
		}
	}
	t.Run("one machine listens at all", func(t *testing.T) {
		raw, err := os.ReadFile("config.yaml")
		require.NoError(t, err)
		var paths []string
		for _, l := range listeners(t, raw) {
			paths = append(paths, l.path)
		}
		assert.ElementsMatch(t, []string{
			"extensions.health_check.endpoint",
			"receivers.otlp.protocols.grpc.endpoint",
			"receivers.otlp.protocols.http.endpoint",
			"service.telemetry.metrics.readers.pull.exporter.prometheus.host",
		}, paths)
	})
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:4317":                  true,
		"127.0.0.1":                       true,
		"localhost:4317":                  true,
		"[::1]:4317":                      true,
		"0.0.0.0:4317":                    false,
		":4317":                           false,
		"[::]:4317":                       false,
		"":                                false,
		"10.0.0.1:4317":                   false,
		"collector.example:4317":          false,
		"${env:HOST}:4317":                false,
		"${env:LISTEN:-127.0.0.1:4317}":   false,
		"unix:///run/otelcol/socket.sock": false,
	} {
		assert.Equal(t, want, loopback(address), "%q", address)
	}
}

// loopback reports whether an address, with or without a port, can only be reached from this machine. For an address
// that comes from the environment it returns false.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type listener struct{ path, address string }

// servers matches the sections in which an address is one to listen on; elsewhere it is one to send to.
var servers = regexp.MustCompile(`^(receivers|extensions|exporters\.prometheus(/[^.]+)?|service\.telemetry)\.`)

// listeners returns the addresses that a configuration listens on, with their paths in it. A list does not add an
// element to the path.
func listeners(t *testing.T, raw []byte) []listener {
	t.Helper()
	var doc map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &doc))
	var found []listener
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for key, child := range node {
				walk(strings.TrimPrefix(path+"."+key, "."), child)
			}
		case []any:
			for _, child := range node {
				walk(path, child)
			}
		case string:
			key := path[strings.LastIndex(path, ".")+1:]
			if (key == "endpoint" || key == "host") && servers.MatchString(path) {
				found = append(found, listener{path, node})
			}
		}
	}
	walk("", doc)
	return found
}
