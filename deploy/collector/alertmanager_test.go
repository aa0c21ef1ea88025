package collector

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type inhibitRule struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string
}

var alertMatcher = regexp.MustCompile(`^([a-z_]+)(=~?)"([^"]*)"$`)

// matches does as Alertmanager does: a regular expression is of the whole value.
func matches(t *testing.T, matchers []string, labels map[string]string) bool {
	t.Helper()
	for _, text := range matchers {
		m := alertMatcher.FindStringSubmatch(text)
		require.NotNil(t, m, text)
		pattern := m[3]
		if m[2] == "=" {
			pattern = regexp.QuoteMeta(pattern)
		}
		if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(labels[m[1]]) {
			return false
		}
	}
	return true
}

func (r inhibitRule) inhibits(t *testing.T, source, target map[string]string) bool {
	t.Helper()
	for _, label := range r.Equal {
		if source[label] != target[label] {
			return false
		}
	}
	return matches(t, r.Source, source) && matches(t, r.Target, target)
}

// Of the alerts that one outage sets off, Alertmanager sends one; it sends what is of another provider or service, and
// what is no consequence of the outage.
func TestOneNotificationForAnIncident(t *testing.T) {
	const file = "prometheus/alertmanager.yaml"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var config struct {
		Rules []inhibitRule `yaml:"inhibit_rules"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	names := map[string]bool{}
	_, alerts := readRules(t)
	for _, rule := range alerts {
		names[rule.Alert] = true
	}
	for _, r := range config.Rules {
		for _, text := range append(r.Source, r.Target...) {
			if m := alertMatcher.FindStringSubmatch(text); m[1] == "alertname" {
				for name := range strings.SplitSeq(m[3], "|") {
					assert.True(t, names[name], "%s: no alert %s", file, name)
				}
			}
		}
	}

	alert := func(name, whose, provider, service string) map[string]string {
		return map[string]string{"alertname": name, "whose": whose, "gen_ai_provider_name": provider, "service_name": service}
	}
	sent := func(incident map[string]string, others ...map[string]string) (names []string) {
		for _, other := range append(others, incident) {
			inhibited := false
			for _, r := range config.Rules {
				inhibited = inhibited || r.inhibits(t, incident, other)
			}
			if !inhibited {
				names = append(names, other["alertname"]+" "+other["gen_ai_provider_name"]+other["service_name"])
			}
		}
		return names
	}
	// The alerts of a minute in which openai fails, with some that have nothing to do with it.
	others := []map[string]string{
		alert("LLMProviderErrors", "", "openai", ""), alert("LLMStreamsInterrupted", "", "openai", ""), alert("LLMWatchdogsFire", "", "openai", ""),
		alert("LLMRunsFail", "", "", "a"), alert("LLMRunsFail", "", "", "b"), alert("LLMRunsUnsafeToRetry", "", "", "a"), alert("LLMRunsOnlyJustRecover", "", "", "a"),
		alert("LLMProviderErrors", "", "anthropic", ""), alert("LLMToolOutputLost", "", "", "a"), alert("LLMRunsAbandoned", "", "", "a"), alert("LLMClassifierDown", "", "", ""),
	}
	unrelated := []string{"LLMProviderErrors anthropic", "LLMToolOutputLost a", "LLMRunsAbandoned a", "LLMClassifierDown "}
	for _, whose := range []string{"them", "unclear"} {
		assert.Equal(t, append(unrelated[:4:4], "LLMIncident openai"), sent(alert("LLMIncident", whose, "openai", ""), others...), whose)
	}
	assert.Equal(t, append(unrelated[1:4:4], "LLMIncident "), sent(alert("LLMIncident", "network", "", ""), others...))
	assert.Equal(t, []string{
		"LLMProviderErrors openai", "LLMStreamsInterrupted openai", "LLMWatchdogsFire openai", "LLMRunsFail b",
		"LLMProviderErrors anthropic", "LLMToolOutputLost a", "LLMRunsAbandoned a", "LLMClassifierDown ", "LLMIncident a",
	}, sent(alert("LLMIncident", "us", "", "a"), others...))

	t.Run("amtool", func(t *testing.T) {
		amtool, err := exec.LookPath("amtool")
		if err != nil {
			t.Skip("LEFT OUT: no amtool, which Debian has in prometheus-alertmanager")
		}
		out, err := exec.CommandContext(t.Context(), amtool, "check-config", file).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
}
