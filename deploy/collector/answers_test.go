package collector

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// answer says what each panel that shows a number, and each of its queries, must show: from the ledger of what really
// happened in the time that the query is about, and nothing else. by is the labels that tell the values apart.
type answer struct {
	by   []string
	want func(l *traffic.Ledger) map[string]float64
	// whole is of how many each value is a share; nil where the values are numbers.
	whole func(l *traffic.Ledger) map[string]float64
	// event is the largest single entry: tokens come by thousands. Nil is 1.
	event func(l *traffic.Ledger) float64
	// most is how many values are shown, the largest; 0 is all.
	most int
}

var endpoint = []string{"gen_ai_provider_name", "gen_ai_request_model", "server_address"}

// total is a number without labels. It is 0 where nothing happened.
func total(of func(l *traffic.Ledger) traffic.Entries) answer {
	return answer{want: func(l *traffic.Ledger) map[string]float64 { return map[string]float64{"": of(l).Sum()} }, event: largest(of)}
}

// sums are numbers by labels.
func sums(of func(l *traffic.Ledger) traffic.Entries, by ...string) answer {
	return answer{by: by, want: func(l *traffic.Ledger) map[string]float64 { return of(l).By(by...) }, event: largest(of)}
}

func largest(of func(l *traffic.Ledger) traffic.Entries) func(*traffic.Ledger) float64 {
	return func(l *traffic.Ledger) float64 {
		most := 1.0
		for _, e := range of(l) {
			most = max(most, e.Value)
		}
		return most
	}
}

// share is a part of a whole for each combination of labels; ofAll of the whole without labels, or by fewer.
func share(part, whole func(l *traffic.Ledger) traffic.Entries, zero bool, of []string, by ...string) answer {
	return answer{by: by, want: func(l *traffic.Ledger) map[string]float64 {
		parts, wholes := part(l).By(by...), whole(l).By(of...)
		shares := map[string]float64{}
		if zero {
			for key := range wholes {
				shares[key] = 0
			}
		}
		for _, e := range part(l) {
			shares[traffic.Key(e.Labels, by...)] = parts[traffic.Key(e.Labels, by...)] / wholes[traffic.Key(e.Labels, of...)]
		}
		return shares
	}, whole: func(l *traffic.Ledger) map[string]float64 {
		wholes := whole(l).By(of...)
		counts := map[string]float64{}
		for _, e := range slices.Concat(part(l), whole(l)) {
			counts[traffic.Key(e.Labels, by...)] = wholes[traffic.Key(e.Labels, of...)]
		}
		return counts
	}}
}

// top is the n largest sums.
func top(n int, of func(l *traffic.Ledger) traffic.Entries, by ...string) answer {
	a := sums(of, by...)
	a.most = n
	return a
}

// distinct counts the values of a label, for each combination of others.
func distinct(of func(l *traffic.Ledger) traffic.Entries, label string, by ...string) answer {
	return answer{by: by, want: func(l *traffic.Ledger) map[string]float64 {
		counts := map[string]float64{}
		if by == nil {
			counts[""] = 0
		}
		seen := map[string]bool{}
		for _, e := range of(l) {
			if key := traffic.Key(e.Labels, by...); !seen[key+"/"+e.Labels[label]] {
				seen[key+"/"+e.Labels[label]] = true
				counts[key]++
			}
		}
		return counts
	}}
}

var (
	model    = []string{"gen_ai_provider_name", "gen_ai_request_model"}
	lostHere = total(nothing) // no span is lost in this traffic; TestSpansLost is about those
)

// answers is by dashboard and title of the panel, an answer for each of its queries.
var answers = map[string]map[string][]answer{
	"llm-runs.json": {
		"Runs that failed": {share(failedRuns, runs, true, nil), share(failedRuns, runs, true, nil)},
		"Runs":             {total(runs)},
		"Lost outputs":     {total(lostRuns)},
		"Spans lost":       {lostHere},
		"Tokens wasted":    {total(wastedTokens), total(unseen)},
		"Is it them or us": {
			sums(requests, endpoint...),
			share(brokenRequests, requests, true, endpoint, endpoint...),
			share(brokenRequests, requests, true, endpoint, endpoint...),
			{}, // the day that ended an hour ago, of which there is no traffic
			distinct(brokenRequests, "service_name", endpoint...),
		},
		"Failed runs, by class and phase": {share(failedRuns, failedRuns, false, nil, "llm_failure_class", "llm_failure_phase")},
		"Failed runs, by origin":          {sums(failedRuns, "llm_failure_origin")},
		"Failed runs, by cause":           {top(9, failedRuns, "llm_failure_class", "llm_failure_cause")},
		"Not safe to repeat":              {share(unsafeRuns, failedRuns, true, nil)},
		// Each reason is the rule that decided, which only the rules know. All of them are all failed runs.
		"Reasons for the retry safety": {total(failedRuns)},
		"Failed runs, by service": {
			share(failedRuns, runs, true, []string{"service_name"}, "service_name"),
		},
		"Share of broken runs that recovered": {share(recoveredRuns, brokenRuns, true, nil)},
		"Interrupted":                         {share(interrupted, requests, true, model, model...)},
		"Errors that the provider reported":   {share(providerErrors, requests, true, model, model...)},
		"Failed requests, by cause and model": {
			share(brokenRequests, requests, false, model, "llm_failure_cause", "gen_ai_provider_name", "gen_ai_request_model"),
		},
		"Wasted tokens and requests, by provider and model": {
			sums(wasted("input"), model...), sums(wasted("output"), model...), sums(wastedRequests, model...), sums(unseen, model...),
		},
		"Tools that did not succeed": {share(unwellTools, tools, false, []string{"gen_ai_tool_name"}, "gen_ai_tool_name", "llm_tool_outcome")},
		"Tools whose output was not sent": {sums(func(l *traffic.Ledger) traffic.Entries {
			return l.Tools.Where("llm_tool_output_delivery", "failed")
		}, "gen_ai_tool_name")},
	},
	"llm-incidents.json": {
		"Requests that failed": {
			share(brokenRequests, requests, true, nil), share(brokenRequests, requests, true, nil), share(brokenRequests, requests, true, nil),
		},
		"Runs that failed with it": {total(failedWithRequest)},
		"Trying again helps":       {share(recoveredRuns, brokenRuns, true, nil)},
		"Services":                 {distinct(brokenRequests, "service_name"), distinct(requests, "service_name")},
		"Failed requests, by provider, model and region": {share(brokenRequests, requests, true, endpoint, endpoint...)},
		"Failed requests, by service and provider": {
			share(brokenRequests, requests, false, []string{"service_name", "gen_ai_provider_name"}, "service_name", "gen_ai_provider_name"),
		},
		"Failed requests, by cause and region": {
			share(brokenRequests, requests, false, []string{"server_address"}, "llm_failure_cause", "server_address"),
		},
	},
	"llm-classifier.json": {
		"Spans lost":         {lostHere},
		"How they were lost": {lostHere, lostHere, lostHere},
		"Spans refused":      {lostHere, lostHere},
		"Forgotten":          {lostHere},
		"Journal":            {lostHere},
	},
}

// needsProvider is the reason for panels that show the providers that are not chosen.
const needsProvider = "holdOthers: a provider has to be chosen"

// heldElsewhere lists panels with a number that are not in answers, with the reason.
var heldElsewhere = map[string]string{
	"llm-runs.json/Alerts":                         "holdAlertPanels",
	"llm-runs.json/Firing alerts":                  "holdAlertPanels",
	"llm-incidents.json/Failed at other providers": needsProvider,
}

// Every panel that shows a number or a share is held against the ledger, or says where else it is.
func TestEveryNumberHasAnAnswer(t *testing.T) {
	for name, d := range readDashboards(t) {
		titles := map[string]bool{}
		for _, p := range d.Panels {
			held := p.Type == "stat" || p.Type == "bargauge" || p.Type == "table" && p.Targets[0].Expr != ""
			for _, target := range p.Targets { // a share over time
				held = held || p.Type == "timeseries" && strings.Contains(target.Expr, "/") && strings.Contains(target.Expr, "[5m]")
			}
			if !held {
				continue
			}
			assert.False(t, titles[p.Title], "%s: two panels %q", name, p.Title)
			titles[p.Title] = true
			if _, ok := heldElsewhere[name+"/"+p.Title]; !ok {
				assert.Len(t, answers[name][p.Title], len(p.Targets), "%s: %q", name, p.Title)
			}
		}
		for title := range answers[name] {
			assert.True(t, titles[title], "%s has no panel %q", name, title)
		}
	}
}
