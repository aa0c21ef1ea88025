package collector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An hour of traffic as Prometheus sees it: counters are flushed every 15 s and scraped every 10 s.
type hour struct {
	name     string
	rng      *rand.Rand
	rate     float64 // runs a minute at each provider, by all services together
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

// series plays the hour, and writes the series of a unit test of promtool.
func (h *hour) series(out *strings.Builder) {
	type counter struct{ provider, service, class string }
	counts, shown := map[counter]int{}, map[counter][]string{}
	runs, runsShown := map[[2]string]int{}, map[[2]string][]string{}
	class := "stream_interrupted"
	if h.incident != nil {
		class = h.incident.class
	}
	for _, p := range replayProviders {
		for _, s := range replayServices {
			counts[counter{p, s, ""}], counts[counter{p, s, class}] = 0, 0
		}
	}
	for _, s := range replayServices {
		runs[[2]string{s, "succeeded"}], runs[[2]string{s, "failed"}] = 0, 0
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
			for h.rng.Float64() < rate/(1+rate) {
				s := replayServices[h.rng.IntN(len(replayServices))]
				share := 0.01
				if i := h.incident; i != nil && at >= incidentStart && at < incidentEnd &&
					(i.provider == "" || i.provider == p) && (i.service == "" || i.service == s) {
					share = i.share
				}
				failed := true
				for range 3 { // an agent tries a request up to three times
					if failed = h.rng.Float64() < share; !failed {
						counts[counter{p, s, ""}]++
						break
					}
					counts[counter{p, s, class}]++
				}
				runs[[2]string{s, map[bool]string{true: "failed", false: "succeeded"}[failed]}]++
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
			for _, c := range []string{"", class} {
				fmt.Fprintf(out, "      - series: llm_request_calls_total{service_name=%q, gen_ai_provider_name=%q, gen_ai_request_model=\"m\", server_address=\"api.%s\", llm_failure_class=%q}\n        values: %s\n",
					s, p, p, c, strings.Join(shown[counter{p, s, c}], " "))
			}
		}
	}
	for _, s := range replayServices {
		for _, o := range []string{"succeeded", "failed"} {
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
	case "them":
		whose += fmt.Sprintf(`, gen_ai_provider_name=%q`, i.provider)
	case "us":
		whose += fmt.Sprintf(`, service_name=%q`, i.service)
	}
	// Never before it, within a minute, one alert and the right one, and over three minutes after its end.
	never("count_over_time("+firing+"[29m])", incidentStart-10)
	fmt.Fprintf(out, "      - expr: 'ALERTS{alertname=\"LLMIncident\"}'\n        eval_time: %ds\n        exp_samples: [{labels: 'ALERTS{%s}', value: 1}]\n", incidentStart+60, whose)
	fmt.Fprintf(out, "      - expr: 'ALERTS{alertname=\"LLMIncident\"}'\n        eval_time: %ds\n        exp_samples: [{labels: 'ALERTS{%s}', value: 1}]\n", incidentStart+200, whose)
	fmt.Fprintf(out, "      - {expr: 'count(count_over_time(ALERTS{alertname=\"LLMIncident\"}[8m]))', eval_time: %ds, exp_samples: [{value: 1}]}\n", incidentEnd+180)
	never(`ALERTS{alertname="LLMIncident"}`, incidentEnd+180)
	never(`count_over_time(ALERTS{alertname="LLMIncident"}[20m])`, incidentEnd+180+1200)
}

// Scripted incidents are alerted on within a minute at 50 runs a minute, as one alert that says whose doing it is, and
// quiet hours never are. INCIDENTS_QUIET_HOURS=200 plays all of them; a sample runs otherwise.
func TestIncidentReplay(t *testing.T) {
	promtool := promBinary(t, "promtool")
	var hours []*hour
	add := func(h *hour) {
		h.rng = rand.New(rand.NewPCG(7, uint64(len(hours))))
		h.name = fmt.Sprintf("%d %s", len(hours), h.name)
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
	quiet := 8
	if n := os.Getenv("INCIDENTS_QUIET_HOURS"); n != "" {
		_, err := fmt.Sscan(n, &quiet)
		require.NoError(t, err)
	}
	for n := range quiet {
		add(&hour{name: "quiet", rate: []float64{0.05, 1, 10, 50}[n%4], deploys: n%3 == 0, bursts: n%5 == 0})
	}
	rules, err := filepath.Abs("prometheus")
	require.NoError(t, err)
	dir := t.TempDir()
	for _, h := range hours {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			fmt.Fprintf(&out, "rule_files: [%s/recording.yaml, %s/alerts.yaml]\nevaluation_interval: 10s\ntests:\n", rules, rules)
			h.write(&out)
			file := filepath.Join(dir, strings.ReplaceAll(h.name, " ", "-")+".yaml")
			require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
			log, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
			assert.NoError(t, err, "%s", log)
		})
	}
}
