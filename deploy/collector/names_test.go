package collector

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// names holds every name that a query or a page may use, and its meaning.
type names struct {
	vocabulary
	// otel holds the metrics' names in config-metrics.yaml.
	otel map[string]bool
	// metrics maps the names in Prometheus to the labels; the labels are nil if they are not checked.
	metrics map[string]map[string]bool
}

var (
	// Not after a hyphen or a slash, as in hosts and files.
	attributeName = regexp.MustCompile(`(?:^|[^-/\w])(llm\.[a-z0-9_.]*[a-z0-9_*])`)
	labelName     = regexp.MustCompile(`\b(llm|gen_ai)_[a-z0-9_]+`)
	recordedName  = regexp.MustCompile(`\b[a-z_]+:llm_[a-z0-9_]+(:[a-z0-9_]+)?`)
	ownName       = regexp.MustCompile(`\botelcol_processor_llm_classify_[a-z_]+`)
	selector      = regexp.MustCompile(`([a-z_][a-z0-9_:]*)\{([^{}]*)\}`)
	matcher       = regexp.MustCompile(`([a-z_]+) ?(?:=~|!~|!=|=) ?"([^"]*)"`)
	comparison    = regexp.MustCompile(`\b((?:llm|gen_ai)\.[a-z_.]+) ?(?:=~|!~|!=|=) ?"([^"]*)"`)
)

// ownDimensions are not attributes of spans: config-metrics.yaml sets them, to a value of its own.
var ownDimensions = map[string]bool{"gen_ai.token.type": true, "llm.usage_seen": true}

// otherWords look like names but are components of the Collector, what vLLM and ADK call theirs, and our own dimensions.
var otherWords = map[string]bool{"llm_usage_seen": true, "gen_ai_token_type": true, "llm_classify": true, "llm_agent_logs": true, "llm_request": true, "llm_response": true, "gen_ai_normalizer": true, "gen_ai_latest_experimental": true}

// Dashboards, rules, TraceQL, configurations and the pages of the whole tree use only names in the vocabulary,
// and only values that an enum has: a name that is never written gives an empty panel and an alert that never
// fires.
func TestNames(t *testing.T) {
	n := readNames(t)
	var seen int
	for _, root := range []string{".", "../../docs", "../../README.md", "../../CONTRIBUTING.md", "../../processor/llmclassify/README.md", "../../examples", "../../test"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			if entry.Name() == "node_modules" || path == "grafana/schema" {
				return filepath.SkipDir
			}
			switch filepath.Ext(path) {
			case ".yaml", ".json", ".md":
			default:
				return nil
			}
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			for i, line := range strings.Split(strings.ReplaceAll(string(raw), `\"`, `"`), "\n") {
				seen += n.check(line, func(problem, name string) {
					t.Errorf("%s:%d: %s: %s", path, i+1, problem, name)
				})
			}
			return nil
		}))
	}
	assert.Greater(t, seen, 500, "names that were checked against the vocabulary")
}

func TestNamesRefuse(t *testing.T) {
	n := readNames(t)
	for line, want := range map[string]string{
		`{ span.llm.run.outcom = "failed" }`:                           "llm.run.outcom",
		`{ span.llm.run.outcome = "broken" }`:                          `llm.run.outcome="broken"`,
		`sum(llm_run_call_total)`:                                      "llm_run_call_total",
		`sum by (llm_failure_kind) (llm_run_calls_total)`:              "llm_failure_kind",
		`llm_run_calls_total{llm_retry_safety=~"no_retry|never"}`:      `llm_retry_safety="never"`,
		`llm_run_calls_total{llm_watchdog_kind="idle"}`:                "llm_run_calls_total{llm_watchdog_kind}",
		`llm_request_duration_seconds_bucket{llm_failure_cause="tls"}`: "llm_request_duration_seconds_bucket{llm_failure_cause}",
		`service:llm_runs:rate6m`:                                      "service:llm_runs:rate6m",
		`otelcol_processor_llm_classify_span_in`:                       "otelcol_processor_llm_classify_span_in",
		"see `llm.fail.*`":                                             "llm.fail.*",
	} {
		var got []string
		n.check(line, func(_, name string) { got = append(got, name) })
		assert.Equal(t, []string{want}, got, line)
	}
	for _, line := range []string{
		`{ span.llm.run.outcome = "failed" && span.llm.failure.class =~ "stream_interrupted|provider_error" }`,
		`provider_model:llm_requests:increase5m{gen_ai_provider_name="openai"}`,
		"`llm.failure.*` of llm_classify", `llm_run_calls_total{service_name=~"$service", llm_failure_class!=""}`,
	} {
		n.check(line, func(problem, name string) { t.Errorf("%s: %s: %s", line, problem, name) })
	}
}

// check reports each unknown name of a line and returns the number of names in it.
func (n *names) check(line string, report func(problem, name string)) (seen int) {
	for _, match := range attributeName.FindAllStringSubmatch(line, -1) {
		seen++
		name := match[1]
		if _, ok := n.attributes[name]; !ok && !n.events[name] && !n.otel[name] && !n.prefix(name) && !ownDimensions[name] && name != "llm.run.abandoned" {
			report("neither an attribute nor an event", name)
		}
	}
	for _, name := range recordedName.FindAllString(line, -1) {
		seen++
		if _, ok := n.metrics[name]; !ok {
			report("no rule records it", name)
		}
	}
	for _, name := range ownName.FindAllString(line, -1) {
		seen++
		if _, ok := n.metrics[name]; !ok {
			report("llm_classify has no such metric", name)
		}
	}
	for _, name := range labelName.FindAllString(recordedName.ReplaceAllString(line, ""), -1) {
		seen++
		_, metric := n.metrics[name]
		if _, label := n.label(name); !metric && !label && !otherWords[name] {
			report("neither a metric nor a label", name)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(line, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			if labels := n.metrics[s[1]]; labels != nil && !labels[m[1]] {
				report("the metric has no such label", s[1]+"{"+m[1]+"}")
			}
			if a, ok := n.label(m[1]); ok {
				a.checkValues(m[1], m[2], report)
			}
		}
	}
	for _, c := range comparison.FindAllStringSubmatch(line, -1) {
		n.attributes[c[1]].checkValues(c[1], c[2], report)
	}
	return seen
}

// checkValues checks the alternatives of a comparison against the values of an enum.
func (a attribute) checkValues(name, values string, report func(problem, name string)) {
	known := map[string]bool{"": true}
	for _, v := range a.values {
		known[v] = true
	}
	for value := range strings.SplitSeq(values, "|") {
		if a.values != nil && !known[value] && !strings.Contains(value, "$") {
			report("no such value", name+`="`+value+`"`)
		}
	}
}

// prefix reports whether a name such as llm.failure.* matches any attributes.
func (n *names) prefix(name string) bool {
	prefix, ok := strings.CutSuffix(name, "*")
	for attribute := range n.attributes {
		if ok && strings.HasPrefix(attribute, prefix) {
			return true
		}
	}
	return false
}

// label returns the attribute of a Prometheus label.
func (n *names) label(name string) (attribute, bool) {
	for id, a := range n.attributes {
		if strings.ReplaceAll(id, ".", "_") == name {
			return a, true
		}
	}
	return attribute{}, false
}

func readNames(t *testing.T) *names {
	t.Helper()
	n := &names{vocabulary: readVocabulary(t), otel: map[string]bool{}, metrics: map[string]map[string]bool{}}

	// The metrics that config-metrics.yaml makes, with their labels.
	var config struct {
		Connectors map[string]struct {
			Namespace  string
			Dimensions []struct{ Name string }
			Histogram  struct{ Disable bool }
		}
	}
	raw, err := os.ReadFile("config-metrics.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &config))
	histogram := func(name string, labels map[string]bool) {
		n.metrics[name] = labels
		n.metrics[name+"_sum"], n.metrics[name+"_count"] = labels, labels
		with := maps.Clone(labels)
		with["le"] = true
		n.metrics[name+"_bucket"] = with
	}
	for connector, c := range config.Connectors {
		if c.Namespace == "" {
			continue
		}
		labels := map[string]bool{"service_name": true, "otel_metric_overflow": true, "job": true, "instance": true}
		for _, d := range c.Dimensions {
			if !ownDimensions[d.Name] {
				assert.Contains(t, n.attributes, d.Name, "config-metrics.yaml")
			}
			labels[strings.ReplaceAll(d.Name, ".", "_")] = true
		}
		n.otel[c.Namespace] = true
		name := strings.ReplaceAll(c.Namespace, ".", "_")
		switch {
		case strings.HasPrefix(c.Namespace, "llm.wasted_"):
			n.metrics[name+"_total"] = labels
		case c.Histogram.Disable:
			n.otel[c.Namespace+".calls"] = true
			n.metrics[name+"_calls_total"] = labels
		case strings.HasSuffix(connector, "_durations"):
			n.otel[c.Namespace+".duration"] = true
			histogram(name+"_duration_seconds", labels)
		case c.Dimensions != nil:
			histogram(name+"_seconds", labels)
		default:
			n.metrics[name+"_total"] = labels
		}
	}
	require.Contains(t, n.metrics, "llm_run_calls_total")

	// The metrics that the rules record.
	records, _ := readRules(t)
	for _, rule := range records {
		n.metrics[rule.Record] = nil
	}

	// llm_classify's own metrics.
	raw, err = os.ReadFile("../../processor/llmclassify/documentation.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`(?m)^### (otelcol_processor_llm_classify_[a-z_]+)$`).FindAllStringSubmatch(string(raw), -1) {
		n.metrics[name[1]], n.metrics[name[1]+"_bucket"] = nil, nil
	}
	require.Contains(t, n.metrics, "otelcol_processor_llm_classify_spans_in")
	return n
}

// The labels are closed: config-metrics.yaml lists each value of an enum that is a label, and nothing else. Otherwise a
// verdict of this version would be counted as `other`, or a value that a producer made up under its own name.
func TestLabelsAreClosed(t *testing.T) {
	v := readVocabulary(t)
	var config struct {
		Connectors map[string]struct{ Dimensions []struct{ Name string } }
		Processors struct {
			Labels struct {
				TraceStatements []struct{ Statements []string } `yaml:"trace_statements"`
			} `yaml:"transform/labels"`
		}
	}
	raw, err := os.ReadFile("config-metrics.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &config))
	var kept string
	named, closed := map[string]bool{}, map[string][]string{}
	for _, group := range config.Processors.Labels.TraceStatements {
		for _, s := range group.Statements {
			s = strings.Join(strings.Fields(s), " ")
			if strings.HasPrefix(s, "keep_keys(span.attributes") {
				kept = s
			}
			if m := regexp.MustCompile(`^set\(span\.attributes\["([a-z_.]+)"\], "other"\) where span\.attributes\["([a-z_.]+)"\] != nil and not IsString\(span\.attributes\["([a-z_.]+)"\]\)$`).FindStringSubmatch(s); m != nil {
				require.Equal(t, []string{m[1], m[1]}, m[2:], s)
				named[m[1]] = true
			}
			if m := regexp.MustCompile(`^set\(span\.attributes\["([a-z_.]+)"\], "other"\) where span\.attributes\["([a-z_.]+)"\] != nil and not IsMatch\(span\.attributes\["([a-z_.]+)"\], "\^\(([a-z0-9_|]+)\)\$"\)$`).FindStringSubmatch(s); m != nil {
				require.Equal(t, []string{m[1], m[1]}, m[2:4], s)
				closed[m[1]] = strings.Split(m[4], "|")
			}
		}
	}
	require.NotEmpty(t, closed)
	for name, c := range config.Connectors {
		for _, d := range c.Dimensions {
			if ownDimensions[d.Name] {
				assert.NotContains(t, kept, `"`+d.Name+`"`, "%s: a producer's value would be a label", name)
				continue
			}
			assert.Contains(t, kept, `"`+d.Name+`"`, "%s: keep_keys removes it", name)
			if values := v.attributes[d.Name].values; values != nil {
				assert.Equal(t, values, closed[d.Name], "transform/labels in config-metrics.yaml: ^(%s)$ of %s", strings.Join(values, "|"), d.Name)
			} else {
				assert.True(t, named[d.Name], "transform/labels in config-metrics.yaml does not check that %s is a string", d.Name)
			}
		}
	}
}
