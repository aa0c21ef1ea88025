package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// answers says what each panel that shows a number, and each of its queries, must show: from the ledger of what really
// happened in the time that the query is about, and nothing else. by is the labels that tell the values apart.
type answer struct {
	by   []string
	want func(l *traffic.Ledger) map[string]float64
	// most is how many values are shown, the largest; 0 is all.
	most int
}

var endpoint = []string{"gen_ai_provider_name", "gen_ai_request_model", "server_address"}

// total is a number without labels. It is 0 where nothing happened.
func total(of func(l *traffic.Ledger) traffic.Entries) answer {
	return answer{want: func(l *traffic.Ledger) map[string]float64 { return map[string]float64{"": of(l).Sum()} }}
}

// sums are numbers by labels.
func sums(of func(l *traffic.Ledger) traffic.Entries, by ...string) answer {
	return answer{by: by, want: func(l *traffic.Ledger) map[string]float64 { return of(l).By(by...) }}
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
	}}
}

func runs(l *traffic.Ledger) traffic.Entries       { return l.Runs }
func failedRuns(l *traffic.Ledger) traffic.Entries { return l.Runs.Where("llm_run_outcome", "failed") }
func requests(l *traffic.Ledger) traffic.Entries   { return l.Requests }
func tools(l *traffic.Ledger) traffic.Entries      { return l.Tools }

func unwellTools(l *traffic.Ledger) traffic.Entries {
	return l.Tools.WhereNot("llm_tool_outcome", "succeeded")
}

func brokenRequests(l *traffic.Ledger) traffic.Entries {
	return l.Requests.Where("llm_failure_class", "connection_failed", "stream_interrupted", "protocol_violation", "watchdog_timeout",
		"provider_error", "empty_completion")
}

func lostRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_failure_class", "tool_output_lost")
}

func unsafeRuns(l *traffic.Ledger) traffic.Entries {
	return failedRuns(l).WhereNot("llm_retry_safety", "safe_auto_retry")
}

func recoveredRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_run_outcome", "recovered")
}

func brokenRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_run_outcome", "recovered", "failed")
}

func wasted(kind string) func(l *traffic.Ledger) traffic.Entries {
	return func(l *traffic.Ledger) traffic.Entries { return l.WastedTokens.Where("gen_ai_token_type", kind) }
}

func wastedTokens(l *traffic.Ledger) traffic.Entries   { return l.WastedTokens }
func wastedRequests(l *traffic.Ledger) traffic.Entries { return l.WastedRequests }

func unseen(l *traffic.Ledger) traffic.Entries {
	return l.WastedRequests.Where("llm_usage_seen", "false")
}

func nothing(*traffic.Ledger) traffic.Entries { return nil }

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
			share(brokenRequests, requests, true, endpoint, endpoint...),
			distinct(brokenRequests, "service_name", endpoint...),
		},
		"Failed runs, by class and phase": {share(failedRuns, failedRuns, false, nil, "llm_failure_class", "llm_failure_phase")},
		"Whose doing":                     {sums(failedRuns, "llm_failure_origin")},
		"Causes":                          {top(9, failedRuns, "llm_failure_cause")},
		"Not safe to repeat":              {share(unsafeRuns, failedRuns, true, nil)},
		"Failed requests, by cause and model": {
			share(brokenRequests, requests, false, []string{"gen_ai_request_model"}, "llm_failure_cause", "gen_ai_request_model"),
		},
		"Where they went": {
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
		"Runs that it ended": {total(failedRuns)},
		"Trying again helps": {share(recoveredRuns, brokenRuns, true, nil)},
		"Services":           {distinct(brokenRequests, "service_name"), distinct(requests, "service_name")},
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
	"llm-runs.json/Alerts":               "holdAlertPanels",
	"llm-runs.json/Which alerts":         "holdAlertPanels",
	"llm-runs.json/What decided":         "the reason is the rule that decided, which nobody but the rules knows",
	"llm-incidents.json/Others are well": needsProvider,
}

// top is the n largest sums.
func top(n int, of func(l *traffic.Ledger) traffic.Entries, by ...string) answer {
	a := sums(of, by...)
	a.most = n
	return a
}

// Every panel that shows a number is held against the ledger, or says where else it is.
func TestEveryNumberHasAnAnswer(t *testing.T) {
	for name, d := range readDashboards(t) {
		titles := map[string]bool{}
		for _, p := range d.Panels {
			instant := p.Type == "stat" || p.Type == "bargauge" || p.Type == "table" && p.Targets[0].Expr != ""
			if !instant {
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

// selections are what is chosen at the top of the dashboards.
var selections = []map[string]string{
	{},
	{"provider": "anthropic"},
	{"service": "coder-web"},
	{"provider": "azure.ai.openai", "model": "gpt-5.5"},
}

// only returns the part of the ledger that is chosen and that happened after from, until and with to.
func only(l *traffic.Ledger, chosen map[string]string, from, to time.Time) *traffic.Ledger {
	keep := func(entries traffic.Entries, provider bool) traffic.Entries {
		entries = entries.Between(from, to)
		if v, ok := chosen["service"]; ok {
			entries = entries.Where("service_name", v)
		}
		if v, ok := chosen["provider"]; ok && provider {
			entries = entries.Where("gen_ai_provider_name", v)
		}
		if v, ok := chosen["model"]; ok && provider {
			entries = entries.Where("gen_ai_request_model", v)
		}
		return entries
	}
	return &traffic.Ledger{
		Runs: keep(l.Runs, true), Requests: keep(l.Requests, true), Tools: keep(l.Tools, false),
		LostOutputs: keep(l.LostOutputs, true), RecoveredFailures: keep(l.RecoveredFailures, true),
		WastedTokens: keep(l.WastedTokens, true), WastedRequests: keep(l.WastedRequests, true),
	}
}

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

// holdCounters compares the counters with the ledger, exactly: every run, request and tool was counted once, with the
// labels of what really happened.
func holdCounters(t *testing.T, p *prometheus, l *traffic.Ledger) {
	t.Helper()
	for _, c := range []struct {
		metric  string
		entries traffic.Entries
		by      []string
	}{
		{"llm_run_calls_total", l.Runs, []string{
			"service_name", "gen_ai_agent_name", "gen_ai_provider_name", "gen_ai_request_model", "llm_run_outcome", "llm_failure_class",
			"llm_failure_cause", "llm_failure_phase", "llm_failure_origin", "llm_retry_safety",
		}},
		{"llm_request_calls_total", l.Requests, []string{
			"service_name", "gen_ai_provider_name", "gen_ai_request_model", "server_address", "llm_failure_class",
			"llm_failure_cause", "llm_failure_phase", "llm_failure_origin", "llm_retry_safety", "llm_watchdog_kind",
		}},
		{"llm_tool_calls_total", l.Tools, []string{
			"service_name", "gen_ai_tool_name", "llm_tool_outcome", "llm_tool_effect", "llm_tool_output_delivery", "llm_failure_class",
		}},
		{"llm_run_recovered_failures_total", l.RecoveredFailures, []string{"service_name"}},
		{"llm_run_missing_outputs_total", l.LostOutputs, []string{"service_name"}},
		{"llm_wasted_tokens_total", l.WastedTokens, append([]string{"service_name", "llm_failure_class", "gen_ai_token_type"}, model...)},
		{"llm_wasted_requests_total", l.WastedRequests, append([]string{"service_name", "llm_failure_class", "llm_usage_seen"}, model...)},
	} {
		want := c.entries.By(c.by...)
		got := map[string]float64{}
		for _, s := range p.query(t, c.metric) {
			got[traffic.Key(s.labels, c.by...)] += s.value
		}
		maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
		assert.Equal(t, want, got, c.metric)
	}
}

// holdStalls compares how many streams were silent for longer than a bound of the histogram, and how long all of them were.
func holdStalls(t *testing.T, p *prometheus, l *traffic.Ledger) {
	t.Helper()
	var stalls float64
	for _, e := range l.Gaps {
		if e.Value > 16 {
			stalls++
		}
	}
	require.Positive(t, stalls)
	assert.InDelta(t, stalls, p.number(t,
		`sum(llm_request_longest_gap_seconds_count) - sum(llm_request_longest_gap_seconds_bucket{le=~"16([.]0)?"})`), 0)
	for metric, entries := range map[string]traffic.Entries{
		"llm_request_longest_gap_seconds_sum": l.Gaps, "llm_request_time_to_first_chunk_seconds_sum": l.FirstChunks,
		"llm_request_duration_seconds_sum": l.RequestSeconds, "llm_tool_duration_seconds_sum": l.ToolSeconds,
		"llm_run_duration_seconds_sum": l.RunSeconds,
	} {
		assert.InEpsilon(t, entries.Sum(), p.number(t, "sum("+metric+")"), 0.001, metric)
	}
}

// watched is a Collector with its metrics, a Prometheus that scrapes it, and the alerts that were seen to fire.
type watched struct {
	otlp, grpc string
	*prometheus

	mu     sync.Mutex
	fired  map[string]*firing // by the alert's name and labels
	looked int                // how often
}

// firing is an alert that fired.
type firing struct {
	labels      map[string]string
	first, last time.Time
}

// startWatched runs config.yaml and config-metrics.yaml with Prometheus and its rules. shipped keeps all times as they
// are shipped but for run_timeout; otherwise those are shortened that would make a test wait.
func startWatched(t *testing.T, shipped bool, runTimeout time.Duration, backend string) *watched {
	t.Helper()
	bin := binary(t)
	promBinary(t, "prometheus")
	w := &watched{otlp: freeAddress(t), grpc: freeAddress(t), fired: map[string]*firing{}}
	verdicts, own, health := freeAddress(t), freeAddress(t), freeAddress(t)
	ownHost, ownPort, _ := strings.Cut(own, ":")
	hold, batch, flush, retry := "", "", "", ""
	if !shipped {
		retry = "retry_on_failure: {initial_interval: 500ms, max_interval: 500ms, max_elapsed_time: 1s}"
		hold, batch, flush = "max_hold: 1s, settle: 500ms, ", "batch: {timeout: 100ms}", flushOften(t)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
processors:
  llm_classify: {%srun_timeout: %s}
  %s
%s
exporters: {prometheus: {endpoint: %q}, otlp_grpc: {%s}}
service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: %q, port: %s}}}}]}}}
`, health, w.grpc, w.otlp, hold, runTimeout, batch, flush, verdicts, retry, ownHost, ownPort), 0o600))
	cmd := exec.Command(bin, "--config=file:config.yaml", "--config=file:config-metrics.yaml", "--config=file:"+overlay)
	cmd.Env = environ(map[string]string{"BACKEND_OTLP": backend})
	run(t, cmd)
	healthy(t, health)
	targets := map[string]string{"127.0.0.1:8889": verdicts, "127.0.0.1:8888": own}
	if shipped {
		w.prometheus = startShippedPrometheus(t, targets)
	} else {
		w.prometheus = startPrometheus(t, targets)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.InDelta(t, 2, w.number(t, `sum(up)`), 0)
	}, time.Minute, 100*time.Millisecond)

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watch(ctx, t.Logf, time.Second)
	}()
	t.Cleanup(func() { stop(); <-done }) // before Prometheus ends
	return w
}

// startShippedPrometheus starts Prometheus as it is shipped, but for addresses.
func startShippedPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	raw, err := os.ReadFile("prometheus/prometheus.yaml")
	require.NoError(t, err)
	text := string(raw)
	for shipped, used := range targets {
		require.Contains(t, text, shipped)
		text = strings.ReplaceAll(text, shipped, used)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	rules, err := filepath.Glob("prometheus/*.yaml")
	require.NoError(t, err)
	for _, file := range rules {
		if name := filepath.Base(file); name != "prometheus.yaml" {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		}
	}
	p := &prometheus{address: freeAddress(t)}
	run(t, exec.Command(promBinary(t, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--enable-feature=exemplar-storage", "--web.enable-remote-write-receiver"))
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get("http://" + p.address + "/-/ready")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
	return p
}

// watch notes which alerts fire, until the context ends.
func (w *watched) watch(ctx context.Context, log func(string, ...any), every time.Duration) {
	for ctx.Err() == nil {
		// Prometheus is asked as soon as it runs; an answer that is no answer yet is left out.
		alerts, err := w.alerts(ctx)
		now := time.Now()
		w.mu.Lock()
		for _, labels := range alerts {
			key := fmt.Sprint(labels)
			if w.fired[key] == nil {
				w.fired[key] = &firing{labels: labels, first: now}
				log("fires: %v", labels)
			}
			w.fired[key].last = now
		}
		if err == nil {
			w.looked++
		}
		w.mu.Unlock()
		_ = traffic.SystemClock{}.Sleep(ctx, every)
	}
}

// alerts returns the labels of the alerts that fire, as Prometheus' own list has them.
func (w *watched) alerts(ctx context.Context) (alerts []map[string]string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			alerts = append(alerts, a.Labels)
		}
	}
	return alerts, nil
}

// play sends the runs and waits until all of them are counted. Were one counted twice, that would never be.
func (w *watched) play(t *testing.T, runs []*traffic.Run, otlp string, lag time.Duration) {
	t.Helper()
	require.NoError(t, traffic.Play(t.Context(), traffic.SystemClock{}, runs, "http://"+otlp+"/v1/traces"))
	ledger := traffic.NewLedger(runs)
	var due time.Time
	for _, r := range runs {
		due = slices.MaxFunc([]time.Time{due, r.Due}, time.Time.Compare)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.InDelta(t, ledger.Runs.Sum(), w.number(t, `sum(llm_run_calls_total)`), 0)
	}, time.Until(due)+lag, time.Second, "the runs that were counted, of those that there were")
}

// counted waits until all that the ledger has is counted, and compares it.
func (w *watched) counted(t *testing.T, ledger *traffic.Ledger) {
	t.Helper()
	// What is of the same flush comes with the same scrape, but not always in the same query.
	eventually(t, func(t *assert.CollectT) {
		require.InDelta(t, ledger.Requests.Sum(), w.number(t, `sum(llm_request_calls_total)`), 0)
		require.InDelta(t, ledger.Tools.Sum(), w.number(t, `sum(llm_tool_calls_total)`), 0)
	})
	assert.Empty(t, w.query(t, `{otel_metric_overflow="true"}`), "series without labels: the limits of config-metrics.yaml are too small")
	holdCounters(t, w.prometheus, ledger)
	holdStalls(t, w.prometheus, ledger)
}

// needsPrograms skips a test where the programs are not there.
func needsPrograms(t *testing.T) {
	t.Helper()
	if os.Getenv("PROMETHEUS_BIN") == "" || os.Getenv("OTELCOL_BIN") == "" {
		t.Skip("LEFT OUT: the dashboards against the truth: `make validate` has a Collector, and fetches a Prometheus where it can")
	}
}

// A minute of much traffic, with an outage and a restart: the short form of `make eyes`.
func TestLedger(t *testing.T) {
	needsPrograms(t)
	const length, runTimeout = 45 * time.Second, 3 * time.Second
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, false, runTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	began := time.Now()
	config := traffic.Config{
		Seed: seed(t), Start: began, For: length, Rate: 600, RunTimeout: runTimeout,
		Outages:  []traffic.Outage{{Provider: "anthropic", From: length / 3, To: length}},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: length / 4, Open: 3}},
	}
	runs := traffic.New(config)
	w.play(t, runs, w.otlp, 30*time.Second)
	ledger := traffic.NewLedger(runs)
	w.counted(t, ledger)
	now := time.Now()
	holdPanels(t, w.prometheus, ledger, now, now.Sub(began)+time.Minute, 0)
	holdOthers(t, w.prometheus, ledger, now)
	w.holdAlertPanels(t)
	w.holdAlerts(t, ledger, config, time.Minute)
}

// What llm_classify has judged, a second one on its way judges no more: each run is counted once, those included that
// never ended and got a span of their own.
func TestSecondCollectorChangesNothing(t *testing.T) {
	needsPrograms(t)
	const length, runTimeout = 15 * time.Second, 3 * time.Second
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, false, runTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	front := start(t, binary(t), map[string]string{"FORWARD_ENDPOINT": w.grpc}, "config-demo.yaml", "config-forward.yaml")
	runs := traffic.New(traffic.Config{
		Seed: seed(t) + 1, Start: time.Now(), For: length, Rate: 600, RunTimeout: runTimeout,
		Restarts: []traffic.Restart{{Service: "coder-web", At: length / 4, Open: 5}},
	})
	w.play(t, runs, front.env["OTLP_HTTP_ENDPOINT"], 30*time.Second)
	w.counted(t, traffic.NewLedger(runs))
}

// A backend that is away: the spans are lost by the exporter, and the first rows of two dashboards say how many.
func TestSpansLost(t *testing.T) {
	needsPrograms(t)
	w := startWatched(t, false, 3*time.Second, freeAddress(t))
	runs := traffic.New(traffic.Config{Seed: seed(t), Start: time.Now(), For: 5 * time.Second, Rate: 600})
	w.play(t, runs, w.otlp, 30*time.Second)
	var sent float64
	for _, r := range runs {
		sent += float64(r.Spans)
	}
	for _, name := range []string{"llm-runs.json", "llm-classifier.json"} {
		d := readDashboards(t)[name]
		for _, panel := range d.Panels {
			if panel.Title != "Spans lost" && panel.Title != "How they were lost" {
				continue
			}
			eventually(t, func(t *assert.CollectT) {
				var lost float64
				for _, target := range panel.Targets {
					lost += w.number(t, d.fill(target.Expr, "5m", nil))
				}
				assert.InEpsilon(t, sent, lost, 0.05, "%s: %s", name, panel.Title)
			})
		}
	}
	assert.InDelta(t, sent, w.number(t, `sum(otelcol_exporter_send_failed_spans) + (sum(otelcol_exporter_enqueue_failed_spans) or vector(0))`), 0)
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

// claims says of each alert whether what it claims is true of the ledger until now, with a fifth of room for how windows
// fall. An alert that is not here is false whenever it fires: nothing is wrong with the Collector in this traffic.
var claims = map[string]func(l *traffic.Ledger, labels map[string]string, at time.Time) bool{
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

func interrupted(l *traffic.Ledger) traffic.Entries {
	return l.Requests.Where("llm_failure_class", "connection_failed", "stream_interrupted", "protocol_violation", "watchdog_timeout")
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
		if claim := claims[name]; claim == nil || !claim(l, f.labels, f.first) {
			t.Errorf("false alert: %v, after %s", f.labels, f.first.Sub(c.Start).Round(time.Second))
		}
	}
	assert.Greater(t, w.looked, 10, "how often the alerts were looked at")
}

const eyesRunTimeout = time.Minute

// eyesTraffic is what `make eyes` plays: 60 runs a minute, an outage in the middle third, and a process that is killed.
func eyesTraffic(seed uint64, start time.Time, length time.Duration) traffic.Config {
	return traffic.Config{
		Seed: seed, Start: start, For: length, Rate: 60, RunTimeout: eyesRunTimeout,
		Outages:  []traffic.Outage{{Provider: "anthropic", From: length / 3, To: length * 2 / 3}},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: length / 4, Open: 3}},
	}
}

// `make eyes`: as long as EYES says, with all times as they are shipped, but for run_timeout.
func TestEyes(t *testing.T) {
	text := os.Getenv("EYES")
	if text == "" {
		t.Skip("a long one: run `make eyes`")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "EYES")
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, true, eyesRunTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	began := time.Now()
	config := eyesTraffic(seed(t), began, length)
	runs := traffic.New(config)
	ledger := traffic.NewLedger(runs)
	t.Logf("%d runs: %v", len(runs), ledger.Runs.By("llm_run_outcome"))
	w.play(t, runs, w.otlp, 2*time.Minute)
	w.counted(t, ledger)
	// The numbers at the end, and those that were shown on the way: a verdict is shown up to lag after its run.
	const lag = 75 * time.Second
	for at := began.Add(2 * time.Minute); at.Before(began.Add(length)); at = at.Add(2 * time.Minute) {
		holdPanels(t, w.prometheus, ledger, at, at.Sub(began)+time.Minute, lag)
	}
	now := time.Now()
	holdPanels(t, w.prometheus, ledger, now, now.Sub(began)+time.Minute, lag)
	w.holdAlerts(t, ledger, config, time.Minute)
}

// seed is the one that SEED names, or 1.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "SEED")
	return n
}
