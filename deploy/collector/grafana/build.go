package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

type object = map[string]any

// The user selects the data sources at the top of a dashboard, so that it can be imported
// anywhere.
var (
	promSource  = object{"type": "prometheus", "uid": "${prometheus}"}
	tempoSource = object{"type": "tempo", "uid": "${tempo}"}
)

// kinds maps each supported kind of panel to Grafana's type, options and field options.
var kinds = map[string]struct {
	typ     string
	options object
	custom  func(*panel) object
}{
	"stat": {
		typ: "stat",
		options: object{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "wideLayout": true,
			"showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "values": false},
		},
	},
	"timeseries": {
		typ: "timeseries",
		options: object{
			"legend":  object{"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		},
		custom: func(p *panel) object {
			custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
			if p.Stack {
				custom["fillOpacity"] = 50
				custom["stacking"] = object{"mode": "normal", "group": "A"}
			}
			return custom
		},
	},
	"bars": {
		typ: "bargauge",
		options: object{
			"displayMode": "basic", "valueMode": "color", "namePlacement": "auto", "showUnfilled": false, "sizing": "auto",
			"minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 40, "orientation": "horizontal",
			"legend":        object{"showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "values": false},
		},
	},
	"matrix": {
		typ:     "table",
		options: object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "showTypeIcons": false},
		custom: func(*panel) object {
			return object{"align": "auto", "inspect": false, "cellOptions": object{"type": "color-background", "mode": "gradient"}}
		},
	},
	"heatmap": {
		typ: "heatmap",
		options: object{
			"calculate": false, "cellGap": 1,
			"color": object{
				"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "fill": "dark-orange",
				"steps": 64, "reverse": false,
			},
			"cellValues": object{"unit": "short"}, "filterValues": object{"le": 1e-9}, "rowsFrame": object{"layout": "auto"},
			"yAxis": object{"axisPlacement": "left", "unit": "s"}, "legend": object{"show": true},
			"tooltip": object{"mode": "single", "yHistogram": false, "showColorScale": false}, "exemplars": object{"color": "blue"},
			"showValue": "never",
		},
	},
	"traces": {
		typ:     "table",
		options: object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "showTypeIcons": false},
		custom: func(*panel) object {
			return object{"align": "auto", "inspect": false, "cellOptions": object{"type": "auto"}}
		},
	},
}

// build converts a source to Grafana's JSON.
func build(raw []byte) ([]byte, error) {
	s, err := parse(raw)
	if err != nil {
		return nil, err
	}
	b := builder{}
	for _, r := range s.Rows {
		b.row(r)
	}
	variables := []object{chooser("prometheus", "Prometheus")}
	if b.tempo {
		variables = append(variables, chooser("tempo", "Tempo"))
	}
	for _, v := range s.Variables {
		variables = append(variables, object{
			"type": "query", "name": v.Name, "label": v.Label, "datasource": promSource,
			"query":   object{"query": v.Query, "refId": v.Name},
			"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"selected": true, "text": "All", "value": "$__all"},
		})
	}
	dashboard := object{
		"uid": s.UID, "title": s.Title, "description": s.Description, "tags": s.Tags, "schemaVersion": 41, "version": 1,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":        object{"from": "now-1h", "to": "now"},
		"templating":  object{"list": variables},
		"annotations": object{"list": []any{}},
		"panels":      b.panels,
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(dashboard); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func chooser(typ, label string) object {
	return object{"type": "datasource", "name": typ, "label": label, "query": typ}
}

// builder lays the panels out from left to right and from top to bottom.
type builder struct {
	panels []object
	tempo  bool
	x, y   int
	below  int // the y position of the next line of panels
}

func (b *builder) row(r row) {
	b.x, b.y = 0, b.below
	b.panels = append(b.panels, object{
		"id": len(b.panels) + 1, "type": "row", "title": r.Title, "collapsed": false, "panels": []any{},
		"gridPos": object{"x": 0, "y": b.y, "w": columns, "h": 1},
	})
	b.y++
	b.below = b.y
	for i := range r.Panels {
		b.panel(&r.Panels[i])
	}
}

func (b *builder) panel(p *panel) {
	if b.x+p.Width > columns {
		b.x, b.y = 0, b.below
	}
	kind := kinds[p.Kind]
	source := promSource
	if p.Kind == "traces" {
		source, b.tempo = tempoSource, true
	}
	made := object{
		"id": len(b.panels) + 1, "type": kind.typ, "title": p.Title, "datasource": source,
		"gridPos": object{"x": b.x, "y": b.y, "w": p.Width, "h": p.Height},
		"options": kind.options, "fieldConfig": p.fieldConfig(), "targets": p.targets(source),
	}
	if p.Help != "" {
		made["description"] = p.Help
	}
	if p.Matrix != nil {
		made["transformations"] = []object{{"id": "groupingToMatrix", "options": object{
			"rowField": p.Matrix.Row, "columnField": p.Matrix.Column, "valueField": "Value", "emptyValue": "zero",
		}}}
	}
	b.panels = append(b.panels, made)
	b.x += p.Width
	b.below = max(b.below, b.y+p.Height)
}

func (p *panel) targets(source object) []object {
	var targets []object
	for i, q := range p.Queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source}
		switch {
		case q.TraceQL != "":
			target["queryType"], target["query"], target["limit"], target["tableType"] = "traceql", q.TraceQL, 20, "traces"
			target["filters"] = []any{}
		default:
			target["expr"], target["editorMode"], target["exemplar"] = q.Expr, "code", p.Exemplars
			now := p.Kind == "stat" || p.Kind == "bars" || p.Kind == "matrix"
			target["instant"], target["range"] = now, !now
			target["format"] = cmp.Or(map[string]string{"matrix": "table", "heatmap": "heatmap"}[p.Kind], "time_series")
			if q.Legend != "" {
				target["legendFormat"] = q.Legend
			}
		}
		targets = append(targets, target)
	}
	return targets
}

func (p *panel) fieldConfig() object {
	defaults := object{}
	if p.Kind != "traces" {
		defaults["min"] = 0
	}
	if p.Unit != "" {
		defaults["unit"] = p.Unit
	}
	if p.Decimals != nil {
		defaults["decimals"] = *p.Decimals
	}
	if p.Max != nil {
		defaults["max"] = *p.Max
	}
	if kind := kinds[p.Kind]; kind.custom != nil {
		defaults["custom"] = kind.custom(p)
	}
	switch {
	case p.Thresholds != nil:
		defaults["color"] = object{"mode": "thresholds"}
		defaults["thresholds"] = object{"mode": "absolute", "steps": p.steps()}
	case p.Kind == "matrix":
		defaults["color"] = object{"mode": "continuous-YlRd"}
	case p.Kind != "traces":
		defaults["color"] = object{"mode": "palette-classic"}
	}
	overrides := []object{}
	if p.Matrix != nil {
		// The first column holds names, which have no color.
		overrides = append(overrides, object{
			"matcher":    object{"id": "byName", "options": p.Matrix.Row + `\` + p.Matrix.Column},
			"properties": []object{{"id": "custom.cellOptions", "value": object{"type": "auto"}}},
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Colors)) {
		overrides = append(overrides, object{
			"matcher":    object{"id": "byName", "options": name},
			"properties": []object{{"id": "color", "value": object{"mode": "fixed", "fixedColor": p.Colors[name]}}},
		})
	}
	return object{"defaults": defaults, "overrides": overrides}
}

// steps returns the thresholds from the lowest up. The first has no bound.
func (p *panel) steps() []object {
	colors := slices.SortedFunc(maps.Keys(p.Thresholds), func(a, b string) int {
		return cmp.Compare(p.Thresholds[a], p.Thresholds[b])
	})
	var steps []object
	for i, color := range colors {
		step := object{"color": color, "value": p.Thresholds[color]}
		if i == 0 {
			step["value"] = nil
		}
		steps = append(steps, step)
	}
	return steps
}
