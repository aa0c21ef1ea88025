package runs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
)

// calls returns a model call in each of the given traces.
func calls(traces ...byte) ptrace.Traces {
	td := ptrace.NewTraces()
	for _, id := range traces {
		span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		span.SetTraceID(pcommon.TraceID{id})
		span.SetSpanID(pcommon.SpanID{id, byte(td.SpanCount())})
		span.Attributes().PutStr("gen_ai.operation.name", "chat")
	}
	return td
}

func idsOf(traces []runs.Trace) (ids []byte) {
	for _, t := range traces {
		ids = append(ids, t.ID[0])
	}
	return ids
}

func TestSince(t *testing.T) {
	s := runs.NewStore(4, nil)
	none, oldest := s.Since(0, 10)
	assert.Empty(t, none)
	assert.Equal(t, uint64(1), oldest)

	s.Add(calls(1, 2, 3))
	all, oldest := s.Since(0, 10)
	assert.Equal(t, []byte{1, 2, 3}, idsOf(all))
	assert.Equal(t, all[0].Change, oldest)
	require.Len(t, all[0].Records, 1)

	// By pages, each trace comes once.
	page, _ := s.Since(0, 2)
	assert.Equal(t, []byte{1, 2}, idsOf(page))
	page, _ = s.Since(page[1].Change, 2)
	assert.Equal(t, []byte{3}, idsOf(page))
	cursor := page[0].Change
	page, _ = s.Since(cursor, 2)
	assert.Empty(t, page)

	// A trace that changes comes again, whole.
	s.Add(calls(2))
	page, _ = s.Since(cursor, 10)
	require.Equal(t, []byte{2}, idsOf(page))
	assert.Len(t, page[0].Records, 2)

	// What was forgotten is older than the oldest.
	s.Add(calls(4))
	assert.Equal(t, 1, s.Dropped())
	_, oldest = s.Since(0, 10)
	assert.Greater(t, oldest, all[0].Change)
	assert.LessOrEqual(t, oldest, all[2].Change)
	assert.Empty(t, s.Trace(pcommon.TraceID{1}))
	assert.Len(t, s.Trace(pcommon.TraceID{4}), 1)
}
