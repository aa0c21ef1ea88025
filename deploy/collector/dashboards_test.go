package collector

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type dashboard struct {
	Title      string
	Templating struct {
		List []struct {
			Type, Name string
			Query      any
		}
	}
	Annotations struct{ List []struct{ Expr string } }
	Panels      []panel
}

// Where docs/operate/alerts.md quotes a title, a panel has it, and what it emphasizes as *LLM …* is a dashboard.
func TestRunbooksNamePanels(t *testing.T) {
	panels, titles := map[string]bool{}, map[string]bool{}
	for _, d := range readDashboards(t) {
		titles[d.Title] = true
		for _, p := range d.Panels {
			panels[p.Title] = true
		}
	}
	page, err := os.ReadFile("../../docs/operate/alerts.md")
	require.NoError(t, err)
	text := regexp.MustCompile("`[^`]*`").ReplaceAllString(string(page), "")
	quoted := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, quoted)
	for _, m := range quoted {
		assert.True(t, panels[m[1]], "docs/operate/alerts.md: no panel %q", m[1])
	}
	named := regexp.MustCompile(`\*(LLM [^*]+)\*`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		assert.True(t, titles[m[1]], "docs/operate/alerts.md: no dashboard %q", m[1])
	}
}

type panel struct {
	Title, Type string
	Targets     []struct{ Expr, Query, LegendFormat, RefID string }
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	require.NoError(t, err)
	dashboards := map[string]dashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(raw, &d), file)
		dashboards[filepath.Base(file)] = d
	}
	require.Len(t, dashboards, 3)
	return dashboards
}

// fill replaces the variables of a query: one of the ranges by range, and what is chosen at the top by chosen, or by all.
func (d *dashboard) fill(expr, over string, chosen map[string]string) string {
	variables := []string{"$__rate_interval", "1m", "$__interval", "30s", "$__range", over}
	for _, v := range d.Templating.List {
		value := ".*"
		if text, ok := v.Query.(string); ok && v.Type == "custom" {
			value, _, _ = strings.Cut(text, ",")
		}
		if c, ok := chosen[v.Name]; ok {
			value = c
		}
		variables = append(variables, "$"+v.Name, value)
	}
	return strings.NewReplacer(variables...).Replace(expr)
}

// Every query of every dashboard is PromQL, according to promtool.
func TestEveryQueryParses(t *testing.T) {
	promtool := promBinary(t, "promtool")
	var rules []map[string]string
	for _, d := range readDashboards(t) {
		exprs := []string{}
		for _, a := range d.Annotations.List {
			exprs = append(exprs, a.Expr)
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				exprs = append(exprs, target.Expr)
			}
		}
		for _, expr := range exprs {
			if expr = d.fill(expr, "1h", nil); expr != "" {
				assert.NotContains(t, expr, "$")
				rules = append(rules, map[string]string{"record": "query:" + strconv.Itoa(len(rules)), "expr": expr})
			}
		}
	}
	require.Greater(t, len(rules), 80)
	raw, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(file, raw, 0o600)) // JSON is YAML
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// lastDay is the recorded share of the day that ended an hour ago.
const lastDay = "target:llm_requests_failed:ratio1d"

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

// everyPanelHasData runs the query of each panel, and of each variable at the top, in Prometheus, with all
// values selected.
func everyPanelHasData(t *testing.T, p *prometheus) {
	for name, d := range readDashboards(t) {
		fill := func(expr string) string { return d.fill(expr, "5m", nil) }
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			query := labelValues.FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
			require.NotNil(t, query, "%s: $%s", name, v.Name)
			t.Run(name+"/$"+v.Name, func(t *testing.T) {
				eventually(t, func(t *assert.CollectT) {
					assert.NotEmpty(t, p.query(t, "count by ("+query[2]+") ("+fill(query[1])+")"))
				})
			})
		}
		var queries int
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if target.Expr == "" || heldElsewhere[name+"/"+panel.Title] == needsProvider { // for Tempo, or for one provider
					continue
				}
				if strings.HasPrefix(target.Expr, lastDay) { // began with the demo
					continue
				}
				queries++
				t.Run(name+"/"+panel.Title, func(t *testing.T) {
					expr := fill(target.Expr)
					require.NotContains(t, expr, "$")
					eventually(t, func(t *assert.CollectT) {
						samples := p.query(t, expr)
						assert.NotEmpty(t, samples, expr)
						for _, s := range samples {
							assert.False(t, math.IsNaN(s.value), "%s: %v", expr, s.labels)
						}
					})
				})
			}
		}
		assert.GreaterOrEqual(t, queries, 10, name)
	}
}
