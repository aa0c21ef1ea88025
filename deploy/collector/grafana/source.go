// Grafana generates the dashboards: for each <name>.yaml in this folder, which is edited by hand, the <name>.json
// that Grafana loads. Run it in deploy/collector with
//
//	go run ./grafana
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// source is a dashboard as it is written by hand. README.md describes the keys.
type source struct {
	UID         string     `yaml:"uid"`
	Title       string     `yaml:"title"`
	Description string     `yaml:"description"`
	Tags        []string   `yaml:"tags"`
	Variables   []variable `yaml:"variables"`
	// Words are replaced in all queries: @name by its text.
	Words map[string]string `yaml:"words"`
	// Alerts is a regular expression of the alerts that are marked in the graphs.
	Alerts string `yaml:"alerts"`
	Rows   []row  `yaml:"rows"`
}

// variable is a selection at the top of a dashboard: of any number of the values that a query finds, or of one of
// those that are named.
type variable struct {
	Name   string   `yaml:"name"`
	Label  string   `yaml:"label"`
	Query  string   `yaml:"query"`
	Values []string `yaml:"values"`
}

type row struct {
	Title  string  `yaml:"title"`
	Panels []panel `yaml:"panels"`
}

// panel is one panel.
type panel struct {
	Title      string             `yaml:"title"`
	Help       string             `yaml:"help"`
	Kind       string             `yaml:"kind"`
	Width      int                `yaml:"width"`
	Height     int                `yaml:"height"`
	Unit       string             `yaml:"unit"`
	Decimals   *int               `yaml:"decimals"`
	Max        *float64           `yaml:"max"`
	None       string             `yaml:"none"`
	Stack      bool               `yaml:"stack"`
	Last       bool               `yaml:"last"`
	Name       string             `yaml:"name"`
	Exemplars  bool               `yaml:"exemplars"`
	Colors     string             `yaml:"colors"`
	Thresholds map[string]float64 `yaml:"thresholds"`
	Matrix     *matrix            `yaml:"matrix"`
	Columns    []column           `yaml:"columns"`
	Sort       string             `yaml:"sort"`
	Links      []link             `yaml:"links"`
	Queries    []query            `yaml:"queries"`
}

// matrix names the labels that become the rows and columns of a table, and the title and width of the first column.
type matrix struct {
	Title  string   `yaml:"title"`
	Row    string   `yaml:"row"`
	Column string   `yaml:"column"`
	Width  int      `yaml:"width"`
	Order  []string `yaml:"order"`
	Scale  string   `yaml:"scale"`
}

// column is a column of a table: a label, or the values of a query. What is not a column is not shown.
type column struct {
	Of       string `yaml:"of"`
	Title    string `yaml:"title"`
	Unit     string `yaml:"unit"`
	Decimals *int   `yaml:"decimals"`
	Width    int    `yaml:"width"`
	Scale    string `yaml:"scale"`
	None     string `yaml:"none"`
	Colors   string `yaml:"colors"`
	Link     *link  `yaml:"link"`
}

// link leads from a panel, or from a value in it, to another page.
type link struct {
	Title string `yaml:"title"`
	URL   string `yaml:"url"`
}

// query is PromQL or, in a panel of kind traces, TraceQL.
type query struct {
	Expr    string `yaml:"expr"`
	TraceQL string `yaml:"traceql"`
	Legend  string `yaml:"legend"`
}

const (
	columns       = 24
	defaultHeight = 8
)

// parse reads and checks a source.
func parse(raw []byte) (*source, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	var s source
	if err := decoder.Decode(&s); err != nil {
		return nil, err
	}
	if s.Alerts == "" {
		s.Alerts = "LLM.*"
	}
	s.addWords()
	if s.UID == "" || s.Title == "" || len(s.Rows) == 0 {
		return nil, errors.New("a dashboard needs uid, title and rows")
	}
	for _, r := range s.Rows {
		for i := range r.Panels {
			p := &r.Panels[i]
			if p.Height == 0 {
				p.Height = defaultHeight
			}
			if err := p.check(); err != nil {
				return nil, fmt.Errorf("panel %q of row %q: %w", p.Title, r.Title, err)
			}
			for j := range p.Queries {
				q := &p.Queries[j]
				var err error
				if q.Expr, err = s.expand(q.Expr); err != nil {
					return nil, fmt.Errorf("panel %q of row %q: %w", p.Title, r.Title, err)
				}
				q.TraceQL = share(q.TraceQL)
			}
		}
	}
	return &s, nil
}

// The classes of requests that the transport or the provider broke, and of those the ones whose stream broke. A stop and a
// limit are no failures.
const (
	interruptedClasses = "connection_failed|stream_interrupted|protocol_violation|watchdog_timeout"
	brokenClasses      = interruptedClasses + "|provider_error|empty_completion"
)

// sharedWords are parts of queries that every dashboard can use.
var sharedWords = map[string]string{
	"interrupted":  `llm_failure_class=~"` + interruptedClasses + `"`,
	"failed_class": `llm_failure_class=~"` + brokenClasses + `"`,
	"failed_span":  `span.llm.failure.class =~ "` + brokenClasses + `"`,
}

// share replaces the shared words of a text.
func share(text string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(sharedWords[w[1:]], w) })
}

// addWords adds the shared words to those of the dashboard, whose texts can use them.
func (s *source) addWords() {
	words := maps.Clone(sharedWords)
	for name, text := range s.Words {
		words[name] = share(text)
	}
	s.Words = words
}

var (
	word      = regexp.MustCompile(`@([a-z_]+)`)
	increases = regexp.MustCompile(`\bincreases\(([a-z_:]+(?:\{[^{}]*\})?), ?([^(),]+)\)`)
)

// expand replaces the words, and increases(counter, range).
//
// A counter appears with its first event, and increase() does not see how it came to be. increases() adds what a series
// began with, where there was none before. A series that was known in the hour before the range is not new, unless its target
// was scraped without it, as after a restart: only scrapes are missing.
func (s *source) expand(expr string) (string, error) {
	var err error
	expr = word.ReplaceAllStringFunc(expr, func(w string) string {
		text, ok := s.Words[w[1:]]
		if !ok {
			err = fmt.Errorf("no word %s", w)
		}
		return text
	})
	const began = "(min_over_time($1[$2]) unless $1 offset $2 unless " +
		"(last_over_time($1[1h] offset $2) unless on (job, instance) (up offset $2 == 1)))"
	expr = increases.ReplaceAllString(expr, "(increase($1[$2]) + "+began+" or increase($1[$2]) or "+began+")")
	return expr, err
}

func (p *panel) check() error {
	if _, ok := kinds[p.Kind]; !ok {
		return fmt.Errorf("there is no kind %q", p.Kind)
	}
	if p.Width < 1 || p.Width > columns {
		return fmt.Errorf("width %d is not one of 1 to %d", p.Width, columns)
	}
	if (p.Kind == "matrix") != (p.Matrix != nil) {
		return errors.New("matrix: {row, column} is required by kind matrix and not allowed in any other")
	}
	if want := p.Kind == "table" || p.Kind == "traces"; want != (len(p.Columns) > 0) {
		return errors.New("columns are required by the kinds table and traces and not allowed in any other")
	}
	for _, colors := range append([]string{p.Colors}, p.colorsOfColumns()...) {
		if colors != "" && palettes[colors] == nil && shades[colors] == "" {
			return fmt.Errorf("there are no colors %q", colors)
		}
	}
	for _, scale := range p.scales() {
		if _, ok := scales[scale]; scale != "" && !ok {
			return fmt.Errorf("there is no scale %q", scale)
		}
	}
	if len(p.Queries) == 0 {
		return errors.New("no queries")
	}
	for _, q := range p.Queries {
		if want := p.Kind == "traces"; want != (q.TraceQL != "") || want == (q.Expr != "") {
			return errors.New("a query needs expr, or in a panel of kind traces, traceql")
		}
	}
	return nil
}

func (p *panel) colorsOfColumns() (names []string) {
	for _, c := range p.Columns {
		names = append(names, c.Colors)
	}
	return names
}

func (p *panel) scales() (names []string) {
	if p.Matrix != nil {
		names = append(names, p.Matrix.Scale)
	}
	for _, c := range p.Columns {
		names = append(names, c.Scale)
	}
	return names
}
