package instrumentations

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
	"github.com/otelllm/otelllm-go/test/internal/process"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// TestHealthyAgents checks that nothing is reported about agents that are well: no run is
// incomplete, abandoned or of an unknown failure, none counts twice, and no alert is even
// pending. They run under every instrumentation, and in Go with nothing but the transport,
// both directly and through the gateway of examples/gateway, in a loop for HEALTHY_FOR
// (default 20s). The Collector is configured as shipped, and so is the Prometheus of
// PROMETHEUS_BIN.
func TestHealthyAgents(t *testing.T) {
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("HEALTHY_FOR"), "20s"))
	require.NoError(t, err, "HEALTHY_FOR")
	node := find(t)
	verdicts := &verdicts{traces: make(map[pcommon.TraceID]*trace), runs: make(map[string]int), problems: make(map[string][]pcommon.TraceID)}
	collector := startShipped(t, max(30*time.Second, lasts/5), verdicts.take)
	prometheus := startPrometheus(t, collector)
	server, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	gateway := startGateway(t, "http://"+server.Addr(), collector.endpoint)
	w := &healthyWorld{server: server, gateway: gateway.address, endpoint: collector.endpoint}

	inGo := newGoAgents(t, collector.endpoint)

	began, atFirst, agents := time.Now(), collector.rss(t), 0
	for round := 0; round == 0 || time.Since(began) < lasts; round++ {
		agents += w.runGo(t, inGo, round) + w.runNode(t, node, round)
		t.Logf("%s: %d agents, the Collector has %d MiB, facts of %.0f KiB", time.Since(began).Round(time.Second), agents,
			collector.rss(t), collector.metric(t, "otelcol_processor_llm_classify_fact_bytes")/(1<<10))
	}
	inGo.stop(t)
	gateway.stop(t)
	collector.quiet(t)
	atEnd := collector.rss(t)

	t.Run("alerts", func(t *testing.T) {
		if prometheus == nil {
			t.Skip("LEFT OUT: PROMETHEUS_BIN names no folder with a Prometheus")
		}
		// The last runs are counted, and the rules evaluated with them.
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			require.InDelta(t, verdicts.judged(), prometheus.number(t, `sum(llm_run_calls_total)`), 0)
		}, time.Minute, time.Second)
		prometheus.evaluated(t)
		assert.Empty(t, prometheus.alerts(t))
		ever := prometheus.query(t, fmt.Sprintf("count_over_time(ALERTS[%ds])", int(time.Since(began).Seconds())))
		assert.Empty(t, ever, "alerts that were pending or firing for a time")
	})
	// What waits for the end of a run is judged now.
	require.NoError(t, collector.Stop(15*time.Second))
	verdicts.check(t)
	t.Logf("%d agents in %s; the Collector had %d MiB at first and %d MiB at the end\n%s", agents, time.Since(began).Round(time.Second), atFirst, atEnd, verdicts)
}

// vercel6 are the producers on version 6 of the AI SDK.
var vercel6 = []string{"vercel-6", eagerProducer}

// wellEnded are the outcomes of runs of agents that are well.
var wellEnded = []string{semconv.RunOutcomeSucceeded.String(), semconv.RunOutcomeRecovered.String()}

// healthyWorld is where the agents run.
type healthyWorld struct {
	server   *faultyllm.Server
	gateway  string // host:port
	endpoint string // URL for OTLP over HTTP
}

// each is how many agents of a kind run at the same time in a round.
const each = 10

// baseURL returns where an agent finds its model: an answer, or a tool and then an answer.
// One in twenty gets a rate limit first. The gateway asks again once by itself.
func (w *healthyWorld) baseURL(key string, wire faultyllm.Wire, throughGateway bool, round, i int) string {
	limited := faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: 10 * time.Millisecond})
	script := []faultyllm.Exchange{answers}
	switch {
	case i == 0 && round%2 == 0 && throughGateway:
		script = []faultyllm.Exchange{limited, limited, answers}
	case i == 0 && round%2 == 0:
		script = []faultyllm.Exchange{limited, answers}
	case i%2 == 0:
		id := fmt.Sprintf("call_%016x%016x", rand.Uint64(), rand.Uint64())
		script = []faultyllm.Exchange{
			faultyllm.Answer(faultyllm.ToolCall(id, "apply_patch", `{"path":`, `"main.go"}`), faultyllm.Finish(faultyllm.ToolCalls)), answers,
		}
	}
	key = fmt.Sprintf("%s-%d-%d", key, round, i)
	w.server.Play(key, script...)
	url := w.server.BaseURL(key, wire)
	if throughGateway {
		url = strings.Replace(url, w.server.Addr(), w.gateway, 1)
	}
	return url
}

// runNode runs agents under each of the producers, those of one file in one process. Those
// with HTTP spans send their trace context to the gateway, the others do not.
func (w *healthyWorld) runNode(t *testing.T, agents *nodeagent.Agents, round int) (ran int) {
	t.Helper()
	type process struct {
		file string
		http bool
	}
	tasks := make(map[process][]nodeagent.Task)
	for n, p := range producers() {
		for _, throughGateway := range []bool{false, true} {
			for i := range each {
				key := fmt.Sprintf("%s-%t", p.key(), throughGateway)
				of := process{p.file, p.http}
				tasks[of] = append(tasks[of], nodeagent.Task{
					Name: fmt.Sprintf("%s-%d", key, i), API: api(p.wire), MaxRetries: 2, Prompt: prompt(i),
					BaseURL: strings.TrimSuffix(w.baseURL(key, p.wire, throughGateway, round+n, i), "/"),
				})
			}
		}
	}
	for of, list := range tasks {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		left, err := agents.Run(ctx, of.file, of.http, w.endpoint, list)
		cancel()
		require.NoError(t, err)
		for _, r := range left.Results {
			assert.Empty(t, r.Saw, "the agent %s failed", r.Name)
		}
		ran += len(list)
	}
	return ran
}

// goAgents are agents in Go that have nothing but the transport, in several ways.
type goAgents []*goWay

type goWay struct {
	service        string
	throughGateway bool
	propagates     bool
	inSpans        bool // each request has a trace of the application's above it

	provider *sdktrace.TracerProvider
	client   *http.Client
}

func newGoAgents(t *testing.T, endpoint string) goAgents {
	t.Helper()
	ways := goAgents{
		{service: "go"},
		{service: "go-gateway", throughGateway: true},
		{service: "go-gateway-propagated", throughGateway: true, propagates: true},
		{service: "go-in-spans", inSpans: true},
		{service: "go-in-spans-gateway-propagated", inSpans: true, throughGateway: true, propagates: true},
	}
	for _, way := range ways {
		exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
		require.NoError(t, err)
		way.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter),
			sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName(way.service))))
		options := []otelllm.TransportOption{otelllm.WithTracerProvider(way.provider)}
		if way.propagates {
			options = append(options, otelllm.WithPropagators(propagation.TraceContext{}))
		}
		way.client = &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, options...)}
	}
	return ways
}

// stop ends the runs that wait for anything, and exports what is left.
func (a goAgents) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, otelllm.Shutdown(t.Context()))
	for _, way := range a {
		require.NoError(t, way.provider.Shutdown(t.Context()))
	}
}

func (w *healthyWorld) runGo(t *testing.T, agents goAgents, round int) (ran int) {
	t.Helper()
	var all sync.WaitGroup
	for n, way := range agents {
		for _, wire := range faultyllm.Wires() {
			for i := range each {
				model := newModel(wire, w.baseURL(way.service+"-"+wire.String(), wire, way.throughGateway, round+n, i), way.client)
				all.Go(func() { assert.NoError(t, way.converse(t.Context(), model, prompt(i)), way.service) })
				ran++
			}
		}
	}
	all.Wait()
	return ran
}

// prompt returns the task of an agent. Most have the same one, at the same time. The agent
// that may be limited has its own: if others ask the same while it waits, no gateway could
// know which of them comes back.
func prompt(i int) string {
	if i > 0 {
		return "Fix the bug in main.go."
	}
	return fmt.Sprintf("Fix bug %x.", rand.Uint64())
}

func newModel(wire faultyllm.Wire, url string, client *http.Client) agent.Model {
	config := agent.Config{Model: "gpt-5.5", Stream: true, Retries: 2}
	openai := []openaioption.RequestOption{openaioption.WithBaseURL(url), openaioption.WithAPIKey("none"), openaioption.WithHTTPClient(client)}
	switch wire {
	case faultyllm.Responses:
		return agent.NewResponses(config, openai...)
	case faultyllm.Anthropic:
		config.Model = "claude-opus-4-8"
		return agent.NewAnthropic(config, anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("none"), anthropicoption.WithHTTPClient(client))
	default:
		return agent.NewChat(config, openai...)
	}
}

// converse is an agent's loop, without any instrumentation of its own.
func (w *goWay) converse(ctx context.Context, model agent.Model, prompt string) error {
	model.User(prompt)
	ask := func(ctx context.Context) (agent.Reply, error) {
		if w.inSpans {
			var span oteltrace.Span
			ctx, span = w.provider.Tracer("app").Start(ctx, "handle_step")
			defer span.End()
		}
		return model.Ask(ctx, []agent.Tool{{Name: "apply_patch"}}, func(string) {})
	}
	for range 4 {
		reply, err := ask(ctx)
		if err != nil || len(reply.Calls) == 0 {
			return err
		}
		for _, call := range reply.Calls {
			if err := model.Output(ctx, call, "patched", false); err != nil {
				return err
			}
		}
	}
	return agent.ErrTooManyTurns
}

// gateway is the program of examples/gateway.
type gateway struct {
	address string // host:port
	cmd     *exec.Cmd
}

func startGateway(t *testing.T, upstream, endpoint string) *gateway {
	t.Helper()
	dir := t.TempDir()
	g := &gateway{}
	free, err := process.FreeAddresses(1)
	require.NoError(t, err)
	g.address = free[0]
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./gateway")
	build.Dir = filepath.Join(built.Root(t), "examples")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	g.cmd = exec.CommandContext(t.Context(), filepath.Join(dir, "gateway")) // a test that fails kills it
	g.cmd.Env = append(os.Environ(), "LISTEN="+g.address, "UPSTREAM_URL="+upstream, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	g.cmd.Stderr = os.Stderr
	require.NoError(t, g.cmd.Start())
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + g.address)
		return err == nil && resp.Body.Close() == nil
	}, 30*time.Second, 20*time.Millisecond, "the gateway does not answer")
	return g
}

// stop stops the gateway, which exports what it has.
func (g *gateway) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, g.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, g.cmd.Wait())
}

// verdicts is what the Collector has exported.
type verdicts struct {
	mu sync.Mutex
	// Everything below is guarded by mu.
	spans    int
	traces   map[pcommon.TraceID]*trace
	runs     map[string]int               // by service and outcome
	problems map[string][]pcommon.TraceID // by what is wrong
}

type trace struct {
	runs  int      // spans with a verdict on a run
	spans []string // in the order of arrival
}

func (v *verdicts) take(td ptrace.Traces) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		service := "no service"
		if name, ok := rs.Resource().Attributes().Get("service.name"); ok {
			service = name.Str()
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				v.takeSpan(service, s)
			}
		}
	}
}

// takeSpan takes one span, with mu held.
func (v *verdicts) takeSpan(service string, s ptrace.Span) {
	v.spans++
	in := v.traces[s.TraceID()]
	if in == nil {
		in = &trace{}
		v.traces[s.TraceID()] = in
	}
	in.spans = append(in.spans, describe(service, s))
	wrong := func(format string, args ...any) {
		what := service + ": " + s.Name() + ": " + fmt.Sprintf(format, args...)
		v.problems[what] = append(v.problems[what], s.TraceID())
	}
	verdict := report.ReadVerdict(s.Attributes())
	switch verdict.Class {
	case semconv.ClassUnset:
	case semconv.ClassProviderError:
		if verdict.Cause != semconv.CauseRateLimited {
			wrong("%s, not a rate limit", verdict.Cause)
		}
	default:
		// Of an attempt that the provider refused, version 6 of the AI SDK records only that it failed.
		if !slices.Contains(vercel6, service) || s.Name() != "ai.streamText.doStream" || verdict.Class != semconv.ClassUnclassified {
			wrong("%s / %s", verdict.Class, verdict.Cause)
		}
	}
	if verdict.Outcome == semconv.RunOutcomeUnset {
		return
	}
	v.runs[service+" "+verdict.Outcome.String()]++
	if !slices.Contains(wellEnded, verdict.Outcome.String()) {
		wrong("a run that is %s", verdict.Outcome)
	}
	if in.runs++; in.runs == 2 {
		wrong("a second run in the trace")
	}
}

// describe returns a span in one line.
func describe(service string, s ptrace.Span) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s < %s %s %s, %s, %s after %s:", service, s.SpanID(), s.ParentSpanID(), s.Name(), s.Kind(), s.Status().Code(),
		s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()), s.StartTimestamp().AsTime().Format("05.000"))
	for _, key := range slices.Sorted(maps.Keys(s.Attributes().AsRaw())) {
		if strings.HasPrefix(key, "llm.") || strings.HasPrefix(key, "gen_ai.response") || strings.HasPrefix(key, "gen_ai.conversation") {
			value, _ := s.Attributes().Get(key)
			fmt.Fprintf(&b, " %s=%s", key, value.AsString())
		}
	}
	return b.String()
}

// judged returns the number of runs.
func (v *verdicts) judged() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, times := range v.runs {
		n += times
	}
	return n
}

// check fails for everything that was reported, with a trace for each.
func (v *verdicts) check(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	assert.NotEmpty(t, v.runs)
	for _, what := range slices.Sorted(maps.Keys(v.problems)) {
		in := v.problems[what]
		t.Errorf("%d times: %s; trace %s:\n%s", len(in), what, in[0], strings.Join(v.traces[in[0]].spans, "\n"))
	}
}

// String returns the figures.
func (v *verdicts) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d traces, %d spans, runs:\n", len(v.traces), v.spans)
	for _, of := range slices.Sorted(maps.Keys(v.runs)) {
		fmt.Fprintf(&b, "  %s %d\n", of, v.runs[of])
	}
	return b.String()
}
