package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// VLLM reads the spans that vLLM writes of the requests that it served: llm_request, of
// kind SERVER, beneath the span of the client that called it. There is no operation name;
// its scope is the module that wrote it, which has moved between versions.
//
// A span is written once, when the engine has finished a request, with token counts and
// latencies. It has no status, no finish reason and no error: a request that was aborted or
// refused has no span. So it proves that the engine worked, and nothing about what the
// client received: neither success nor failure is read from it. Written from
// vllm-project/vllm, main branch in 2026 (v1/engine/output_processor.py, tracing/otel.py).
type VLLM struct{}

var _ Dialect = VLLM{}

// nameVLLMRequest is the name of the span of a request.
const nameVLLMRequest = "llm_request"

// Name implements [Dialect].
func (VLLM) Name() string { return "vllm" }

func (VLLM) claims() claims { return claims{scopes: scopesOf(scopeVLLM)} }

// Recognise implements [Dialect].
func (VLLM) Recognise(s *AttributeScan) Head {
	if s.name != nameVLLMRequest {
		return Head{}
	}
	return s.head(Request)
}

// Read implements [Dialect].
func (VLLM) Read(span ptrace.Span, into Facts) {
	*into.Request = classify.Request{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Phase: semconv.PhaseUnknown, Failed: failed(span),
	}
}
