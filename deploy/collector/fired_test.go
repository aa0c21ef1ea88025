package collector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// verdictLag is how long after a run its verdict is in Prometheus at the latest: it is held and batched, its new series
// show 0 for one flush, the next flush has it, and a scrape fetches it. Then rules are evaluated.
const verdictLag = 75 * time.Second

// trueAlerts says of each alert but LLMIncident whether what it claims is true of the ledger at a time, in the alert's own
// windows. An alert that is not here is false whenever it fires: nothing is wrong with the Collector in this traffic.
var trueAlerts = map[string]func(w windows) bool{
	"LLMToolOutputLost": func(w windows) bool { return w.count(10*time.Minute, lostRuns) > 0 },
	"LLMRunsFail": func(w windows) bool {
		recent := w.share(5*time.Minute, failedRuns, runs) > 0.1
		slow := recent && w.share(15*time.Minute, failedRuns, runs) > 0.1 && w.count(15*time.Minute, failedRuns) >= 8
		fast := recent && w.share(time.Minute, failedRuns, runs) > 0.3 && w.count(time.Minute, failedRuns) >= 6
		return slow || fast
	},
	"LLMRunsUnsafeToRetry": func(w windows) bool {
		return w.share(30*time.Minute, unsafeRuns, failedRuns) > 0.5 && w.share(5*time.Minute, unsafeRuns, failedRuns) > 0.5 && w.count(30*time.Minute, failedRuns) >= 10
	},
	"LLMRunsOnlyJustRecover": func(w windows) bool {
		return w.share(30*time.Minute, recoveredRuns, runs) > 0.2 && w.share(5*time.Minute, recoveredRuns, runs) > 0.2 && w.count(30*time.Minute, recoveredRuns) >= 10
	},
	"LLMRunsAbandoned": func(w windows) bool {
		return w.share(15*time.Minute, abandonedRuns, runs) > 0.05 && w.share(5*time.Minute, abandonedRuns, runs) > 0.05 && w.count(15*time.Minute, abandonedRuns) >= 5
	},
	"LLMStreamsInterrupted": func(w windows) bool { return w.requestsFail(interrupted, 0.08) },
	"LLMProviderErrors":     func(w windows) bool { return w.requestsFail(providerErrors, 0.1) },
	"LLMWatchdogsFire": func(w windows) bool {
		fired := func(l *traffic.Ledger) traffic.Entries {
			return l.Requests.Where("llm_watchdog_kind", w.labels["llm_watchdog_kind"])
		}
		return w.count(15*time.Minute, fired) >= 5 && w.count(5*time.Minute, fired) > 0
	},
}

// delays returns the `for` and the keep_firing_for of the alert of a name.
func delays(t *testing.T, name string) (pending, keeps time.Duration) {
	t.Helper()
	_, alerts := readRules(t)
	for _, rule := range alerts {
		if rule.Alert == name {
			return rule.For, rule.KeepFiringFor
		}
	}
	require.Fail(t, "no such alert", name)
	return 0, 0
}

// windows are the last minutes before a time, of what an alert with these labels is about.
type windows struct {
	ledger *traffic.Ledger
	labels map[string]string
	at     time.Time
}

func (w windows) of(length time.Duration) *traffic.Ledger {
	chosen := map[string]string{}
	for label, name := range map[string]string{"service_name": "service", "gen_ai_provider_name": "provider", "gen_ai_request_model": "model"} {
		if v, ok := w.labels[label]; ok {
			chosen[name] = v
		}
	}
	return only(w.ledger, chosen, w.at.Add(-length), w.at)
}

// count has a fifth of room: Prometheus extrapolates what six scrapes saw in 50 seconds to a minute.
func (w windows) count(length time.Duration, of func(*traffic.Ledger) traffic.Entries) float64 {
	return 1.2 * of(w.of(length)).Sum()
}

// share is 0 where there is no whole. It has a tenth of room, for how Prometheus extrapolates a window.
func (w windows) share(length time.Duration, part, whole func(*traffic.Ledger) traffic.Entries) float64 {
	l := w.of(length)
	if n := whole(l).Sum(); n > 0 {
		return 1.1 * part(l).Sum() / n
	}
	return 0
}

func (w windows) requestsFail(failed func(*traffic.Ledger) traffic.Entries, threshold float64) bool {
	recent := w.share(5*time.Minute, failed, requests) > threshold
	before := windows{w.ledger, w.labels, w.at.Add(-10 * time.Minute)}
	slow := recent && w.count(15*time.Minute, failed) >= 10 && w.share(15*time.Minute, failed, requests) > threshold && before.share(5*time.Minute, failed, requests) > threshold
	fast := recent && w.share(time.Minute, failed, requests) > 0.25 && w.count(time.Minute, failed) >= 8
	return slow || fast
}

// trueWithin reports whether an alert's claim was true at some time in the lag before at.
func trueWithin(l *traffic.Ledger, labels map[string]string, at time.Time, lag time.Duration) bool {
	claim := trueAlerts[labels["alertname"]]
	for shift := time.Duration(0); claim != nil && shift <= lag; shift += 5 * time.Second {
		if claim(windows{l, labels, at.Add(-shift)}) {
			return true
		}
	}
	return false
}

// isIncident reports whether the labels are those of the alert on an outage of this provider.
func isIncident(labels map[string]string, provider string) bool {
	return labels["alertname"] == "LLMIncident" && labels["whose"] == "them" && labels["gen_ai_provider_name"] == provider
}

// holdAlerts compares the alerts that fired with what happened: none was false, none that had to fire was missed or later
// than onset, and none went on after its end. An outage is one alert, once.
func (w *watched) holdAlerts(t *testing.T, l *traffic.Ledger, c traffic.Config, onset time.Duration) {
	t.Helper()
	clock := traffic.SystemClock{}
	expect := func(what string, since time.Time, onset time.Duration, matches func(labels map[string]string) bool) {
		t.Helper()
		for {
			w.mu.Lock()
			for _, f := range w.fired {
				if after := f.first.Sub(since); matches(f.labels) && after >= 0 && after <= onset {
					t.Logf("%s: %v %s later", what, f.labels["alertname"], after.Round(time.Second))
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
		expect("an output was lost by "+service, at, verdictLag, func(labels map[string]string) bool {
			return labels["alertname"] == "LLMToolOutputLost" && labels["service_name"] == service
		})
	}
	for _, o := range c.Outages {
		expect("the outage of "+o.Provider, c.Start.Add(o.From), onset, func(labels map[string]string) bool {
			return isIncident(labels, o.Provider)
		})
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fired {
		t.Logf("from %s to %s, %d times: %v", f.first.Sub(c.Start).Round(time.Second), f.last.Sub(c.Start).Round(time.Second), f.times, f.labels)
		if f.labels["alertname"] == "LLMIncident" {
			w.holdIncident(t, f, c)
			continue
		}
		pending, keeps := delays(t, f.labels["alertname"])
		for what, at := range map[string]time.Time{"false alert": f.first, "still fires": f.last} {
			lag := verdictLag
			if at == f.last {
				lag += keeps
			} else {
				lag += pending
			}
			if !trueWithin(l, f.labels, at, lag) {
				t.Errorf("%s: %v, after %s", what, f.labels, at.Sub(c.Start).Round(time.Second))
			}
		}
	}
	assert.Greater(t, w.looked, 10, "how often the alerts were looked at")
}

// holdIncident checks that an LLMIncident is one of the outages, from its beginning to three minutes after its end.
func (w *watched) holdIncident(t *testing.T, f *firing, c traffic.Config) {
	t.Helper()
	for _, o := range c.Outages {
		from, to := c.Start.Add(o.From), c.Start.Add(o.To)
		if !isIncident(f.labels, o.Provider) || f.first.Before(from) || f.first.After(to) {
			continue
		}
		assert.Equal(t, 1, f.times, "how often the outage of %s was alerted on", o.Provider)
		assert.False(t, f.last.Before(to), "the alert ended %s before the outage", to.Sub(f.last))
		assert.LessOrEqual(t, f.last.Sub(to), 3*time.Minute, "after the end of the outage")
		return
	}
	t.Errorf("false alert: %v, after %s", f.labels, f.first.Sub(c.Start).Round(time.Second))
}
