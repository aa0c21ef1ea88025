package collector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// An hour of traffic as Prometheus sees it: counters are flushed every 15 s and scraped every 10 s.
type hour struct {
	name     string
	rng      *rand.Rand
	rate     float64 // runs a minute at each provider, by all services together
	others   float64 // the same at providers that the incident does not hit; 0 is rate
	deploys  bool    // the Collector restarts once: counters begin again at 0
	bursts   bool
	incident *incident
}

// An incident lasts 5 minutes, from 1800 s on.
type incident struct {
	whose             string
	provider, service string // "" is all of them
	share             float64
	class             string
}

const (
	hourSeconds   = 3600
	incidentStart = 1800
	incidentEnd   = 2100
)

var (
	replayProviders = []string{"openai", "anthropic", "gcp.vertex_ai"}
	replayServices  = []string{"coder-web", "coder-cli", "support-bot"}
)

// A failure of a request, as it is counted.
type failure struct{ class, cause string }

// usualFailures are what fails without an incident, with the share of all requests: as in the traffic of `make eyes`.
var usualFailures = sync.OnceValue(func() map[failure]float64 {
	l := traffic.NewLedger(traffic.New(traffic.Config{Seed: 1, For: 2 * time.Hour, Rate: 60}))
	shares := map[failure]float64{}
	for _, e := range brokenRequests(l) {
		shares[failure{e.Labels["llm_failure_class"], e.Labels["llm_failure_cause"]}] += 1 / l.Requests.Sum()
	}
	return shares
})

// fails plays a request: how it failed, or "" where it did not.
func (h *hour) fails(order []failure, usual map[failure]float64) failure {
	at := h.rng.Float64()
	for _, f := range order {
		if at -= usual[f]; at < 0 {
			return f
		}
	}
	return failure{}
}

// series plays the hour, and writes the series of a unit test of promtool.
func (h *hour) series(out *strings.Builder) {
	type counter struct {
		provider, service string
		failure
	}
	counts, shown := map[counter]int{}, map[counter][]string{}
	runs, runsShown := map[[2]string]int{}, map[[2]string][]string{}
	usual := usualFailures()
	order := slices.SortedFunc(maps.Keys(usual), func(a, b failure) int { return strings.Compare(a.class+a.cause, b.class+b.cause) })
	kinds := append(slices.Clip(order), failure{})
	if h.incident != nil && !slices.Contains(kinds, failure{h.incident.class, ""}) {
		kinds = append(kinds, failure{h.incident.class, ""})
	}
	for _, p := range replayProviders {
		for _, s := range replayServices {
			for _, f := range kinds {
				counts[counter{p, s, f}] = 0
			}
		}
	}
	outcomes := []string{"succeeded", "recovered", "failed"}
	for _, s := range replayServices {
		for _, o := range outcomes {
			runs[[2]string{s, o}] = 0
		}
	}
	phase, restart := h.rng.IntN(15), 600+h.rng.IntN(2400)
	flushed, flushedRuns := map[counter]int{}, map[[2]string]int{}
	for at := range hourSeconds {
		if h.deploys && at == restart {
			clear(flushed)
			clear(flushedRuns)
			for c := range counts {
				counts[c] = 0
			}
			for r := range runs {
				runs[r] = 0
			}
		}
		for _, p := range replayProviders {
			rate := h.rate / 60
			if h.bursts && at/300%4 == 1 {
				rate *= 5
			}
			if i := h.incident; i != nil && h.others > 0 && i.provider != p {
				rate = h.others / 60
			}
			for h.rng.Float64() < rate/(1+rate) {
				s := replayServices[h.rng.IntN(len(replayServices))]
				i := h.incident
				hit := i != nil && at >= incidentStart && at < incidentEnd && (i.provider == "" || i.provider == p) && (i.service == "" || i.service == s)
				outcome := "failed"
				for attempt := range 3 { // an agent tries a request up to three times
					f := h.fails(order, usual)
					if hit && h.rng.Float64() < i.share {
						f = failure{i.class, ""}
					}
					counts[counter{p, s, f}]++
					if f == (failure{}) {
						outcome = map[bool]string{true: "succeeded", false: "recovered"}[attempt == 0]
						break
					}
					if h.rng.Float64() < 0.3 {
						break // or gives up
					}
				}
				runs[[2]string{s, outcome}]++
			}
		}
		if (at+phase)%15 == 0 {
			maps.Copy(flushed, counts)
			maps.Copy(flushedRuns, runs)
		}
		if at%10 == 0 {
			for c := range counts {
				shown[c] = append(shown[c], strconv.Itoa(flushed[c]))
			}
			for r := range runs {
				runsShown[r] = append(runsShown[r], strconv.Itoa(flushedRuns[r]))
			}
		}
	}
	for _, p := range replayProviders {
		for _, s := range replayServices {
			for _, f := range kinds {
				fmt.Fprintf(out, "      - series: llm_request_calls_total{service_name=%q, gen_ai_provider_name=%q, gen_ai_request_model=\"m\", server_address=\"api.%s\", llm_failure_class=%q, llm_failure_cause=%q}\n        values: %s\n",
					s, p, p, f.class, f.cause, strings.Join(shown[counter{p, s, f}], " "))
			}
		}
	}
	for _, s := range replayServices {
		for _, o := range outcomes {
			fmt.Fprintf(out, "      - series: llm_run_calls_total{service_name=%q, llm_run_outcome=%q}\n        values: %s\n", s, o, strings.Join(runsShown[[2]string{s, o}], " "))
		}
	}
}

// write adds the hour and what is expected of it to a file for promtool.
func (h *hour) write(out *strings.Builder) {
	fmt.Fprintf(out, "  - name: %s\n    interval: 10s\n    input_series:\n", h.name)
	h.series(out)
	out.WriteString("    promql_expr_test:\n")
	never := func(expr string, at int) {
		fmt.Fprintf(out, "      - {expr: '%s', eval_time: %ds, exp_samples: []}\n", expr, at)
	}
	const firing = `ALERTS{alertstate="firing", alertname=~"LLMIncident|LLMRunsFail|LLMStreamsInterrupted|LLMProviderErrors"}`
	if h.incident == nil {
		never("count_over_time("+firing+"[1h])", hourSeconds-10)
		return
	}
	i := h.incident
	whose := fmt.Sprintf(`alertname="LLMIncident", alertstate="firing", severity="critical", whose=%q`, i.whose)
	switch i.whose {
	case "them", "unclear":
		whose += fmt.Sprintf(`, gen_ai_provider_name=%q`, i.provider)
	case "us":
		whose += fmt.Sprintf(`, service_name=%q`, i.service)
	}
	// Never before it, within a minute, one alert and the right one, and over three minutes after its end.
	never("count_over_time("+firing+"[29m])", incidentStart-10)
	fmt.Fprintf(out, "      - expr: 'ALERTS{alertname=\"LLMIncident\"}'\n        eval_time: %ds\n        exp_samples: [{labels: 'ALERTS{%s}', value: 1}]\n", incidentStart+60, whose)
	fmt.Fprintf(out, "      - expr: 'ALERTS{alertname=\"LLMIncident\"}'\n        eval_time: %ds\n        exp_samples: [{labels: 'ALERTS{%s}', value: 1}]\n", incidentStart+200, whose)
	fmt.Fprintf(out, "      - {expr: 'count(count_over_time(ALERTS{alertname=\"LLMIncident\"}[8m]))', eval_time: %ds, exp_samples: [{value: 1}]}\n", incidentEnd+180)
	// It begins once.
	fmt.Fprintf(out, "      - {expr: 'sum(count_over_time((ALERTS{alertname=\"LLMIncident\"} unless ALERTS{alertname=\"LLMIncident\"} offset 10s)[9m:10s]))', eval_time: %ds, exp_samples: [{value: 1}]}\n", incidentEnd+180)
	never(`ALERTS{alertname="LLMIncident"}`, incidentEnd+180)
	never(`count_over_time(ALERTS{alertname="LLMIncident"}[20m])`, incidentEnd+180+1200)
}

// incidentHours returns one hour for each of 23 incidents.
func incidentHours(seed uint64) []*hour {
	var hours []*hour
	add := func(h *hour) {
		h.rng = rand.New(rand.NewPCG(seed, uint64(len(hours))))
		h.name = fmt.Sprintf("%d-%d %s", seed, len(hours), h.name)
		hours = append(hours, h)
	}
	classes := []string{"provider_error", "connection_failed", "stream_interrupted", "watchdog_timeout"}
	for n := range 20 {
		i := &incident{share: []float64{1, 0.7}[n/2%2], class: classes[n%4]}
		switch n % 5 {
		case 0, 1, 2:
			i.whose, i.provider = "them", replayProviders[n%3]
		case 3:
			i.whose, i.service = "us", replayServices[n/5%3]
		case 4:
			i.whose = "network"
		}
		rate := 50.0
		if i.whose == "us" {
			rate = 150 // of which a third is the service's
		}
		add(&hour{name: i.whose, rate: rate, deploys: n%4 == 0, incident: i})
	}
	// The other providers have too few requests to be known as well.
	for n, provider := range replayProviders {
		add(&hour{name: "unclear", rate: 50, others: 0.2, incident: &incident{whose: "unclear", provider: provider, share: 1, class: classes[n]}})
	}
	return hours
}

// Scripted incidents are alerted on within a minute at 50 runs a minute, as one alert that says whose doing it is, and
// quiet hours never are, with the failures that are usual in them. `make incidents` plays 200 of these; a sample runs otherwise.
func TestIncidentReplay(t *testing.T) {
	t.Parallel() // with those that wait for traffic
	promtool := promBinary(t, "promtool")
	number := func(name string, standard int) int {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			require.NoError(t, err, name)
			return n
		}
		return standard
	}
	var hours []*hour
	const firstSeed = 7
	for seed := range number("INCIDENTS_SEEDS", 1) {
		hours = append(hours, incidentHours(firstSeed+uint64(seed))...)
	}
	for n := range number("INCIDENTS_QUIET_HOURS", 8) {
		hours = append(hours, &hour{
			name: fmt.Sprintf("quiet %d", n),
			rng:  rand.New(rand.NewPCG(0, uint64(n))),
			rate: []float64{0.05, 1, 10, 50}[n%4], deploys: n%3 == 0, bursts: n%5 == 0,
		})
	}
	// Each hour takes promtool 8 s: `make validate` plays every third.
	step := 3
	if os.Getenv("INCIDENTS_QUIET_HOURS") != "" {
		step = 1
	}
	rules, err := filepath.Abs("prometheus")
	require.NoError(t, err)
	dir := t.TempDir()
	for i := 0; i < len(hours); i += step {
		h := hours[i]
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			// Groups are evaluated at times of their own: here each comes before those that it reads from, which is its latest.
			fmt.Fprintf(&out, "rule_files: [%s/recording.yaml, %s/alerts.yaml]\nevaluation_interval: 10s\ngroup_eval_order: [llm-agents, llm-incidents, llm-runs, llm-requests, llm-baselines, llm-classifier]\ntests:\n", rules, rules)
			h.write(&out)
			file := filepath.Join(dir, strings.ReplaceAll(h.name, " ", "-")+".yaml")
			require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
			log, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
			assert.NoError(t, err, "%s", log)
		})
	}
}
