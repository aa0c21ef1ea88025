package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// pydantic-ai (scope pydantic-ai) writes chat, execute_tool and invoke_agent by the
// conventions. The time to the first chunk, under the name of a metric, shows that a chat
// was streamed: gen_ai.request.stream is not recorded. It and the response are recorded when
// a stream came to an end, also to one without a finish reason; a chat that was cancelled,
// or is no longer read, has neither, and is UNSET; under OpenTelemetry's API before 1.32 it is
// ERROR with CancelledError. An agent that streams cancels its chat also when the stream
// broke: only the run shows which it was.
//
// The finish reason error is one that the provider gave for its own failure, or for a call
// that was cancelled there.
//
// A failure is ERROR with an exception event, without error.type. ModelHTTPError is an error
// of the provider: by an HTTP status, or for OpenRouter also within a stream. ModelAPIError
// is any other failure of the call at any stage, and is attributed to none. A tool whose
// arguments are invalid did not run. One that was deferred, or waits for approval, did not
// run either, and has not failed; before format 5 it is ERROR with an exception of that name.
//
// A run is UNSET also when it was cancelled. Where content is recorded, final_result shows
// that it returned a result. Its last answer may have calls all the same: of tools that a
// person has to approve or that the application executes, which have no span, and of the
// output, which is a call by default.
// OK is that of OpenInference's processor, on each span without an error.
//
// Written from pydantic/pydantic-ai 2.33.0, formats 2 to 6 (_instrumentation.py,
// models/instrumented.py, capabilities/instrumentation.py, exceptions.py).

// Keys of pydantic-ai on tools and runs.
const (
	keyPydanticResult   = "final_result"
	keyPydanticStage    = "pydantic_ai.tool.failure_stage"
	keyPydanticDeferral = "pydantic_ai.tool.deferral.name"

	pydanticValidation = "validation"
)

func readPydantic(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		pydanticRequest(span, into.Request)
	case into.Tool != nil:
		pydanticTool(span, into.Tool)
	case into.Run != nil:
		pydanticRun(span, into.Run)
	}
}

func pydanticRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.beginWithoutOK(span, r)
	early := false
	for key, v := range span.Attributes().All() {
		switch {
		case isProvider(key):
			early = early || countsEarly(v)
		case isFirstChunk(key):
			e.streamed = true
		default:
			e.read(key, v, r)
		}
	}
	e.end(span, r)
	if e.abort == semconv.AbortSourceUnknown {
		e.fault = fault{name: e.name} // cancelled by the application, or by the agent: the stream broke
	}
	// The tokens of most providers come with the end of a response: a stream that has them may
	// be one of a server that never records a finish reason. Anthropic's come at its beginning,
	// and its finish reason always.
	if !e.conclude(r) && e.unset && e.streamed && e.reasons == nil && (early || e.output.N() == 0) {
		r.Ended = semconv.StreamEndEOF
	}
}

func pydanticTool(span ptrace.Span, t *classify.Tool) {
	genAITool(span, t)
	withoutOK(t)
	if v, ok := span.Attributes().Get(keyPydanticDeferral); ok && shortString(v) != "" {
		t.Outcome, t.ErrorType, t.Waits = semconv.ToolOutcomeUnset, "", true
		return
	}
	if v, ok := span.Attributes().Get(keyPydanticStage); ok && shortString(v) == pydanticValidation && t.Outcome == semconv.ToolOutcomeFailed {
		t.Outcome = semconv.ToolOutcomeInvalidInput
	}
}

func pydanticRun(span ptrace.Span, run *classify.Run) {
	readRunWithoutOK(span, run)
	run.ReturnsCalls = true
	if run.Failed != classify.NotObserved {
		return
	}
	if _, ok := span.Attributes().Get(keyPydanticResult); ok {
		run.Failed = classify.No
	}
}
