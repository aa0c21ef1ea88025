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
	// At the last scrape before that: between two scrapes PromQL extrapolates, and counts an event that has just come for up to two.
	if scraped := p.queryAt(t, "max(timestamp(llm_run_calls_total))", at); assert.Len(t, scraped, 1) {
		at = time.UnixMilli(int64(scraped[0].value * 1000))
	}
	lengths := map[string]time.Duration{"5m": 5 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour, "whole": whole}
	var parts []*traffic.Ledger
	for _, chosen := range selections {
		parts = append(parts, chosenOf(l, chosen))
	}
	var held int
	for name, d := range readDashboards(t) {
		for _, panel := range d.Panels {
			if panel.Type == "row" || panel.Targets[0].Expr == "" { // for Tempo
				continue
			}
			for i, a := range answers[name][panel.Title] {
				if a.want == nil {
					continue
				}
				for k, chosen := range selections {
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
					if all := a.want(between(parts[k], at.Add(-lengths[over[1]]), at)); a.most > 0 && len(all) > a.most {
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
					compare(t, fmt.Sprintf("%s: %s (%d) %v", name, panel.Title, i, chosen), got, a.truth(parts[k], at, lengths[over[1]], lag))
				}
			}
		}
	}
	assert.Greater(t, held, 100)
}

// bounds are the least and the most that a value truly was, of how many it was a share, and how much one event was of it.
type bounds struct{ low, high, whole, event float64 }

// truth returns what an answer's values were in a window that ends at a time. Verdicts come up to lag later, so a window of
// the past began and ended up to lag before, each by itself. What happened before the first scrape of a window, Prometheus
// does not count.
func (a answer) truth(l *traffic.Ledger, at time.Time, length, lag time.Duration) map[string]bounds {
	const scrape, step = 10 * time.Second, 15 * time.Second // a step is a flush
	all := map[string]bounds{}
	times := 0
	starts := []time.Duration{-scrape}
	for start := time.Duration(0); start <= lag; start += step {
		starts = append(starts, start)
	}
	for end := time.Duration(0); end <= lag; end += step {
		for _, start := range starts {
			part := between(l, at.Add(-start-length), at.Add(-end))
			values, wholes, event := a.want(part), map[string]float64{}, 1.0
			if a.event != nil {
				event = a.event(part)
			}
			if a.whole != nil {
				wholes = a.whole(part)
			}
			for key, v := range values {
				b, ok := all[key]
				if !ok {
					b = bounds{v, v, wholes[key], event}
					if times > 0 {
						b.low = min(v, 0)
					}
				}
				all[key] = bounds{min(b.low, v), max(b.high, v), b.whole, max(b.event, event)}
			}
			for key, b := range all {
				if _, ok := values[key]; !ok {
					b.low = min(b.low, 0)
				}
				if n, ok := wholes[key]; ok {
					b.whole = min(b.whole, n)
				}
				all[key] = b
			}
			times++
		}
	}
	return all
}

// compare checks that each value is within 5 % of the truth. Half an event is not a difference: Prometheus extrapolates.
func compare(t *testing.T, what string, got map[string]float64, truth map[string]bounds) {
	t.Helper()
	for key := range got {
		if _, ok := truth[key]; !ok && math.Abs(got[key]) > 1e-9 {
			t.Errorf("%s: %q is %.4g, and the ledger has none", what, key, got[key])
		}
	}
	for key, b := range truth {
		v, ok := got[key]
		if !ok && b.low > 0 {
			t.Errorf("%s: no %q, which is %.4g", what, key, b.low)
			continue
		}
		slack := b.event / 2
		if b.whole > 0 {
			slack /= b.whole
		}
		if v < b.low*0.95-slack || v > b.high*1.05+slack {
			t.Errorf("%s: %q is %.4g, and in truth %.4g to %.4g", what, key, v, b.low, b.high)
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
		if panel.Title != "Failed at other providers" {
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
