package packed

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func spansOf(n int) ptrace.SpanSlice {
	spans := ptrace.NewSpanSlice()
	for i := range n {
		span := spans.AppendEmpty()
		span.SetName(fmt.Sprint("span ", i))
		span.SetSpanID([8]byte{byte(i + 1)})
		attrs := span.Attributes()
		attrs.PutStr("invalid", "\xff\xfe")
		attrs.PutDouble("nan", math.NaN())
		attrs.PutEmpty("empty")
		attrs.PutEmptySlice("no elements")
		attrs.PutEmptyMap("map").PutEmptyMap("deep").PutEmptyBytes("bytes").FromRaw([]byte{0, 1})
		attrs.PutStr("long", strings.Repeat("x", i))
		span.Events().AppendEmpty().SetName("event")
		span.Links().AppendEmpty().TraceState().FromRaw("a=b")
		span.Status().SetMessage("message")
		span.SetFlags(257)
	}
	return spans
}

// A span comes out of the pack as it went in, whichever others are asked for.
func TestPack(t *testing.T) {
	const n = 10
	loose := Loose(spansOf(n))
	want := spansOf(n)
	spans := make([]Span, n)
	var some []*Span
	for i := range spans {
		spans[i] = loose(i)
		if i%2 == 0 {
			some = append(some, &spans[i])
		}
	}
	assert.Positive(t, Pack(some))
	var r Reader
	for range 2 {
		for i, s := range spans {
			assert.Equal(t, i%2 != 0, s.Loose())
			span, ok := r.Span(s)
			require.True(t, ok)
			equal(t, want.At(i), span)
		}
		r.Close()
	}
	for _, s := range some {
		assert.False(t, s.group.open, "nothing stays unpacked")
	}
}

func equal(t *testing.T, want, got ptrace.Span) {
	t.Helper()
	bytes := func(s ptrace.Span) []byte {
		td := ptrace.NewTraces()
		s.CopyTo(td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
		data, err := marshaler.MarshalTraces(td)
		require.NoError(t, err)
		return data
	}
	assert.Equal(t, bytes(want), bytes(got))
}

// One that was moved out takes nothing from the others.
func TestMovedOut(t *testing.T) {
	loose := Loose(spansOf(3))
	a, b := loose(0), loose(2)
	Pack([]*Span{&a, &b})
	var r Reader
	span, ok := r.Span(a)
	require.True(t, ok)
	span.MoveTo(ptrace.NewSpan())
	r.Close()
	span, ok = r.Span(b)
	require.True(t, ok)
	equal(t, spansOf(3).At(2), span)
}

func TestNone(t *testing.T) {
	var r Reader
	_, ok := r.Span(Span{})
	assert.False(t, ok)
	assert.False(t, Span{}.Loose())
	broken := Span{group: &group{data: []byte("\xff\xff")}}
	_, ok = r.Span(broken)
	assert.False(t, ok)
}
