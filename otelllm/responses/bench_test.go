package responses

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
)

// BenchmarkDelta is the cost of one delta: alone, and on both sides of a gateway.
func BenchmarkDelta(b *testing.B) {
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider()), otelllm.WithoutInferredRuns())
	frame := text("some words of the answer")
	b.Run("client", func(b *testing.B) {
		s := NewSession(context.Background(), Config{Instrumentation: with})
		defer s.Close(nil)
		s.RecordSent(create("", message("user", "a")))
		s.RecordReceived(created("r1"))
		b.ReportAllocs()
		b.SetBytes(int64(len(frame)))
		for b.Loop() {
			s.RecordReceived(frame)
		}
	})
	b.Run("gateway", func(b *testing.B) {
		agent := NewSession(context.Background(), Config{Serving: true, Instrumentation: with})
		upstream := NewSession(context.Background(), Config{Upstream: agent, Instrumentation: with})
		g := gateway{agent, upstream}
		defer agent.Close(nil)
		defer upstream.Close(nil)
		g.asks(create("", message("user", "a")))
		g.answers(created("r1"))
		b.ReportAllocs()
		b.SetBytes(int64(len(frame)))
		for b.Loop() {
			g.answers(frame)
		}
	})
}

// TestMemory checks what an idle connection keeps, between two requests of an agent: no content, and little else.
func TestMemory(t *testing.T) {
	if sample.Only() {
		t.Skip("it measures the heap")
	}
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider()), otelllm.WithoutInferredRuns())
	const n = 500
	sessions := make([]*Session, n)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range sessions {
		s := NewSession(context.Background(), Config{Header: codex(strconv.Itoa(i)), Instrumentation: with})
		s.RecordSent(create(`"generate":false,`, message("developer", "be brief")))
		received(s, created("resp_w"), completed("resp_w"))
		s.RecordSent(create(previous("resp_w"), message("user", "a")))
		received(s, created("resp_1"), called("call_1"), completed("resp_1"))
		sessions[i] = s
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a connection", each)
	assert.Less(t, each, uint64(10<<10))
	for _, s := range sessions {
		s.Close(nil)
	}
}
