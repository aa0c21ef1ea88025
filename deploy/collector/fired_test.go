package collector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// trueAlerts says of each alert whether what it trueAlerts is true of the ledger until now, with a fifth of room for how windows
// fall. An alert that is not here is false whenever it fires: nothing is wrong with the Collector in this traffic.
var trueAlerts = map[string]func(l *traffic.Ledger, labels map[string]string, at time.Time) bool{
	"LLMToolOutputLost": func(l *traffic.Ledger, labels map[string]string, at time.Time) bool {
		return lostRuns(of(l, labels, at, 11*time.Minute)).Sum() > 0
	},
	"LLMIncident":            shareOver(0.2, brokenRequests, requests),
	"LLMRunsFail":            shareOver(0.1, failedRuns, runs),
	"LLMRunsUnsafeToRetry":   shareOver(0.5, unsafeRuns, failedRuns),
	"LLMRunsOnlyJustRecover": shareOver(0.2, recoveredRuns, runs),
	"LLMRunsAbandoned":       shareOver(0.05, func(l *traffic.Ledger) traffic.Entries { return l.Runs.Where("llm_failure_class", "run_abandoned") }, runs),
	"LLMStreamsInterrupted":  shareOver(0.05, interrupted, requests),
	"LLMProviderErrors": shareOver(0.1, func(l *traffic.Ledger) traffic.Entries {
		return l.Requests.Where("llm_failure_class", "provider_error")
	}, requests),
	"LLMWatchdogsFire": func(l *traffic.Ledger, labels map[string]string, at time.Time) bool {
		return of(l, labels, at, 16*time.Minute).Requests.WhereNot("llm_watchdog_kind", "").Sum() > 4
	},
}

// of returns what an alert with these labels is about.
func of(l *traffic.Ledger, labels map[string]string, at time.Time, window time.Duration) *traffic.Ledger {
	chosen := map[string]string{}
	for label, name := range map[string]string{"service_name": "service", "gen_ai_provider_name": "provider", "gen_ai_request_model": "model"} {
		if v, ok := labels[label]; ok {
			chosen[name] = v
		}
	}
	part := only(l, chosen, at.Add(-window), at)
	if address, ok := labels["server_address"]; ok {
		part.Requests = part.Requests.Where("server_address", address)
	}
	return part
}

// shareOver is true if the share was over the threshold in one of the windows that alerts look at.
func shareOver(threshold float64, part, whole func(l *traffic.Ledger) traffic.Entries) func(*traffic.Ledger, map[string]string, time.Time) bool {
	return func(l *traffic.Ledger, labels map[string]string, at time.Time) bool {
		for _, window := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour} {
			of := of(l, labels, at, window)
			if n := whole(of).Sum(); n > 0 && part(of).Sum()/n > threshold*0.8 {
				return true
			}
		}
		return false
	}
}

// holdAlerts compares the alerts that fired with what happened: none was false, and none that had to fire was missed, or
// later than onset. That of a lost output is one event, which has half a minute more.
func (w *watched) holdAlerts(t *testing.T, l *traffic.Ledger, c traffic.Config, onset time.Duration) {
	t.Helper()
	clock := traffic.SystemClock{}
	expect := func(what string, since time.Time, onset time.Duration, matches func(labels map[string]string) bool) {
		for {
			w.mu.Lock()
			for _, f := range w.fired {
				if matches(f.labels) && f.first.Sub(since) <= onset {
					t.Logf("%s: %v %s later", what, f.labels["alertname"], f.first.Sub(since).Round(time.Second))
					w.mu.Unlock()
					return
				}
			}
			w.mu.Unlock()
			if time.Since(since) > onset+2*time.Second || clock.Sleep(t.Context(), time.Second) != nil {
				t.Errorf("missed, or later than %s: %s", onset, what)
				return
			}
		}
	}
	first := map[string]time.Time{}
	for _, e := range lostRuns(l) {
		if s := e.Labels["service_name"]; first[s].IsZero() || e.At.Before(first[s]) {
			first[s] = e.At
		}
	}
	for service, at := range first {
		expect("an output was lost by "+service, at, onset+30*time.Second, func(labels map[string]string) bool {
			return labels["alertname"] == "LLMToolOutputLost" && labels["service_name"] == service
		})
	}
	for _, o := range c.Outages {
		expect("the outage of "+o.Provider, c.Start.Add(o.From), onset, func(labels map[string]string) bool {
			return labels["gen_ai_provider_name"] == o.Provider
		})
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fired {
		name := f.labels["alertname"]
		if claim := trueAlerts[name]; claim == nil || !claim(l, f.labels, f.first) {
			t.Errorf("false alert: %v, after %s", f.labels, f.first.Sub(c.Start).Round(time.Second))
		}
	}
	assert.Greater(t, w.looked, 10, "how often the alerts were looked at")
}
