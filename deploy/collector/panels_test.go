package collector

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

var window = regexp.MustCompile(`\[(5m|1h|1d|whole)\]`)

// holdPanels compares every number of the dashboards, at this time, with the ledger. whole is the time that is chosen in
// Grafana. Verdicts reach Prometheus a while after the spans were sent: a window of the past began and ended up to lag
// before the time of the query.
func holdPanels(t *testing.T, p *prometheus, l *traffic.Ledger, at time.Time, whole, lag time.Duration) {
	t.Helper()
	lengths := map[string]time.Duration{"5m": 5 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour, "whole": whole}
	var held int
	for name, d := range readDashboards(t) {
		for _, panel := range d.Panels {
			if panel.Type == "row" || panel.Targets[0].Expr == "" { // for Tempo
				continue
			}
			for i, a := range answers[name][panel.Title] {
				for _, chosen := range selections {
					if name == "llm-classifier.json" && len(chosen) > 0 {
						continue
					}
					target := panel.Targets[i]
					expr := d.fill(target.Expr, "whole", chosen)
					over := window.FindStringSubmatch(expr)
					require.NotNil(t, over, "%s: no window in %s", panel.Title, expr)
					expr = strings.ReplaceAll(expr, "whole", strconv.Itoa(int(whole.Seconds()))+"s")
					got := map[string]float64{}
					for _, s := range p.queryAt(t, expr, at) {
						got[traffic.Key(s.labels, a.by...)] += s.value
					}
					held++
					if all := a.want(only(l, chosen, at.Add(-lengths[over[1]]), at)); a.most > 0 && len(all) > a.most {
						// Those that are left out are no larger than those that are shown.
						assert.Len(t, got, a.most, panel.Title)
						least := slices.Min(slices.Collect(maps.Values(got)))
						for key, v := range all {
							if _, ok := got[key]; !ok {
								assert.LessOrEqual(t, v, least*1.05+0.5, "%s leaves %s out", panel.Title, key)
								got[key] = v
							}
						}
					}
					compare(t, fmt.Sprintf("%s: %s (%d) %v", name, panel.Title, i, chosen), got, func(shift time.Duration) map[string]float64 {
						to := at.Add(-shift)
						return a.want(only(l, chosen, to.Add(-lengths[over[1]]), to))
					}, lag)
				}
			}
		}
	}
	assert.Greater(t, held, 100)
}

// compare checks that each value is within 5 % of one that was true between lag ago and now; small counts within a half.
func compare(t *testing.T, what string, got map[string]float64, want func(shift time.Duration) map[string]float64, lag time.Duration) {
	t.Helper()
	low, high := map[string]float64{}, map[string]float64{}
	var times int
	for shift := time.Duration(0); shift <= lag; shift += max(lag/10, time.Second) {
		values := want(shift)
		times++
		for key, v := range values {
			if _, ok := high[key]; !ok {
				low[key], high[key] = v, v
				if times > 1 {
					low[key] = 0
				}
			}
			low[key], high[key] = min(low[key], v), max(high[key], v)
		}
		for key := range high {
			if _, ok := values[key]; !ok {
				low[key] = 0
			}
		}
	}
	for key := range got {
		if _, ok := high[key]; !ok && math.Abs(got[key]) > 1e-9 {
			t.Errorf("%s: %q is %.4g, and the ledger has none", what, key, got[key])
		}
	}
	for key := range high {
		v, ok := got[key]
		if !ok && low[key] > 0 {
			t.Errorf("%s: no %q, which is %.4g", what, key, low[key])
			continue
		}
		slack := 0.01 // of a share
		switch {
		case high[key] >= 1:
			slack = 0.5
		case lag > 0:
			slack = 0.04 // two of fifty that an edge of the window divides: it is not the same for each series
		}
		if v < low[key]*0.95-slack || v > high[key]*1.05+slack {
			t.Errorf("%s: %q is %.4g, and in truth %.4g to %.4g", what, key, v, low[key], high[key])
		}
	}
}

// queryAt returns the samples of an instant query at a time.
func (p *prometheus) queryAt(t require.TestingT, expr string, at time.Time) []sample {
	var result struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	p.get(t, "query", url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}, &result)
	var samples []sample
	for _, r := range result.Result {
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(t, err)
		samples = append(samples, sample{r.Metric, value})
	}
	return samples
}

// Where a provider is chosen, the others are all but this.
func holdOthers(t *testing.T, p *prometheus, l *traffic.Ledger, at time.Time) {
	t.Helper()
	d := readDashboards(t)["llm-incidents.json"]
	for _, panel := range d.Panels {
		if panel.Title != "Others are well" {
			continue
		}
		others := only(l, nil, at.Add(-5*time.Minute), at)
		others.Requests = others.Requests.WhereNot("gen_ai_provider_name", "anthropic")
		got := p.queryAt(t, d.fill(panel.Targets[0].Expr, "5m", map[string]string{"provider": "anthropic"}), at)
		require.Len(t, got, 1)
		assert.InDelta(t, brokenRequests(others).Sum()/others.Requests.Sum(), got[0].value, 0.01)
		return
	}
	t.Error("no panel")
}

// holdAlertPanels compares the panels about alerts with Prometheus' own list of them.
func (w *watched) holdAlertPanels(t *testing.T) {
	t.Helper()
	d := readDashboards(t)["llm-runs.json"]
	var held int
	for _, panel := range d.Panels {
		if heldElsewhere["llm-runs.json/"+panel.Title] != "holdAlertPanels" {
			continue
		}
		held++
		eventually(t, func(t *assert.CollectT) { // an alert may come or go between two questions
			alerts, err := w.alerts(context.Background())
			require.NoError(t, err)
			shown := w.query(t, panel.Targets[0].Expr)
			if panel.Type == "stat" {
				require.Len(t, shown, 1)
				require.InDelta(t, len(alerts), shown[0].value, 0)
				return
			}
			names := map[string]bool{}
			for _, a := range alerts {
				names[a["alertname"]] = true
			}
			got := map[string]bool{}
			for _, s := range shown {
				got[s.labels["alertname"]] = true
			}
			require.Equal(t, names, got)
		})
	}
	assert.Equal(t, 2, held)
}
