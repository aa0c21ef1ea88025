package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// disk is a storage extension whose content outlives processors.
type disk struct {
	component.StartFunc
	component.ShutdownFunc

	mu      sync.Mutex
	content map[string][]byte
	fail    error
	wrote   func()   // is called for each write, if set
	asks    func()   // is called before each operation, if set
	asked   []string // names under which clients were asked for
}

func newDisk() *disk { return &disk{content: map[string][]byte{}} }

func (d *disk) GetClient(_ context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	d.asked = append(d.asked, kind.String()+" "+id.String()+" "+name)
	return diskClient{d}, nil
}

type diskClient struct{ *disk }

func (d diskClient) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := d.Batch(ctx, op)
	return op.Value, err
}

func (d diskClient) Set(ctx context.Context, key string, value []byte) error {
	return d.Batch(ctx, storage.SetOperation(key, value))
}

func (d diskClient) Delete(ctx context.Context, key string) error {
	return d.Batch(ctx, storage.DeleteOperation(key))
}

func (d diskClient) Batch(_ context.Context, ops ...*storage.Operation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asks != nil {
		d.asks()
	}
	if d.fail != nil {
		return d.fail
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = d.content[op.Key]
		case storage.Set:
			d.content[op.Key] = slices.Clone(op.Value)
		case storage.Delete:
			delete(d.content, op.Key)
		}
	}
	if d.wrote != nil && ops[0].Type != storage.Get {
		d.wrote()
	}
	return nil
}

func (diskClient) Close(context.Context) error { return nil }

// entries are the keys that hold spans.
func (d *disk) entries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := slices.Sorted(maps.Keys(d.content))
	return slices.DeleteFunc(keys, func(key string) bool { return key == "bounds" || key == "owner" || strings.HasPrefix(key, "judged") })
}

// newHarnessOn is a harness that takes up what is on the disk. Nothing of an
// earlier one is shut down: it was killed.
func newHarnessOn(t *testing.T, d *disk, cfg *Config, next consumer.Traces, now time.Time) *harness {
	t.Helper()
	h := newHarness(t, cfg, next)
	h.clock.advance(now.Sub(t0))
	h.openOn(t, d)
	return h
}

func (h *harness) openOn(t *testing.T, d *disk) {
	t.Helper()
	h.openBy(t, d, func() { h.settle(t.Context()) })
}

// openBy takes up what is on the disk while the shards do this work.
func (h *harness) openBy(t *testing.T, d *disk, work func()) {
	t.Helper()
	var err error
	h.Store.Journal, err = journal.Open(t.Context(), diskClient{d}, h.inside.Telemetry.Logger)
	require.NoError(t, err)
	replayed := make(chan error)
	go func() { replayed <- h.Begin(t.Context(), h.Reader, h.Callers) }()
	for { // the shards have room for some calls only
		select {
		case err := <-replayed:
			require.NoError(t, err)
			work()
			return
		default:
			work()
			runtime.Gosched()
		}
	}
}

// A process that is killed loses nothing: what was held is held again, for no longer than it would have
// been, spans of an open run that had gone come again, and the run is judged on all of it.
func TestKilled(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 0.4).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), otherSpan(9, 1, 0.1, 0.2))
	h.pass(t, xMaxHold) // it goes; its facts stay
	require.Len(t, spansOf(h.out()), 2)
	h.consume(t, requestSpan(3, 1, 31, 32).with(semconv.RequestAttempt(2)).answered("stop", answer))
	h.consume(t, finishedRun(2)...) // judged: nothing of it comes back
	h.pass(t, 10*time.Second)

	h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
	assert.Empty(t, h.sink.AllTraces(), "nothing goes before all is read")
	assert.Equal(t, 1, h.Load().Traces)
	at, ok := h.nextDue()
	require.True(t, ok)
	assert.Equal(t, t0.Add(xMaxHold), at, "the time of what is held goes on")
	h.consume(t, runSpan(1, 0, 33, 2, 0))
	got := verdicts(h.out())
	require.Len(t, got, 2, "what had gone before does not come again")
	assert.Equal(t, ran(semconv.RunOutcomeRecovered, 1), got[1])
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.Empty(t, d.entries())
}

// A run that is too large for one call goes in several. A process that is killed
// between two of them has noted nothing of it: it is taken up whole, and its verdict
// is the same.
func TestKilledBetweenTwoCallsOfOneRun(t *testing.T) {
	d := newDisk()
	var left *disk // what is there when the second call comes
	next := &flakyNext{}
	next.fail = func(ptrace.Traces) error {
		if next.tries == 2 {
			left = newDisk()
			left.content = maps.Clone(d.content)
		}
		return nil
	}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	const requests = 12
	for i := range requests {
		r := requestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).answered("stop", answer)
		if i == 0 {
			r = requestSpan(2, 1, 0, 0.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
		}
		h.consume(t, r.with(attribute.String("long", strings.Repeat("x", forward.MaxParcelBytes/4))))
	}
	h.consume(t, runSpan(1, 0, requests, requests, 0))
	require.Greater(t, next.tries, 2)
	require.NotNil(t, left)
	h.sink = &next.TracesSink
	want := verdicts(h.out())
	require.Len(t, want, requests+1)
	assert.Empty(t, d.entries())

	h = newHarnessOn(t, left, defaultConfig(), nil, h.clock.Now())
	assert.Equal(t, want, verdicts(h.out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.Empty(t, left.entries())
}

// Whatever is done between two kills, every span that was acknowledged comes out,
// and every run has a verdict.
func TestKilledAgainAndAgain(t *testing.T) {
	for _, shards := range []int{1, 3} {
		d := newDisk()
		cfg := defaultConfig()
		cfg.Shards = shards
		sink := new(consumertest.TracesSink)
		now := t0
		want := map[string]int{}
		for life := range 6 {
			h := newHarnessOn(t, d, cfg, sink, now)
			for n := range 4 {
				trace := byte(life*4 + n + 1)
				h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(trace), requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(trace+100))
				want[traceID(trace).String()], want[traceID(trace+100).String()] = 2, 2
				h.pass(t, 12*time.Second)
				if trace > 1 {
					h.consume(t, runSpan(1, 0, 3, 1, 0).of(trace-1), runSpan(1, 0, 3, 1, 0).of(trace+99))
				}
			}
			now = h.clock.Now()
		}
		h := newHarnessOn(t, d, cfg, sink, now)
		h.pass(t, xRunTimeout)
		runs := map[string]int{}
		for _, td := range sink.AllTraces() {
			for _, rs := range td.ResourceSpans().All() {
				for _, span := range rs.ScopeSpans().At(0).Spans().All() {
					want[span.TraceID().String()]--
					if verdictOf(span).outcome != semconv.RunOutcomeUnset {
						runs[span.TraceID().String()]++
					}
				}
			}
		}
		for trace, missing := range want {
			assert.Zero(t, missing, "%d spans of %s are lost", missing, trace)
			assert.Positive(t, runs[trace], "the run of %s has no verdict", trace)
		}
		assert.Empty(t, d.entries())
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// A call that cannot be written is refused before anything of it is forwarded.
func TestStorageFails(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	var events []*componentstatus.Event
	h.inside.Telemetry.Health.Start(reporter(func(e *componentstatus.Event) { events = append(events, e) }))
	h.consume(t, requestSpan(3, 1, 1, 2).answered("stop", answer))
	before := h.Load()
	d.fail = storage.ErrStorageFull
	specs := []spanSpec{requestSpan(2, 1, 0.1, 1).answered("stop", answer), runSpan(1, 0, 3, 2, 0), otherSpan(9, 1, 0.1, 0.2)}
	for range 2 {
		err := h.ConsumeTraces(t.Context(), tracesOf(t, specs...))
		require.ErrorIs(t, err, storage.ErrStorageFull)
		assert.False(t, consumererror.IsPermanent(err))
	}
	assert.Empty(t, h.sink.AllTraces())
	assert.Equal(t, before, h.Load())
	h.consume(t, otherSpan(9, 1, 0.1, 0.2)) // it needs no storage

	d.fail = nil
	h.consume(t, specs...)
	assert.Equal(t, 5, h.sink.SpanCount())
	require.Len(t, events, 2)
	assert.Equal(t, componentstatus.StatusRecoverableError, events[0].Status())
	require.ErrorIs(t, events[0].Err(), storage.ErrStorageFull)
	assert.Equal(t, componentstatus.StatusOK, events[1].Status())
	assert.Empty(t, d.entries())
	writes, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_storage_writes")
	require.NoError(t, err)
	assert.Equal(t, int64(5), total(t, writes))
}

// reporter is a host that takes notice of the component's status.
type reporter func(*componentstatus.Event)

func (reporter) GetExtensions() map[component.ID]component.Component { return nil }
func (r reporter) Report(e *componentstatus.Event)                   { r(e) }

// The status reports a next consumer that fails, once, however many shards notice.
func TestStatusOfNext(t *testing.T) {
	next := &flakyNext{fail: down}
	cfg := defaultConfig()
	cfg.Shards = 4
	h := newHarness(t, cfg, next)
	var events []componentstatus.Status
	h.inside.Telemetry.Health.Start(reporter(func(e *componentstatus.Event) { events = append(events, e.Status()) }))
	for trace := range byte(20) {
		h.heldRun(t, trace+1)
	}
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, events)
	next.fail = nil
	h.pass(t, time.Minute)
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, events)
	assert.Equal(t, 40, next.SpanCount())
}

// What the next consumer refuses of a call with LLM spans is stored as these are.
func TestOthersRefusedWithStorage(t *testing.T) {
	d := newDisk()
	next := &flakyNext{fail: down}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	require.NoError(t, h.ConsumeTraces(t.Context(), tracesOf(t, append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))...)))
	require.Len(t, d.entries(), 2)
	killed := d.copied()
	next.fail = nil
	h.pass(t, time.Minute)
	assert.Equal(t, 3, next.SpanCount())
	assert.Empty(t, d.entries())

	h = newHarnessOn(t, killed, defaultConfig(), nil, t0)
	h.pass(t, time.Minute)
	assert.Equal(t, 3, h.sink.SpanCount())
	assert.Empty(t, killed.entries())
}

// What cannot be forwarded before the end of a shutdown is there at the next start.
func TestShutdownWithStorage(t *testing.T) {
	d := newDisk()
	next := &flakyNext{fail: down}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	ctx := client.NewContext(t.Context(), client.Info{})
	require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, finishedRun(1)...)))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, h.Shutdown(canceled), "nothing is lost")

	h = newHarnessOn(t, d, defaultConfig(), nil, t0)
	assert.Equal(t, map[byte]verdict{1: ran(semconv.RunOutcomeSucceeded, 0)}, nonZero(verdicts(h.out())))
	assert.Equal(t, 2, h.sink.SpanCount())
	assert.Empty(t, d.entries())
}

func nonZero(all map[byte]verdict) map[byte]verdict {
	maps.DeleteFunc(all, func(_ byte, v verdict) bool { return v.trigger == semconv.TriggerUnset })
	return all
}

// Facts that are forgotten are forgotten on the disk, too.
func TestFactsForgottenWithStorage(t *testing.T) {
	d := newDisk()
	cfg := defaultConfig()
	cfg.MaxFactBytes = 10_000
	h := newHarnessOn(t, d, cfg, nil, t0)
	for i := range 50 {
		h.consume(t, requestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).answered("stop", answer))
	}
	assert.Len(t, d.entries(), 50)
	h.pass(t, xMaxHold)
	h.consume(t, otherSpan(9, 1, 0, 1), finishedRun(2)[0])
	kept := slices.DeleteFunc(d.entries(), func(key string) bool { return strings.HasPrefix(key, "states.") })
	assert.Less(t, len(kept), 25)
	h.pass(t, xRunTimeout+xMaxHold)
	assert.Empty(t, d.entries())
}

// A span whose facts were forgotten while it waits for the next consumer is still in the
// storage.
func TestForgottenWhileRefusedAndKilled(t *testing.T) {
	d := newDisk()
	cfg := defaultConfig()
	cfg.MaxFactBytes = 1
	h := newHarnessOn(t, d, cfg, &flakyNext{fail: down}, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 0.4))
	h.pass(t, cfg.MaxHold)
	h.consume(t, requestSpan(3, 1, 0.5, 0.6))
	h.pass(t, cfg.MaxHold)
	require.NotZero(t, h.Load().Bytes, "it waits to be sent again")
	again := newHarnessOn(t, d, cfg, nil, h.clock.Now()) // killed
	again.pass(t, cfg.MaxHold)
	for range 4 {
		again.pass(t, cfg.RunTimeout)
	}
	got := countsOf(again.out())
	assert.Equal(t, 1, got[spanID(2)])
	assert.Equal(t, 1, got[spanID(3)])
	assert.Empty(t, d.entries())
}

// A call of which the next consumer took a part is replayed as a whole after a kill: which
// part that was is not known then. Nothing that was acknowledged is lost.
func TestPartlyRefusedAndKilled(t *testing.T) {
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
	for name, calls := range map[string][][]spanSpec{
		"runs that come whole":    {append(finishedRun(1), finishedRun(2)...)},
		"a run in pieces":         {finishedRun(1)[:1], finishedRun(1)[1:]},
		"a run, and what is late": {finishedRun(1), {requestSpan(3, 1, 4, 5).answered("stop", answer)}, finishedRun(2)},
		"requests that go":        {{requestSpan(2, 1, 0.1, 0.4), requestSpan(3, 1, 0.5, 0.6)}},
	} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				g := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // repeatable on purpose
				d, next := newDisk(), &flakyNext{mutates: seed%2 == 0}
				next.fail = func(td ptrace.Traces) error {
					takes := g.Uint64()
					taken := func(at int) bool { return takes>>at&1 == 1 }
					require.NoError(t, next.TracesSink.ConsumeTraces(t.Context(), keep(td, taken)))
					return consumererror.NewTraces(errDown, keep(td, func(at int) bool { return !taken(at) }))
				}
				h := newHarnessOn(t, d, defaultConfig(), next, t0)
				var acknowledged []spanKey
				for _, call := range calls {
					h.consume(t, call...)
					for _, s := range call {
						acknowledged = append(acknowledged, spanKey{traceID(max(s.trace, 1)), spanID(s.id)})
					}
				}
				h.pass(t, xMaxHold)
				for range g.IntN(3) {
					h.pass(t, forward.MaxRetry)
				}
				h.sink = &next.TracesSink
				before, waits := outcomeOf(h.out()), h.lane().Forwarder.Waits()

				again := newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
				again.pass(t, xMaxHold)
				after := outcomeOf(again.out())
				for _, key := range acknowledged {
					assert.Positive(t, len(before[key])+len(after[key]), "%s is lost", key.id)
					if !waits {
						assert.Len(t, before[key], 1, "%s was taken once", key.id)
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
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	h.pass(t, xMaxHold)
	h.consume(t, requestSpan(3, 1, 0.1, 1).answered("stop", answer))

	h = newHarness(t, defaultConfig(), nil)
	h.Reader.Registry = dialect.NewRegistry()
	h.openOn(t, d)
	out := spansOf(h.out())
	require.Len(t, out, 2)
	assert.Equal(t, verdict{}, verdictOf(out[spanID(3)]))
	assert.Empty(t, d.entries())
}

type hostWith map[component.ID]component.Component

func (h hostWith) GetExtensions() map[component.ID]component.Component { return h }

// The storage extension is found by its name, and what is wrong with it is said.
func TestStart(t *testing.T) {
	id := component.MustNewID("file_storage")
	start := func(host component.Host) (*inside, error) {
		cfg := defaultConfig()
		cfg.Storage = &id
		set := processortest.NewNopSettings(metadata.Type)
		set.ID = component.MustNewIDWithName("llm_classify", "x")
		p := newInside(t, set, cfg, consumertest.NewNop(), clock.System{})
		return p, p.Start(t.Context(), host)
	}
	d := newDisk()
	p, err := start(hostWith{id: d})
	require.NoError(t, err)
	require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))))
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, []string{"Processor llm_classify/x traces"}, d.asked)
	assert.Len(t, d.entries(), 2, "its run is open")

	// Another process goes on, with all its goroutines: many calls at once.
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	for n := range 200 {
		require.NoError(t, h.ConsumeTraces(t.Context(), tracesOf(t, runSpan(1, 0, 3, 1, 0).of(byte(n+2)))))
	}
	p, err = start(hostWith{id: d})
	require.NoError(t, err)
	for n := range 200 {
		require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(byte(n+2)))))
	}
	require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, runSpan(1, 0, 3, 1, 0))))
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Empty(t, d.entries())

	several := NewFactory()
	var last processor.Traces
	for range 2 {
		cfg := defaultConfig()
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
	d.fail = errors.New("a disk error")
	_, err = start(hostWith{id: d})
	require.ErrorContains(t, err, "a disk error")
}

// Client metadata stays with held spans, also over a crash, and tells calls apart.
func TestMetadataKeys(t *testing.T) {
	cfg := defaultConfig()
	cfg.MetadataKeys = []string{"Tenant", "region"}
	d := newDisk()
	next := &flakyNext{}
	h := newHarnessOn(t, d, cfg, next, t0)
	as := func(tenant string, specs ...spanSpec) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{
			"TENANT": {tenant}, "authorization": {"of no interest"},
		})})
		require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, specs...)))
	}
	as("a", finishedRun(1)...)
	as("b", finishedRun(2)[0])
	as("b", finishedRun(2)[1])
	as("a", finishedRun(3)[0], finishedRun(4)[0])
	as("c", finishedRun(3)[1]) // a run whose spans come in two names
	assert.Equal(t, []string{"a", "b", "a", "c"}, next.tenants)

	h = newHarnessOn(t, d, cfg, next, t0)
	as("d", finishedRun(4)[1])
	assert.Equal(t, []string{"a", "b", "a", "c", "a", "d"}, next.tenants)
	assert.Equal(t, 8, next.SpanCount())
	h.passStepwise(t, 2*xMaxHold+2*xRunTimeout) // a span of run 3 came again with one of run 4
	assert.Empty(t, d.entries())
}
