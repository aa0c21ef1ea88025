package collector

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type dashboard struct {
	Templating struct {
		List []struct {
			Type, Name string
			Query      any
		}
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr, Query string }
	}
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
	require.Len(t, dashboards, 2)
	return dashboards
}

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

// everyPanelHasData runs the query of each panel, and of each variable at the top, in Prometheus, with all
// values selected.
func everyPanelHasData(t *testing.T, p *prometheus) {
	for name, d := range readDashboards(t) {
		variables := []string{"$__rate_interval", "1m", "$__range", "5m"}
		for _, v := range d.Templating.List {
			variables = append(variables, "$"+v.Name, ".*")
		}
		fill := strings.NewReplacer(variables...)
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			query := labelValues.FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
			require.NotNil(t, query, "%s: $%s", name, v.Name)
			t.Run(name+"/$"+v.Name, func(t *testing.T) {
				eventually(t, func(t *assert.CollectT) {
					assert.NotEmpty(t, p.query(t, "count by ("+query[2]+") ("+fill.Replace(query[1])+")"))
				})
			})
		}
		var queries int
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if target.Expr == "" { // for Tempo
					continue
				}
				queries++
				t.Run(name+"/"+panel.Title, func(t *testing.T) {
					expr := fill.Replace(target.Expr)
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
		assert.Greater(t, queries, 15, name)
	}
}
