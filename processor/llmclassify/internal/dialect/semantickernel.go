package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Semantic Kernel, by the source of its versions 1.4 to 1.44 for Python and 1.14 to 1.80 for .NET:
// no span has OK. The finish reasons are in gen_ai.response.finish_reason, as a text: for Python the
// members of an enum with commas ("FinishReason.STOP"), for .NET JSON (`["Stop"]`). What is recorded of
// a response is recorded when the call returned, or when its stream was read to its end without an
// error. "None" and "N/A" mean that the connector knows no reason: that of Ollama for Python and
// that of Gemini for .NET never do. For Python, error.type is the text of a class.

// OpenTelemetry's instrumentation of google-genai, by the source of its versions 0.1b0 to 0.7b1:
// the finish reasons are always recorded. In 0.1b0 the list is always empty (issue 3416 of
// opentelemetry-python-contrib), later it is empty if no reason came. code.function.name is
// that of the method, which for a stream ends in "_stream". Tokens of a stream are counted
// with each chunk, and a stream that was no longer read records the same as one that came to
// its end.

// keyFunctionName is the name of the function that the span is about.
const keyFunctionName = "code.function.name"

// readReturn reads whether a call came back, or its stream was read to its end, for producers that
// may record no finish reason beside that.
func (d GenAI) readReturn(key string, v pcommon.Value, e *ending) {
	switch {
	case d.scope == scopeSemanticKernel && key == keyGenAIFinish:
		e.returned = true
	case d.scope == scopeGoogleGenAI && key == keyFunctionName && strings.HasSuffix(shortString(v), "_stream"):
		e.returned = false
	}
}

// endsWithoutReason reports whether a request came to its end as far as its producer records
// ends, without a finish reason: it returned, and tokens of its answer were counted.
func (d GenAI) endsWithoutReason(e *ending) bool {
	if d.scope == scopeGoogleGenAI && e.reasons == nil {
		return false
	}
	return e.returned && e.unset && len(e.reasons) == 0 && e.output.N() > 0 && e.errorType == "" && !e.recorded
}

// unstated is for an answer that came to its end without a finish reason.
func (e *ending) unstated(r *classify.Request) {
	r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Inferred, semconv.PhaseStreamEnd
	r.Finish = classify.FinishUnstated
}
