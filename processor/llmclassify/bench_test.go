package llmclassify_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// The peers' measure: 128 traces of 1,662 spans, 8 attributes on each.
const (
	benchTraces = 128
	benchSpans  = 1662
	benchAttrs  = 8
)

// benchBatch is one call, marshalled. llm says which of a trace's spans are LLM
// spans: the run span comes last and completes it.
func benchBatch(b *testing.B, llm func(i int) bool) []byte {
	b.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", harness.AgentService)
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for trace := range benchTraces {
		n := benchSpans / benchTraces
		if trace < benchSpans%benchTraces {
			n++
		}
		requests, found := 0, false
		for i := range n {
			id := byte(i + 1)
			s := harness.OtherSpan(id, 1, 0.1, 0.2)
			switch last := i == n-1; {
			case last && found:
				s = harness.RunSpan(200, 0, float64(n), requests, 0)
			case llm(trace*n+i) || last && llm(0):
				found = true
				requests++
				s = benchRequest(id, 200, float64(i), float64(i)+0.5)
			}
			s.Trace = byte(trace + 1)
			span := spans.AppendEmpty()
			s.Write(b, span)
			for a := span.Attributes().Len(); a < benchAttrs; a++ {
				span.Attributes().PutStr(fmt.Sprintf("app.attribute.%d", a), "a value as long as most of them")
			}
		}
	}
	require.Equal(b, benchSpans, td.SpanCount())
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(b, err)
	return data
}

// benchRequest is a request with a run, and no more attributes than the peers' spans.
func benchRequest(id, run byte, from, to float64) harness.Span {
	return harness.Span{
		ID: id, Parent: run, Name: "chat gpt-test", Kind: ptrace.SpanKindClient, From: from, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameOpenAI, otelsemconv.GenAIRequestModel("gpt-test"),
			semconv.RunID(harness.SpanID(run).String()),
			semconv.StreamEndKey.String(semconv.StreamEndTerminalEvent.String()), semconv.StreamPhase(semconv.PhaseStreamEnd),
		},
	}
}

var benchMixes = []struct {
	name string
	llm  func(i int) bool
}{
	{"all", func(int) bool { return true }},
	{"one in ten", func(i int) bool { return i%10 == 0 }},
	{"none", func(int) bool { return false }},
}

func newBenchProcessor(b *testing.B, next consumer.Traces) *harness.Processor {
	b.Helper()
	p := harness.Make(b, processortest.NewNopSettings(metadata.Type), llmclassify.NewFactory().CreateDefaultConfig().(*llmclassify.Config), next, clock.System{})
	require.NoError(b, p.Start(b.Context(), componenttest.NewNopHost()))
	b.Cleanup(func() { require.NoError(b, p.Shutdown(context.Background())) })
	return p
}

// BenchmarkConsumeTraces takes calls that are ready in memory, and counts until
// everything has come out; passthrough is the same without the processor. Every run
// is complete within its call.
func BenchmarkConsumeTraces(b *testing.B) {
	for _, mix := range benchMixes {
		data := benchBatch(b, mix.llm)
		run := func(before func(*testing.B, consumer.Traces) consumer.Traces) func(*testing.B) {
			return func(b *testing.B) {
				var out atomic.Int64
				sink, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
					out.Add(int64(td.SpanCount()))
					return nil
				})
				require.NoError(b, err)
				next := before(b, sink)
				b.ReportAllocs()
				const calls = 16
				var spent time.Duration
				var spans int64
				for b.Loop() {
					var ready [calls]ptrace.Traces
					for i := range ready {
						ready[i], err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
						if err != nil {
							b.Fatal(err)
						}
						renew(ready[i])
					}
					start := time.Now()
					for _, td := range ready {
						if err := next.ConsumeTraces(b.Context(), td); err != nil {
							b.Fatal(err)
						}
						spans += benchSpans
					}
					for out.Load() < spans {
						runtime.Gosched()
					}
					spent += time.Since(start)
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(spans), "ns/span")
				b.ReportMetric(float64(spans)/spent.Seconds(), "spans/s")
			}
		}
		b.Run(mix.name+"/processor", run(func(b *testing.B, next consumer.Traces) consumer.Traces {
			return newBenchProcessor(b, next)
		}))
		b.Run(mix.name+"/passthrough", run(func(_ *testing.B, next consumer.Traces) consumer.Traces { return next }))
	}
}

var renewed uint64

// renew gives the traces of td ids that were never seen.
func renew(td ptrace.Traces) {
	renewed++
	for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		id := span.TraceID()
		binary.BigEndian.PutUint64(id[:], renewed)
		span.SetTraceID(id)
	}
}

// BenchmarkHeld reports what is held for each span that came, LLM span or not, and
// what the processor thinks that it is. No run ends.
func BenchmarkHeld(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, mix := range benchMixes {
		data := benchBatch(b, mix.llm)
		b.Run(mix.name, func(b *testing.B) {
			const calls = 20
			p := newBenchProcessor(b, consumertest.NewNop())
			before := heap()
			n := 0
			for range calls {
				td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
				require.NoError(b, err)
				renew(td)
				spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
				spans.RemoveIf(func(s ptrace.Span) bool { return s.SpanID() == harness.SpanID(200) })
				n += spans.Len()
				require.NoError(b, p.ConsumeTraces(b.Context(), td))
			}
			for _, s := range p.Shards {
				for l := range s.All {
					for !l.Inbox.Empty() {
						time.Sleep(time.Millisecond)
					}
				}
			}
			time.Sleep(100 * time.Millisecond) // for the last delivery to be packed
			for b.Loop() {
				b.ReportMetric(float64(heap()-before)/float64(n), "B/span")
				b.ReportMetric(float64(p.Load().Bytes+p.Load().FactBytes)/float64(n), "estimated-B/span")
			}
			runtime.KeepAlive(p)
		})
	}
}

// inThreadTime runs a loop and reports the processor time of its thread, which other
// programs on the machine do not lengthen: cpu-ns/op.
func inThreadTime(b *testing.B, loop func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, ok := threadTime()
	loop()
	after, _ := threadTime()
	if ok {
		b.ReportMetric(float64((after-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	}
}

// BenchmarkClassifyRun reads, assembles and judges a run of 20 spans: 8 requests,
// one of them cut and tried again, 11 tools and the run.
func BenchmarkClassifyRun(b *testing.B) {
	calls := harness.Counts{Inputs: 2, Completed: 2, Calls: 2, CallIDs: []string{"call_1", "call_2"}}
	var specs []harness.Span
	for i := range 8 {
		r := harness.RequestSpan(byte(i+2), 1, float64(i), float64(i)+0.4).History([]string{"call_1", "call_2"}, []string{"call_1", "call_2"})
		switch i {
		case 3:
			r = r.Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
		case 7:
			r = r.Answered("stop", harness.Answer)
		default:
			r = r.Answered("tool_calls", calls)
		}
		specs = append(specs, r)
	}
	for i := range 11 {
		specs = append(specs, harness.ToolSpan(byte(i+20), float64(i)/2+0.4, float64(i)/2+0.6, fmt.Sprintf("call_%d", i), semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	}
	p := harness.Make(b, processortest.NewNopSettings(metadata.Type), harness.DefaultConfig(), consumertest.NewNop(), clock.System{})
	now := time.Now()
	specs = append(specs, harness.RunSpan(1, 0, 9, 8, 11))
	td := harness.TracesOf(b, specs...)
	batch := p.Reader.Read(now, nil, td)
	arrivals := batch.Arrivals()
	batch.Take(false)
	s := p.Shards[0].Lane(p.Tenants.Others)
	releases := s.Buffer.Add(now, arrivals, nil)
	require.Len(b, releases, 1)
	require.Len(b, releases[0].Members, 20)
	s.Releaser.Open(&releases[0])
	b.Run("judge", func(b *testing.B) {
		b.ReportAllocs()
		inThreadTime(b, func() {
			for b.Loop() {
				d := s.Releaser.Judge.Diagnose(&releases[0], trace.Inner{})
				if d.Run.Outcome != semconv.RunOutcomeRecovered {
					b.Fatal(d.Run.Outcome)
				}
			}
		})
	})
	b.Run("judge and stamp", func(b *testing.B) {
		b.ReportAllocs()
		inThreadTime(b, func() {
			for b.Loop() {
				d := s.Releaser.Judge.Diagnose(&releases[0], trace.Inner{})
				for i := range releases[0].Members {
					m := &releases[0].Members[i]
					stamped := m.Span.Attributes().Len()
					if i == d.Carrier {
						stamp.Run(m.Span, d.Run, nil, semconv.TriggerComplete)
					} else {
						stamp.Span(m.Span, d.Members[i], semconv.TriggerComplete)
					}
					if m.Span.Attributes().Len() > stamped { // for the next time
						m.Span.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool {
							return strings.HasPrefix(key, "llm.failure.") || strings.HasPrefix(key, "llm.classification.") ||
								key == string(semconv.RunOutcomeKey) || key == string(semconv.RunTimelineKey) ||
								key == string(semconv.RunRecoveredFailuresKey) ||
								key == string(semconv.RetrySafetyKey) || key == string(semconv.RetryReasonKey)
						})
					}
				}
			}
		})
	})
	b.Run("decode", func(b *testing.B) { // what the run's OTLP costs, for comparison
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(harness.TracesOf(b, specs...))
		require.NoError(b, err)
		b.ReportAllocs()
		inThreadTime(b, func() {
			for b.Loop() {
				if _, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
