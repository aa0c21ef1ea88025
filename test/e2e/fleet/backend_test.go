package fleet

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// store is the trace backend. It receives OTLP over gRPC, on one address per
// classifier, so that it knows which one sent a span.
type store struct {
	mu   sync.Mutex
	from map[pcommon.TraceID]map[int]int                      // guarded by mu: number of model calls, tools and runs by classifier
	td   map[pcommon.TraceID]map[pcommon.SpanID]ptrace.Traces // guarded by mu
	seen map[spanKey]int                                      // guarded by mu: how often each span arrived
}

type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

func newStore() *store {
	return &store{
		from: make(map[pcommon.TraceID]map[int]int),
		td:   make(map[pcommon.TraceID]map[pcommon.SpanID]ptrace.Traces),
		seen: make(map[spanKey]int),
	}
}

// listen returns the address that a classifier sends to.
func (s *store) listen(t *testing.T, classifier int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(srv, &door{store: s, classifier: classifier})
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return ln.Addr().String()
}

// door receives the spans of one classifier.
type door struct {
	ptraceotlp.UnimplementedGRPCServer
	store      *store
	classifier int
}

func (d *door) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	d.store.take(d.classifier, req.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

func (s *store) take(classifier int, td ptrace.Traces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				s.takeSpan(classifier, rs, ss, span)
			}
		}
	}
}

func (s *store) takeSpan(classifier int, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
	key := spanKey{span.TraceID(), span.SpanID()}
	s.seen[key]++
	// A span that is sent again after its run was judged arrives late, without the
	// run's verdict, and may overtake the first copy. The copy with the verdict counts.
	_, judged := span.Attributes().Get(string(semconv.RunOutcomeKey))
	if s.seen[key] == 1 || judged {
		one := ptrace.NewTraces()
		to := one.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(to.Resource())
		scope := to.ScopeSpans().AppendEmpty()
		ss.Scope().CopyTo(scope.Scope())
		span.CopyTo(scope.Spans().AppendEmpty())
		if s.td[key.trace] == nil {
			s.td[key.trace] = make(map[pcommon.SpanID]ptrace.Traces)
		}
		s.td[key.trace][key.span] = one
	}
	if _, isLLM := span.Attributes().Get("gen_ai.operation.name"); isLLM {
		if s.from[key.trace] == nil {
			s.from[key.trace] = make(map[int]int)
		}
		s.from[key.trace][classifier]++
	}
}

// runs returns the judged runs of a trace.
func (s *store) runs(id pcommon.TraceID) []report.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var spans report.Spans
	for _, td := range s.td[id] {
		spans.Add(td)
	}
	return spans.Runs(id)
}

// places returns the classifiers that sent model calls, tools or runs of a trace.
func (s *store) places(id pcommon.TraceID) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var places []int
	for classifier := range s.from[id] {
		places = append(places, classifier)
	}
	slices.Sort(places)
	return places
}

// again returns how many spans arrived more than once.
func (s *store) again() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.seen {
		if times > 1 {
			n++
		}
	}
	return n
}

// missing returns the spans that have not arrived.
func (s *store) missing(sent []spanKey) []spanKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(sent), func(k spanKey) bool { return s.seen[k] > 0 })
}
