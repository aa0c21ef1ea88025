package property

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// A process that is killed loses nothing: what was held is held again, for no longer than it would have
// been, spans of an open run that had gone come again, and the run is judged on all of it.
func TestKillLosesNothing(t *testing.T) {
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), harness.OtherSpan(9, 1, 0.1, 0.2))
	h.Pass(t, harness.MaxHold) // it goes; its facts stay
	require.Len(t, harness.SpansOf(h.Out()), 2)
	h.Consume(t, harness.RequestSpan(3, 1, 31, 32).With(semconv.RequestAttempt(2)).Answered("stop", harness.Answer))
	h.Consume(t, harness.FinishedRun(2)...) // judged: nothing of it comes back
	h.Pass(t, 10*time.Second)

	h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
	assert.Empty(t, h.Sink.AllTraces(), "nothing goes before all is read")
	assert.Equal(t, 1, h.Load().Traces)
	at, ok := h.NextDue()
	require.True(t, ok)
	assert.Equal(t, harness.T0.Add(harness.MaxHold), at, "the time of what is held goes on")
	h.Consume(t, harness.RunSpan(1, 0, 33, 2, 0))
	got := harness.Verdicts(h.Out())
	require.Len(t, got, 2, "what had gone before does not come again")
	assert.Equal(t, harness.Ran(semconv.RunOutcomeRecovered, 1), got[1])
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.Empty(t, d.Entries())
}

// A run that is too large for one call goes in several. A process that is killed
// between two of them has noted nothing of it: it is taken up whole, and its verdict
// is the same.
func TestKillBetweenTwoCallsOfOneRun(t *testing.T) {
	d := harness.NewDisk()
	var left *harness.Disk // what is there when the second call comes
	next := &harness.FlakyNext{}
	next.Fail = func(ptrace.Traces) error {
		if next.Tries == 2 {
			left = harness.NewDisk()
			left.Content = maps.Clone(d.Content)
		}
		return nil
	}
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	const requests = 12
	for i := range requests {
		r := harness.RequestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).Answered("stop", harness.Answer)
		if i == 0 {
			r = harness.RequestSpan(2, 1, 0, 0.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
		}
		h.Consume(t, r.With(attribute.String("long", strings.Repeat("x", forward.MaxParcelBytes/4))))
	}
	h.Consume(t, harness.RunSpan(1, 0, requests, requests, 0))
	require.Greater(t, next.Tries, 2)
	require.NotNil(t, left)
	h.Sink = &next.TracesSink
	want := harness.Verdicts(h.Out())
	require.Len(t, want, requests+1)
	assert.Empty(t, d.Entries())

	h = harness.NewOn(t, left, harness.DefaultConfig(), nil, h.Clock.Now())
	assert.Equal(t, want, harness.Verdicts(h.Out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.Empty(t, left.Entries())
}

// Whatever is done between two kills, every span that was acknowledged comes out,
// and every run has a verdict.
func TestManyKillsLoseNothing(t *testing.T) {
	for _, shards := range []int{1, 3} {
		d := harness.NewDisk()
		cfg := harness.DefaultConfig()
		cfg.Shards = shards
		sink := new(consumertest.TracesSink)
		now := harness.T0
		want := map[string]int{}
		for life := range 6 {
			h := harness.NewOn(t, d, cfg, sink, now)
			for n := range 4 {
				trace := byte(life*4 + n + 1)
				h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(trace), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(trace+100))
				want[harness.TraceID(trace).String()], want[harness.TraceID(trace+100).String()] = 2, 2
				h.Pass(t, 12*time.Second)
				if trace > 1 {
					h.Consume(t, harness.RunSpan(1, 0, 3, 1, 0).Of(trace-1), harness.RunSpan(1, 0, 3, 1, 0).Of(trace+99))
				}
			}
			now = h.Clock.Now()
		}
		h := harness.NewOn(t, d, cfg, sink, now)
		h.Pass(t, harness.RunTimeout)
		runs := map[string]int{}
		for _, td := range sink.AllTraces() {
			for _, rs := range td.ResourceSpans().All() {
				for _, span := range rs.ScopeSpans().At(0).Spans().All() {
					want[span.TraceID().String()]--
					if harness.VerdictOf(span).Outcome != semconv.RunOutcomeUnset {
						runs[span.TraceID().String()]++
					}
				}
			}
		}
		for trace, missing := range want {
			assert.Zero(t, missing, "%d spans of %s are lost", missing, trace)
			assert.Positive(t, runs[trace], "the run of %s has no verdict", trace)
		}
		assert.Empty(t, d.Entries())
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// A call that cannot be written is refused before anything of it is forwarded.
func TestStorageFails(t *testing.T) {
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	var events []*componentstatus.Event
	h.Processor.Telemetry.Health.Start(reporter(func(e *componentstatus.Event) { events = append(events, e) }))
	h.Consume(t, harness.RequestSpan(3, 1, 1, 2).Answered("stop", harness.Answer))
	before := h.Load()
	d.Fail = storage.ErrStorageFull
	specs := []harness.Span{harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 2, 0), harness.OtherSpan(9, 1, 0.1, 0.2)}
	for range 2 {
		err := h.ConsumeTraces(t.Context(), harness.TracesOf(t, specs...))
		require.ErrorIs(t, err, storage.ErrStorageFull)
		assert.False(t, consumererror.IsPermanent(err))
	}
	assert.Empty(t, h.Sink.AllTraces())
	assert.Equal(t, before, h.Load())
	h.Consume(t, harness.OtherSpan(9, 1, 0.1, 0.2)) // it needs no storage

	d.Fail = nil
	h.Consume(t, specs...)
	assert.Equal(t, 5, h.Sink.SpanCount())
	require.Len(t, events, 2)
	assert.Equal(t, componentstatus.StatusRecoverableError, events[0].Status())
	require.ErrorIs(t, events[0].Err(), storage.ErrStorageFull)
	assert.Equal(t, componentstatus.StatusOK, events[1].Status())
	assert.Empty(t, d.Entries())
	writes, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_storage_writes")
	require.NoError(t, err)
	assert.Equal(t, int64(5), harness.Total(t, writes))
}

// reporter is a host that takes notice of the component's status.
type reporter func(*componentstatus.Event)

func (reporter) GetExtensions() map[component.ID]component.Component { return nil }
func (r reporter) Report(e *componentstatus.Event)                   { r(e) }

// The status reports a next consumer that fails, once, however many shards notice.
func TestStatusOfNext(t *testing.T) {
	next := &harness.FlakyNext{Fail: harness.Down}
	cfg := harness.DefaultConfig()
	cfg.Shards = 4
	h := harness.New(t, cfg, next)
	var events []componentstatus.Status
	h.Processor.Telemetry.Health.Start(reporter(func(e *componentstatus.Event) { events = append(events, e.Status()) }))
	for trace := range byte(20) {
		h.HeldRun(t, trace+1)
	}
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, events)
	next.Fail = nil
	h.Pass(t, time.Minute)
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, events)
	assert.Equal(t, 40, next.SpanCount())
}

// What the next consumer refuses of a call with LLM spans is stored as these are.
func TestOthersRefusedWithStorage(t *testing.T) {
	d := harness.NewDisk()
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	require.NoError(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, append(harness.FinishedRun(1), harness.OtherSpan(9, 1, 0.1, 0.2))...)))
	require.Len(t, d.Entries(), 2)
	killed := d.Copied()
	next.Fail = nil
	h.Pass(t, time.Minute)
	assert.Equal(t, 3, next.SpanCount())
	assert.Empty(t, d.Entries())

	h = harness.NewOn(t, killed, harness.DefaultConfig(), nil, harness.T0)
	h.Pass(t, time.Minute)
	assert.Equal(t, 3, h.Sink.SpanCount())
	assert.Empty(t, killed.Entries())
}

// What cannot be forwarded before the end of a shutdown is there at the next start.
func TestShutdownWithStorage(t *testing.T) {
	d := harness.NewDisk()
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	ctx := client.NewContext(t.Context(), client.Info{})
	require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, harness.FinishedRun(1)...)))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, h.Shutdown(canceled), "nothing is lost")

	h = harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	assert.Equal(t, map[byte]harness.Verdict{1: harness.Ran(semconv.RunOutcomeSucceeded, 0)}, nonZero(harness.Verdicts(h.Out())))
	assert.Equal(t, 2, h.Sink.SpanCount())
	assert.Empty(t, d.Entries())
}

func nonZero(all map[byte]harness.Verdict) map[byte]harness.Verdict {
	maps.DeleteFunc(all, func(_ byte, v harness.Verdict) bool { return v.Trigger == semconv.TriggerUnset })
	return all
}

// Facts that are forgotten are forgotten on the disk, too.
func TestFactsForgottenWithStorage(t *testing.T) {
	d := harness.NewDisk()
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 10_000
	h := harness.NewOn(t, d, cfg, nil, harness.T0)
	for i := range 50 {
		h.Consume(t, harness.RequestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).Answered("stop", harness.Answer))
	}
	assert.Len(t, d.Entries(), 50)
	h.Pass(t, harness.MaxHold)
	h.Consume(t, harness.OtherSpan(9, 1, 0, 1), harness.FinishedRun(2)[0])
	kept := slices.DeleteFunc(d.Entries(), func(key string) bool { return strings.HasPrefix(key, "states.") })
	assert.Less(t, len(kept), 25)
	h.Pass(t, harness.RunTimeout+harness.MaxHold)
	assert.Empty(t, d.Entries())
}

// A span whose facts were forgotten while it waits for the next consumer is still in the
// storage.
func TestKillWhileForgottenSpanIsRefused(t *testing.T) {
	d := harness.NewDisk()
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 1
	h := harness.NewOn(t, d, cfg, &harness.FlakyNext{Fail: harness.Down}, harness.T0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 0.4))
	h.Pass(t, cfg.MaxHold)
	h.Consume(t, harness.RequestSpan(3, 1, 0.5, 0.6))
	h.Pass(t, cfg.MaxHold)
	require.NotZero(t, h.Load().Bytes, "it waits to be sent again")
	again := harness.NewOn(t, d, cfg, nil, h.Clock.Now()) // killed
	again.Pass(t, cfg.MaxHold)
	for range 4 {
		again.Pass(t, cfg.RunTimeout)
	}
	got := countsOf(again.Out())
	assert.Equal(t, 1, got[harness.SpanID(2)])
	assert.Equal(t, 1, got[harness.SpanID(3)])
	assert.Empty(t, d.Entries())
}

// A call of which the next consumer took a part is replayed as a whole after a kill: which
// part that was is not known then. Nothing that was acknowledged is lost.
func TestKillAfterPartialRefusal(t *testing.T) {
	keep := func(td ptrace.Traces, want func(at int) bool) ptrace.Traces {
		part, at := ptrace.NewTraces(), -1
		td.CopyTo(part)
		for _, rs := range part.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				ss.Spans().RemoveIf(func(ptrace.Span) bool { at++; return !want(at) })
			}
		}
		return part
	}
	for name, calls := range map[string][][]harness.Span{
		"runs that come whole":    {append(harness.FinishedRun(1), harness.FinishedRun(2)...)},
		"a run in pieces":         {harness.FinishedRun(1)[:1], harness.FinishedRun(1)[1:]},
		"a run, and what is late": {harness.FinishedRun(1), {harness.RequestSpan(3, 1, 4, 5).Answered("stop", harness.Answer)}, harness.FinishedRun(2)},
		"requests that go":        {{harness.RequestSpan(2, 1, 0.1, 0.4), harness.RequestSpan(3, 1, 0.5, 0.6)}},
	} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				g := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // repeatable on purpose
				d, next := harness.NewDisk(), &harness.FlakyNext{Mutates: seed%2 == 0}
				next.Fail = func(td ptrace.Traces) error {
					takes := g.Uint64()
					taken := func(at int) bool { return takes>>at&1 == 1 }
					require.NoError(t, next.TracesSink.ConsumeTraces(t.Context(), keep(td, taken)))
					return consumererror.NewTraces(harness.ErrDown, keep(td, func(at int) bool { return !taken(at) }))
				}
				h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
				var acknowledged []harness.SpanKey
				for _, call := range calls {
					h.Consume(t, call...)
					for _, s := range call {
						acknowledged = append(acknowledged, harness.SpanKey{Trace: harness.TraceID(max(s.Trace, 1)), ID: harness.SpanID(s.ID)})
					}
				}
				h.Pass(t, harness.MaxHold)
				for range g.IntN(3) {
					h.Pass(t, forward.MaxRetry)
				}
				h.Sink = &next.TracesSink
				before, waits := harness.OutcomeOf(h.Out()), h.Lane().Forwarder.Waits()

				again := harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
				again.Pass(t, harness.MaxHold)
				after := harness.OutcomeOf(again.Out())
				for _, key := range acknowledged {
					assert.Positive(t, len(before[key])+len(after[key]), "%s is lost", key.ID)
					if !waits {
						assert.Len(t, before[key], 1, "%s was taken once", key.ID)
						if name != "requests that go" { // their run is open
							assert.Empty(t, after[key], "and does not come again")
						}
					}
				}
			})
		}
	}
}

// Spans that no dialect recognises any more go out as they are.
func TestUnrecognisedAtReplay(t *testing.T) {
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	h.Pass(t, harness.MaxHold)
	h.Consume(t, harness.RequestSpan(3, 1, 0.1, 1).Answered("stop", harness.Answer))

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Reader.Registry = dialect.NewRegistry()
	h.OpenOn(t, d)
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 2)
	assert.Equal(t, harness.Verdict{}, harness.VerdictOf(out[harness.SpanID(3)]))
	assert.Empty(t, d.Entries())
}

type hostWith map[component.ID]component.Component

func (h hostWith) GetExtensions() map[component.ID]component.Component { return h }

// The storage extension is found by its name, and what is wrong with it is said.
func TestStart(t *testing.T) {
	id := component.MustNewID("file_storage")
	start := func(host component.Host) (*harness.Processor, error) {
		cfg := harness.DefaultConfig()
		cfg.Storage = &id
		set := processortest.NewNopSettings(metadata.Type)
		set.ID = component.MustNewIDWithName("llm_classify", "x")
		p := harness.Make(t, set, cfg, consumertest.NewNop(), clock.System{})
		return p, p.Start(t.Context(), host)
	}
	d := harness.NewDisk()
	p, err := start(hostWith{id: d})
	require.NoError(t, err)
	require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))))
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, []string{"Processor llm_classify/x traces"}, d.Asked)
	assert.Len(t, d.Entries(), 2, "its run is open")

	// Another process goes on, with all its goroutines: many calls at once.
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	for n := range 200 {
		require.NoError(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RunSpan(1, 0, 3, 1, 0).Of(byte(n+2)))))
	}
	p, err = start(hostWith{id: d})
	require.NoError(t, err)
	for n := range 200 {
		require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(byte(n+2)))))
	}
	require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RunSpan(1, 0, 3, 1, 0))))
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Empty(t, d.Entries())

	several := llmclassify.NewFactory()
	var last processor.Traces
	for range 2 {
		cfg := harness.DefaultConfig()
		cfg.Storage = &id
		last, err = several.CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
		require.NoError(t, err)
	}
	require.ErrorContains(t, last.Start(t.Context(), hostWith{id: d}), `"llm_classify" is in several pipelines and has a storage`)

	_, err = start(componenttest.NewNopHost())
	require.ErrorContains(t, err, `storage extension "file_storage" not found`)
	_, err = start(hostWith{id: struct {
		component.StartFunc
		component.ShutdownFunc
	}{}})
	require.ErrorContains(t, err, `requested extension is not a storage extension: "file_storage"`)
	d.Fail = errors.New("a disk error")
	_, err = start(hostWith{id: d})
	require.ErrorContains(t, err, "a disk error")
}

// Client metadata stays with held spans, also over a crash, and tells calls apart.
func TestMetadataKeys(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MetadataKeys = []string{"Tenant", "region"}
	d := harness.NewDisk()
	next := &harness.FlakyNext{}
	h := harness.NewOn(t, d, cfg, next, harness.T0)
	as := func(tenant string, specs ...harness.Span) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{
			"TENANT": {tenant}, "authorization": {"of no interest"},
		})})
		require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, specs...)))
	}
	as("a", harness.FinishedRun(1)...)
	as("b", harness.FinishedRun(2)[0])
	as("b", harness.FinishedRun(2)[1])
	as("a", harness.FinishedRun(3)[0], harness.FinishedRun(4)[0])
	as("c", harness.FinishedRun(3)[1]) // a run whose spans come in two names
	assert.Equal(t, []string{"a", "b", "a", "c"}, next.Tenants)

	h = harness.NewOn(t, d, cfg, next, harness.T0)
	as("d", harness.FinishedRun(4)[1])
	assert.Equal(t, []string{"a", "b", "a", "c", "a", "d"}, next.Tenants)
	assert.Equal(t, 8, next.SpanCount())
	h.PassStepwise(t, 2*harness.MaxHold+2*harness.RunTimeout) // a span of run 3 came again with one of run 4
	assert.Empty(t, d.Entries())
}
