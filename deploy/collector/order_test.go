package collector

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// joined lists the files that are joined to config.yaml. Files of one group exclude each other: one process authenticates
// agents in one way, and is deployed in one.
var joined = map[string][]string{
	"metrics":   {"config-metrics.yaml"},
	"redaction": {"config-redaction.yaml"},
	"tls":       {"config-tls.yaml"},
	"access":    {"config-token.yaml", "config-oidc.yaml"},
	"deployment": {
		"config-kafka-gateway.yaml", "config-kafka-classifier.yaml", "compose/collector.yaml", "kubernetes/single/collector.yaml",
		"kubernetes/two-layers/collector-classifier.yaml",
	},
}

// apart lists files that no agent sends to. Like those for access they have extensions, so orders of both are refused.
var apart = []string{"config-kafka-classifier.yaml", "kubernetes/two-layers/collector-classifier.yaml"}

// A list that two files have is replaced by that of the file that is joined last. Whatever the order of the files, the
// Collector has the same pipelines as when config.yaml is first, or does not start. So no order loses redaction, access
// control, or anything else.
func TestOrderOfFiles(t *testing.T) {
	var starts, refused int
	for _, files := range combinations(slices.Sorted(maps.Keys(joined))) {
		files = append([]string{"config.yaml"}, files...)
		want := join(t, files)
		conflict := slices.ContainsFunc(files, func(f string) bool { return slices.Contains(apart, f) }) &&
			slices.ContainsFunc(files, func(f string) bool { return slices.Contains(joined["access"], f) })
		require.True(t, conflict || want.broken() == "", "config.yaml first: %s: %s", files, want.broken())
		for _, order := range permutations(files) {
			got := join(t, order)
			if got.broken() != "" {
				require.True(t, conflict || order[0] != "config.yaml", "refused: %s", order)
				refused++
				continue
			}
			starts++
			got.check(t, order)
			service := func(e effective) any { return e["service"].(map[string]any)["pipelines"] }
			require.Equal(t, service(want), service(got), order)
		}
	}
	assert.Greater(t, starts, 1000)
	assert.Greater(t, refused, 1000)

	for _, order := range permutations([]string{"config-demo.yaml", "config-forward.yaml"}) {
		got := join(t, order)
		require.Empty(t, got.broken(), order)
		assert.ElementsMatch(t, []string{"file", "otlp_grpc/forward"}, got.exporters(t, "otlp"))
	}
	for _, order := range permutations([]string{"config-demo.yaml", "config-redaction.yaml"}) {
		require.NotEmpty(t, join(t, order).broken(), "the demo has no place for redaction: %s", order)
	}
}

// The Collector agrees with broken, in each order of config.yaml, config-redaction.yaml and one other file.
func TestCollectorRefusesOrder(t *testing.T) {
	bin := binary(t)
	env := map[string]string{"KAFKA_BROKERS": "127.0.0.1:9092", "JOURNAL": t.TempDir()}
	maps.Copy(env, tlsEnv)
	refused := map[bool]int{}
	for _, group := range slices.Sorted(maps.Keys(joined)) {
		for _, file := range joined[group] {
			for _, order := range permutations(slices.Compact([]string{"config.yaml", "config-redaction.yaml", file})) {
				broken := join(t, order).broken()
				if strings.HasPrefix(broken, startOnly) { // TestCollectorRefusesToStart
					continue
				}
				out, err := validate(t, bin, env, order...)
				assert.Equal(t, broken != "", err != nil, "%s: %q, and the Collector: %s", order, broken, out)
				if broken != "" {
					assert.Contains(t, out, "forward/kafka")
				}
				refused[broken != ""]++
			}
		}
	}
	assert.Positive(t, refused[true])
	assert.Positive(t, refused[false])
	out, err := validate(t, bin, demoEnv, "config-demo.yaml", "config-redaction.yaml")
	require.Error(t, err)
	assert.Contains(t, out, "traces/judged: must have at least one receiver")
}

// What validate does not see is refused at the start, with a message that names what is missing.
func TestCollectorRefusesToStart(t *testing.T) {
	bin := binary(t)
	tokens := t.TempDir() + "/tokens"
	require.NoError(t, os.WriteFile(tokens, []byte("token\n"), 0o600))
	overlay := t.TempDir() + "/overlay.yaml"
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
service: {telemetry: {metrics: {level: none, readers: []}}}
`, freeAddress(t)), 0o600))
	for _, tt := range []struct {
		files []string
		want  string
	}{
		{[]string{"config-token.yaml", "config.yaml"}, `failed to resolve authenticator "bearertokenauth"`},
		{[]string{"config-oidc.yaml", "config.yaml"}, `failed to resolve authenticator "oidc"`},
		{[]string{"kubernetes/two-layers/collector-classifier.yaml", "config.yaml"}, "storage"},
		{[]string{"config.yaml", "config-token.yaml", "kubernetes/two-layers/collector-classifier.yaml"}, "authenticator"},
	} {
		t.Run(strings.Join(tt.files, ","), func(t *testing.T) {
			require.True(t, strings.HasPrefix(join(t, tt.files).broken(), startOnly))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var args []string
			for _, file := range append(slices.Clone(tt.files), overlay) {
				args = append(args, "--config", "file:"+file)
			}
			cmd := exec.CommandContext(ctx, bin, args...)
			env := map[string]string{"KAFKA_BROKERS": "127.0.0.1:9092", "JOURNAL": t.TempDir(), "OIDC_ISSUER": "https://login.example", "OIDC_AUDIENCE": "x", "TOKENS_FILE": tokens}
			cmd.Env = environ(env)
			out, err := cmd.CombinedOutput()
			require.NoError(t, ctx.Err(), "it has started")
			require.Error(t, err)
			last := strings.TrimSpace(string(out))
			assert.Contains(t, last[strings.LastIndex(last, "\n")+1:], tt.want)
		})
	}
}

// config-agents.yaml changes the list of receivers of the pipeline that judges. In every order with the other files the
// Collector either has that pipeline with both receivers, and the logs go out, or does not start. With a classifier behind
// Kafka, to which no agent sends, it never starts.
func TestOrderOfAgents(t *testing.T) {
	const agents = "config-agents.yaml"
	starts := 0
	for _, files := range combinations([]string{"metrics", "redaction", "tls", "access"}) {
		for _, deployment := range append([]string{""}, joined["deployment"]...) {
			never := deployment == "config-kafka-classifier.yaml"
			conflict := slices.Contains(apart, deployment) && slices.ContainsFunc(files, func(f string) bool { return slices.Contains(joined["access"], f) })
			all := append([]string{"config.yaml", agents}, files...)
			if deployment != "" {
				all = append(all, deployment)
			}
			if len(all) > 5 {
				continue // every pair is in a shorter one
			}
			for _, order := range permutations(all) {
				got := join(t, order)
				if got.broken() != "" {
					require.True(t, never || conflict || order[0] != "config.yaml", "refused: %s: %s", order, got.broken())
					continue
				}
				require.False(t, never, "starts: %s", order)
				starts++
				require.Equal(t, []string{"otlp", "llm_agent_logs"}, got.pipelines()["traces"].receivers, order)
				require.Equal(t, []string{"llm_agent_logs", "forward/read/logs"}, got.pipelines()["logs"].exporters, order)
				require.Empty(t, got.exporters(t, "forward/read/logs", "redaction/logs"), "not masked: %s", order)
				require.Empty(t, got.exporters(t, "forward/read/logs", "transform/bodies"), "not masked: %s", order)
				if slices.Contains(order, "config-redaction.yaml") {
					require.Equal(t, got.at("processors", "redaction"), got.at("processors", "redaction/logs"), order)
					require.NotEmpty(t, got.at("processors", "transform/bodies", "log_statements"), order)
				}
				require.Contains(t, got.exporters(t, "forward/logs"), "otlp_grpc/logs", order)
				got.check(t, slices.DeleteFunc(slices.Clone(order), func(f string) bool { return f == agents }))
			}
		}
	}
	assert.Greater(t, starts, 100)
}

// combinations returns every choice of at most one file of each group.
func combinations(groups []string) [][]string {
	if len(groups) == 0 {
		return [][]string{nil}
	}
	rest := combinations(groups[1:])
	all := slices.Clone(rest)
	for _, file := range joined[groups[0]] {
		for _, r := range rest {
			all = append(all, append([]string{file}, r...))
		}
	}
	return all
}

// permutations returns every order of a list.
func permutations(list []string) [][]string {
	if len(list) < 2 {
		return [][]string{list}
	}
	var all [][]string
	for i := range list {
		others := slices.Delete(slices.Clone(list), i, i+1)
		for _, p := range permutations(others) {
			all = append(all, append([]string{list[i]}, p...))
		}
	}
	return all
}

// effective is a configuration as the Collector sees it, with variables as they are written.
type effective map[string]any

// files holds the parsed files.
var files = map[string]map[string]any{}

// join merges files as the Collector does: maps merge, anything else is replaced by what comes later.
func join(t *testing.T, order []string) effective {
	t.Helper()
	into := map[string]any{}
	for _, file := range order {
		if files[file] == nil {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var doc map[string]any
			require.NoError(t, yaml.Unmarshal(raw, &doc))
			files[file] = doc
		}
		merge(into, files[file])
	}
	return into
}

func merge(into, from map[string]any) {
	for key, value := range from {
		sub, ok := value.(map[string]any)
		if !ok {
			into[key] = value
			continue
		}
		if _, ok := into[key].(map[string]any); !ok {
			into[key] = map[string]any{}
		}
		merge(into[key].(map[string]any), sub)
	}
}

// at returns what a path leads to, or nil.
func (e effective) at(path ...string) any {
	var node any = map[string]any(e)
	for _, key := range path {
		m, _ := node.(map[string]any)
		node = m[key]
	}
	return node
}

type pipeline struct{ receivers, processors, exporters []string }

func (e effective) pipelines() map[string]pipeline {
	texts := func(v any) (out []string) {
		for _, s := range list(v) {
			out = append(out, s.(string))
		}
		return out
	}
	all := map[string]pipeline{}
	for name, p := range e.at("service", "pipelines").(map[string]any) {
		m := p.(map[string]any)
		all[name] = pipeline{texts(m["receivers"]), texts(m["processors"]), texts(m["exporters"])}
	}
	return all
}

// startOnly begins the reasons of broken that the Collector notices when it starts, and not before.
const startOnly = "at start: "

// broken returns why the Collector does not start, or "".
func (e effective) broken() string {
	sends, receives := map[string]bool{}, map[string]bool{}
	extensions := map[string]bool{}
	for _, name := range list(e.at("service", "extensions")) {
		extensions[name.(string)] = true
	}
	var late string
	needs := func(section, name string) {
		for _, path := range [][]string{{"storage"}, {"sending_queue", "storage"}, {"protocols", "grpc", "auth", "authenticator"}, {"protocols", "http", "auth", "authenticator"}} {
			if extension, _ := e.at(append([]string{section, name}, path...)...).(string); extension != "" && !extensions[extension] {
				late = startOnly + name + " needs " + extension
			}
		}
	}
	for name, p := range e.pipelines() {
		if len(p.receivers) == 0 || len(p.exporters) == 0 {
			return name + " has no receivers or exporters"
		}
		for _, r := range p.receivers {
			receives[r] = true
			needs("receivers", r)
		}
		for _, r := range p.processors {
			needs("processors", r)
		}
		for _, x := range p.exporters {
			sends[x] = true
			needs("exporters", x)
		}
	}
	connectors, _ := e["connectors"].(map[string]any)
	for name := range connectors {
		if sends[name] != receives[name] {
			return name + " has only one side"
		}
	}
	return late
}

// exporters returns the exporters that spans of a receiver, or logs of a connector for logs, reach, without those that a processor of skip is before.
func (e effective) exporters(t *testing.T, receiver string, skip ...string) []string {
	t.Helper()
	reached, pipelines := map[string]bool{}, e.pipelines()
	connectors, _ := e["connectors"].(map[string]any)
	var walk func(from string)
	walk = func(from string) {
		for name, p := range pipelines {
			if strings.HasPrefix(name, "logs") != strings.HasSuffix(from, "/logs") {
				continue // the pipelines of another signal
			}
			if !slices.Contains(p.receivers, from) || slices.ContainsFunc(p.processors, func(name string) bool { return slices.Contains(skip, name) }) {
				continue
			}
			for _, x := range p.exporters {
				if _, connector := connectors[x]; connector {
					walk(x)
				} else {
					reached[x] = true
				}
			}
		}
	}
	walk(receiver)
	return slices.Sorted(maps.Keys(reached))
}

// check checks that each file does what it is for.
func (e effective) check(t *testing.T, files []string) {
	t.Helper()
	has := func(name string) bool { return slices.Contains(files, name) }
	receiver, want := "otlp", []string{"debug", "otlp_grpc"}
	if has("config-kafka-classifier.yaml") {
		receiver = "kafka"
	}
	if has("config-kafka-gateway.yaml") {
		want = []string{"kafka"}
	}
	if has("compose/collector.yaml") {
		want = append(want, "otlp_grpc/jaeger")
	}
	if has("config-metrics.yaml") {
		want = append(want, "prometheus")
	}
	require.ElementsMatch(t, want, e.exporters(t, receiver), "exporters of %s", files)
	if has("config-redaction.yaml") {
		require.Empty(t, e.exporters(t, receiver, "redaction"), "not redacted: %s", files)
		require.Greater(t, len(list(e.at("processors", "redaction", "blocked_key_patterns"))), 5)
	}
	if !has("config-kafka-gateway.yaml") {
		require.Empty(t, e.exporters(t, receiver, "llm_classify"), "not judged: %s", files)
	}
	for _, protocol := range []string{"grpc", "http"} {
		at := func(keys ...string) any {
			return e.at(append([]string{"receivers", "otlp", "protocols", protocol}, keys...)...)
		}
		for file, authenticator := range map[string]string{"config-token.yaml": "bearertokenauth", "config-oidc.yaml": "oidc"} {
			if has(file) {
				require.Equal(t, authenticator, at("auth", "authenticator"), files)
			}
		}
		if has("config-tls.yaml") {
			require.NotNil(t, at("tls", "client_ca_file"), files)
		}
	}
	if has("config-tls.yaml") {
		// With a file of certificates the exporter uses TLS, whatever insecure says.
		require.NotEmpty(t, e.at("exporters", "otlp_grpc", "tls", "ca_file"), files)
		require.NotContains(t, e.at("exporters", "otlp_grpc", "tls", "ca_file"), ":-}", files)
	}
}
