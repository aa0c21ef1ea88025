package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFresh(t *testing.T) {
	sources, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	made, err := filepath.Glob("*.json")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	assert.Len(t, made, len(sources))
	for _, name := range sources {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		want, err := build(raw)
		require.NoError(t, err, name)
		got, err := os.ReadFile(strings.TrimSuffix(name, ".yaml") + ".json")
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "stale: run `go run ./grafana` in deploy/collector")
	}
}

func TestBadSources(t *testing.T) {
	panel := func(p string) string {
		return "uid: u\ntitle: t\nrows:\n- title: r\n  panels:\n  - {title: p, " + p + "}"
	}
	for _, tt := range []struct{ name, source, want string }{
		{"no rows", "uid: u\ntitle: t", "needs uid, title and rows"},
		{"unknown key", "uid: u\ntitle: t\ncolour: red", "colour"},
		{"unknown kind", panel("kind: pie, width: 4, queries: [{expr: up}]"), `panel "p" of row "r": there is no kind "pie"`},
		{"too wide", panel("kind: stat, width: 25, queries: [{expr: up}]"), "width 25"},
		{"no queries", panel("kind: stat, width: 4"), "no queries"},
		{"matrix of nothing", panel("kind: matrix, width: 4, queries: [{expr: up}]"), "matrix"},
		{"TraceQL for Prometheus", panel("kind: stat, width: 4, queries: [{traceql: '{}'}]"), "traceql"},
		{"PromQL for Tempo", panel("kind: traces, width: 4, columns: [{of: x, title: X}], queries: [{expr: up}]"), "traceql"},
		{"table without columns", panel("kind: table, width: 4, queries: [{expr: up}]"), "columns are required"},
		{"unknown colors", panel("kind: stat, width: 4, colors: pretty, queries: [{expr: up}]"), `no colors "pretty"`},
		{"unknown scale", panel("kind: table, width: 4, columns: [{of: x, title: X, scale: big}], queries: [{expr: up}]"), `no scale "big"`},
		{"unknown word", panel("kind: stat, width: 4, queries: [{expr: 'sum(@runs)'}]"), "no word @runs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := build([]byte(tt.source))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// TestLayout checks that panels do not overlap and do not reach beyond the edge.
func TestLayout(t *testing.T) {
	b := builder{}
	widths := []int{12, 12, 8, 8, 8, 20, 6, 24, 1}
	for _, height := range []int{3, 8} {
		var r row
		for i, w := range widths {
			r.Panels = append(r.Panels, panel{Kind: "stat", Width: w, Height: height + i%3})
		}
		b.row(r)
	}
	taken := map[[2]int]bool{}
	for _, p := range b.panels {
		g := p["gridPos"].(object)
		x, y, w, h := g["x"].(int), g["y"].(int), g["w"].(int), g["h"].(int)
		assert.LessOrEqual(t, x+w, columns)
		for i := range w {
			for j := range h {
				at := [2]int{x + i, y + j}
				assert.False(t, taken[at], "panel %v overlaps another at %v", p["id"], at)
				taken[at] = true
			}
		}
	}
}

// TestBarsKeepTheirColors checks that the name at a bar is set after its color: Grafana finds the override of a color by the
// name that the series has until then.
func TestBarsKeepTheirColors(t *testing.T) {
	p := panel{Kind: "bars", Colors: "classes", Name: "{{cause}}", Queries: []query{{Expr: "up", Legend: "{{class}}"}}}
	config := p.fieldConfig()
	assert.NotContains(t, config["defaults"], "displayName")
	overrides := config["overrides"].([]object)
	require.Len(t, overrides, len(palettes["classes"])+1)
	last := overrides[len(overrides)-1]["properties"].([]object)[0]
	assert.Equal(t, object{"id": "displayName", "value": "${__field.labels.cause}"}, last)
}

// TestTracesShowTheirColumns checks that what a search only compares is no column, and that it asks for the newest.
func TestTracesShowTheirColumns(t *testing.T) {
	p := panel{
		Kind: "traces", Columns: []column{{Of: "llm.run.outcome", Title: "Outcome"}},
		Queries: []query{{TraceQL: `{ span.llm.run.outcome = "failed" && span.gen_ai.operation.name = "chat" && resource.service.name = "x" }`}},
	}
	exclude := p.transformations()[0]["options"].(object)["excludeByName"].(object)
	assert.Contains(t, exclude, "gen_ai.operation.name")
	assert.Contains(t, exclude, "service.name")
	assert.NotContains(t, exclude, "llm.run.outcome")
	assert.Contains(t, p.targets(tempoSource)[0]["query"], "with (most_recent=true)")
}

// TestFailedIsDefinedOnce checks that no dashboard names the classes of failed requests itself.
func TestFailedIsDefinedOnce(t *testing.T) {
	sources, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	for _, name := range sources {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "connection_failed|", "use @failed_class or @interrupted")
	}
}
