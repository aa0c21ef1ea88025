package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

type object = map[string]any

// The user selects the data sources at the top of a dashboard, so that it can be imported
// anywhere.
var (
	promSource  = object{"type": "prometheus", "uid": "${prometheus}"}
	tempoSource = object{"type": "tempo", "uid": "${tempo}"}
)

// palettes are the colours of enums: what is the same has the same colour on all panels.
var palettes = map[string]map[string]string{
	"outcomes": {
		"succeeded": green, "recovered": amber, "limited": "blue", "waiting": "light-blue", "failed": red,
		"aborted": "purple", "incomplete": "orange",
	},
	// Reds for the transport, oranges for the provider, blues for the application and its tools, greys for what is no
	// failure or not known.
	"classes": {
		"connection_failed": "light-red", "stream_interrupted": "red", "watchdog_timeout": "dark-red",
		"provider_error": "orange", "protocol_violation": "dark-orange", "empty_completion": "light-orange",
		"output_limited": "light-yellow", "history_broken": "light-blue", "tool_failed": "blue", "tool_output_lost": "dark-blue",
		"application_error": "purple", "run_abandoned": "dark-purple", "local_abort": "gray", "unclassified": "light-purple",
	},
	"origins": {
		"transport": "red", "watchdog": "dark-red", "provider": "orange", "gateway": "dark-orange", "tool": "blue",
		"application": "purple", "local": "gray", "caller_timer": "light-blue", "unknown": "light-purple",
	},
	"safety": {"safe_auto_retry": green, "user_confirmed_retry": amber, "no_retry": red},
	"series": {"lost": "red", "refused": "orange", "failed": "red", "queue full": "orange", "to be sent again": "blue"},
}

// Text in these colours can be read on a white panel and on a dark one.
const green, amber, red = "#2F8A4A", "#A87200", "#E02F44"

// scales are the colours of shares. They are fixed, so that the same share has the same colour on all panels. Grafana
// writes dark figures on the pale colours, and white ones on the dark red.
var scales = map[string]map[string]float64{
	// Of what failed. From a fifth on it is an incident.
	"failed": {"transparent": 0, "rgba(224, 47, 68, 0.1)": 0.05, "rgba(224, 47, 68, 0.25)": 0.1, "#B3122B": 0.2},
	// Of the parts of a whole, which are neither good nor bad.
	"parts": {"transparent": 0, "rgba(50, 116, 217, 0.1)": 0.02, "rgba(50, 116, 217, 0.2)": 0.1, "rgba(50, 116, 217, 0.29)": 0.25},
}

// shades are the colours of series whose names are not known, by what they show. All others have Grafana's palette.
var shades = map[string]string{"failing": "semi-dark-blue", "trouble": "orange"}

// failing are the colours of failed shares over time, by series: red from a tenth on and otherwise shades of blue, since
// the colours of Grafana's palettes would make a series that is well red, and one that fails green.
func failing() []object {
	return []object{{
		"matcher":    object{"id": "byValue", "options": object{"reducer": "lastNotNull", "op": "gte", "value": 0.1}},
		"properties": []object{{"id": "color", "value": object{"mode": "shades", "fixedColor": "red"}}},
	}}
}

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
			// A graph of zeros has an axis that says so.
			switch {
			case p.Max != nil:
				custom["axisSoftMax"] = *p.Max
			case p.Unit == "percentunit":
				custom["axisSoftMax"] = 0.1
			case p.Unit == "none":
				custom["axisSoftMax"] = 1
			}
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
			"displayMode": "basic", "valueMode": "color", "namePlacement": "auto", "showUnfilled": false, "sizing": "manual",
			"minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 32, "orientation": "horizontal",
			"legend":        object{"showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "values": false},
		},
	},
	"matrix": {
		typ:     "table",
		options: object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "showTypeIcons": false},
		custom: func(*panel) object {
			return object{
				"align": "auto", "inspect": false, "wrapHeaderText": true, "minWidth": 60,
				"cellOptions": object{"type": "color-background", "mode": "basic"},
			}
		},
	},
	"table": {
		typ:     "table",
		options: object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "showTypeIcons": false},
		custom:  wrapped,
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
		custom:  wrapped,
	},
}

// wrapped are the cells of a table whose texts are shown whole, on several lines where the column is narrow.
func wrapped(*panel) object {
	return object{
		"align": "auto", "inspect": false, "wrapText": true, "wrapHeaderText": true, "minWidth": 60,
		"cellOptions": object{"type": "auto"},
	}
}

// label is a label's name in a legend.
var label = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)

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
		variables = append(variables, v.object())
	}
	dashboard := object{
		"uid": s.UID, "title": s.Title, "description": s.Description, "tags": s.Tags, "schemaVersion": 41, "version": 1,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":       object{"from": "now-1h", "to": "now"},
		"templating": object{"list": variables},
		"annotations": object{"list": []object{{
			"name": "Alerts", "datasource": promSource, "enable": true, "hide": false, "iconColor": "red",
			"expr": s.began(), "step": "30s", "titleFormat": "{{alertname}}", "tagKeys": "severity",
			"textFormat": "{{whose}} {{service_name}} {{gen_ai_provider_name}} {{gen_ai_request_model}} {{server_address}} {{instance}}",
		}}},
		// To the other dashboards, with the same time and the same selection.
		"links": []object{{
			"type": "dashboards", "title": "LLM", "tags": s.Tags, "asDropdown": false, "icon": "external link", "includeVars": true,
			"keepTime": true, "targetBlank": false, "tooltip": "", "url": "",
		}},
		"panels": b.panels,
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

// began selects the alerts that began to fire since the point before, so that each is one line.
func (s *source) began() string {
	alerts := fmt.Sprintf("ALERTS{alertstate=\"firing\", severity!=\"info\", alertname=~%q}", s.Alerts)
	return alerts + " unless " + alerts + " offset $__interval"
}

func (v *variable) object() object {
	if v.Values != nil {
		var options []object
		for i, value := range v.Values {
			options = append(options, object{"text": value, "value": value, "selected": i == 0})
		}
		return object{
			"type": "custom", "name": v.Name, "label": v.Label, "query": strings.Join(v.Values, ","), "options": options,
			"multi": false, "includeAll": false, "current": options[0],
		}
	}
	return object{
		"type": "query", "name": v.Name, "label": v.Label, "datasource": promSource,
		"query":   object{"query": v.Query, "refId": v.Name},
		"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
		"current": object{"selected": true, "text": "All", "value": "$__all"},
	}
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
	if t := p.transformations(); t != nil {
		made["transformations"] = t
	}
	if p.Sort != "" {
		made["options"] = with(kind.options, "sortBy", []object{{"displayName": p.Sort, "desc": true}})
	}
	if p.Last {
		made["options"] = with(kind.options, "legend", object{
			"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []string{"lastNotNull"},
		})
	}
	b.panels = append(b.panels, made)
	b.x += p.Width
	b.below = max(b.below, b.y+p.Height)
}

// transformations makes a table of what the queries return.
func (p *panel) transformations() []object {
	if p.Matrix != nil {
		made := []object{{"id": "groupingToMatrix", "options": object{
			"rowField": p.Matrix.Row, "columnField": p.Matrix.Column, "valueField": "Value", "emptyValue": "null",
		}}}
		if len(p.Matrix.Order) > 0 {
			order := object{p.Matrix.corner(): 0}
			for i, name := range p.Matrix.Order {
				order[name] = i + 1
			}
			made = append(made, organize(order, object{}, object{}))
		}
		return made
	}
	if len(p.Columns) == 0 {
		return nil
	}
	order, names, exclude := object{}, object{}, object{}
	shown := []string{}
	for i, c := range p.Columns {
		order[c.Of], names[c.Of] = i, c.Title
		shown = append(shown, c.Of)
	}
	if p.Kind == "traces" {
		// The link to the trace needs columns that are not shown, so these stay. Tempo's own names of spans go, and the
		// attributes that the query only compares.
		for _, name := range append([]string{"Trace Name", "Trace Service", "Name", "Duration"}, attributesOf(p.Queries[0].TraceQL)...) {
			if order[name] == nil {
				exclude[name] = true
			}
		}
		return []object{organize(order, names, exclude)}
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "filterFieldsByName", "options": object{"include": object{"names": shown}}},
		organize(order, names, exclude),
	}
}

var attribute = regexp.MustCompile(`\b(?:span|resource)\.([a-z_.]+)`)

// attributesOf returns the attributes that a query names, which Tempo returns with each span.
func attributesOf(traceQL string) (names []string) {
	for _, match := range attribute.FindAllStringSubmatch(traceQL, -1) {
		names = append(names, match[1])
	}
	return names
}

// corner is the name that Grafana gives the first column of a matrix.
func (m *matrix) corner() string { return m.Row + `\` + m.Column }

func organize(order, names, exclude object) object {
	return object{"id": "organize", "options": object{"excludeByName": exclude, "indexByName": order, "renameByName": names}}
}

func with(o object, key string, value any) object {
	o = maps.Clone(o)
	o[key] = value
	return o
}

func links(list []link) []object {
	var made []object
	for _, l := range list {
		made = append(made, object{"title": l.Title, "url": l.URL, "targetBlank": false})
	}
	return made
}

func (p *panel) targets(source object) []object {
	var targets []object
	for i, q := range p.Queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source}
		switch {
		case q.TraceQL != "":
			// Without the hint a search returns the first spans that it finds, and not the newest.
			target["queryType"], target["query"] = "traceql", q.TraceQL+" with (most_recent=true)"
			target["limit"], target["tableType"] = 20, "spans"
			target["filters"] = []any{}
		default:
			target["expr"], target["editorMode"], target["exemplar"] = q.Expr, "code", p.Exemplars
			now := p.Kind == "stat" || p.Kind == "bars" || p.Kind == "matrix" || p.Kind == "table"
			target["instant"], target["range"] = now, !now
			target["format"] = cmp.Or(map[string]string{"matrix": "table", "table": "table", "heatmap": "heatmap"}[p.Kind], "time_series")
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
	if p.Kind != "traces" && p.Kind != "table" {
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
	if p.None != "" {
		defaults["noValue"] = p.None
	}
	if kind := kinds[p.Kind]; kind.custom != nil {
		defaults["custom"] = kind.custom(p)
	}
	thresholds := p.Thresholds
	if p.Matrix != nil {
		thresholds = scales[cmp.Or(p.Matrix.Scale, "failed")]
	}
	switch {
	case thresholds != nil:
		defaults["color"] = object{"mode": "thresholds"}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps(thresholds)}
	case p.Kind == "stat":
		defaults["color"] = object{"mode": "fixed", "fixedColor": "text"} // neither good nor bad
	case p.Kind == "bars":
		defaults["color"] = object{"mode": "fixed", "fixedColor": "semi-dark-blue"}
	case shades[p.Colors] != "":
		defaults["color"] = object{"mode": "shades", "fixedColor": shades[p.Colors]}
	case p.Kind != "traces" && p.Kind != "table":
		defaults["color"] = object{"mode": "palette-classic"}
	}
	if len(p.Links) > 0 {
		defaults["links"] = links(p.Links) // on each value
	}
	overrides := []object{}
	if p.Matrix != nil {
		// The first column holds names, which have no color.
		overrides = append(overrides, override(p.Matrix.corner(),
			"custom.cellOptions", object{"type": "auto"}, "custom.width", cmp.Or(p.Matrix.Width, 170), "displayName", p.Matrix.Title))
	}
	if p.Colors == "failing" {
		overrides = append(overrides, failing()...)
	}
	palette := palettes[p.Colors]
	for _, name := range slices.Sorted(maps.Keys(palette)) {
		overrides = append(overrides, override(name, "color", object{"mode": "fixed", "fixedColor": palette[name]}))
	}
	for i := range p.Columns {
		if c := p.Columns[i].override(); c != nil {
			overrides = append(overrides, c)
		}
	}
	if p.Kind == "bars" {
		// Grafana leaves the name out where there is one series only. This is the last override, since those of the colours
		// are found by the name as it was.
		name := label.ReplaceAllString(cmp.Or(p.Name, p.Queries[0].Legend), "${__field.labels.$1}")
		overrides = append(overrides, object{
			"matcher": object{"id": "byType", "options": "number"}, "properties": []object{{"id": "displayName", "value": name}},
		})
	}
	return object{"defaults": defaults, "overrides": overrides}
}

// override changes the properties of one field; they are given as pairs of their name and value.
func override(field string, pairs ...any) object {
	properties := []object{}
	for i := 0; i < len(pairs); i += 2 {
		properties = append(properties, object{"id": pairs[i], "value": pairs[i+1]})
	}
	return object{"matcher": object{"id": "byName", "options": field}, "properties": properties}
}

func (c *column) override() object {
	var pairs []any
	if c.Unit != "" {
		pairs = append(pairs, "unit", c.Unit)
	}
	if c.Decimals != nil {
		pairs = append(pairs, "decimals", *c.Decimals)
	}
	if c.Width != 0 {
		pairs = append(pairs, "custom.width", c.Width)
	}
	if c.Scale != "" {
		pairs = append(pairs, "color", object{"mode": "thresholds"},
			"thresholds", object{"mode": "absolute", "steps": steps(scales[c.Scale])},
			"custom.cellOptions", object{"type": "color-background", "mode": "basic"})
	}
	if palette := palettes[c.Colors]; palette != nil {
		values := object{}
		for i, name := range slices.Sorted(maps.Keys(palette)) {
			values[name] = object{"color": palette[name], "index": i}
		}
		pairs = append(pairs, "mappings", []object{{"type": "value", "options": values}},
			"custom.cellOptions", object{"type": "color-text"})
	}
	if c.None != "" {
		pairs = append(pairs, "noValue", c.None)
	}
	if c.Link != nil {
		pairs = append(pairs, "links", links([]link{*c.Link}))
	}
	if pairs == nil {
		return nil
	}
	return override(c.Title, pairs...)
}

// steps returns the thresholds from the lowest up. The first has no bound.
func steps(thresholds map[string]float64) []object {
	colors := slices.SortedFunc(maps.Keys(thresholds), func(a, b string) int {
		return cmp.Compare(thresholds[a], thresholds[b])
	})
	var steps []object
	for i, color := range colors {
		step := object{"color": color, "value": thresholds[color]}
		if i == 0 {
			step["value"] = nil
		}
		steps = append(steps, step)
	}
	return steps
}
