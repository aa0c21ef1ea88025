// Grafana generates the dashboards: for each <name>.yaml in this folder, which is edited by hand, the <name>.json
// that Grafana loads. Run it in deploy/collector with
//
//	go run ./grafana
package main

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// source is a dashboard as it is written by hand.
type source struct {
	UID         string     `yaml:"uid"`
	Title       string     `yaml:"title"`
	Description string     `yaml:"description"`
	Tags        []string   `yaml:"tags"`
	Variables   []variable `yaml:"variables"`
	Rows        []row      `yaml:"rows"`
}

// variable is a selection at the top of a dashboard, of any number of the values that a query finds.
type variable struct {
	Name  string `yaml:"name"`
	Label string `yaml:"label"`
	Query string `yaml:"query"`
}

type row struct {
	Title  string  `yaml:"title"`
	Panels []panel `yaml:"panels"`
}

// panel is one panel. README.md describes the keys.
type panel struct {
	Title      string             `yaml:"title"`
	Help       string             `yaml:"help"`
	Kind       string             `yaml:"kind"`
	Width      int                `yaml:"width"`
	Height     int                `yaml:"height"`
	Unit       string             `yaml:"unit"`
	Decimals   *int               `yaml:"decimals"`
	Max        *float64           `yaml:"max"`
	Stack      bool               `yaml:"stack"`
	Exemplars  bool               `yaml:"exemplars"`
	Colors     map[string]string  `yaml:"colors"`
	Thresholds map[string]float64 `yaml:"thresholds"`
	Matrix     *matrix            `yaml:"matrix"`
	Queries    []query            `yaml:"queries"`
}

// matrix names the labels that become the rows and columns of a table.
type matrix struct {
	Row    string `yaml:"row"`
	Column string `yaml:"column"`
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
		}
	}
	return &s, nil
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
