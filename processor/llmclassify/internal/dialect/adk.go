package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// ADK reads the spans of Google's Agent Development Kit for Python (scope
// gcp.vertex.agent): invocation over invoke_agent over call_llm, which has no operation
// name and is recognised by its own. Its tools are beneath the call_llm that asked for
// them, because that is still being read when they run. The invocation groups the runs of
// agents and is not a run; in its later form it is an invoke_workflow. In earlier versions a
// run is "agent_run [name]", without attributes. The span "execute_tool (merged)" is written
// for a page of the kit, and executes nothing.
//
// A failure is ERROR with an exception event; UNSET is everything else, a stream that is no
// longer read as well. OK is OpenInference's, which sets it before the call ends: an exception
// beside it is the failure, since OpenTelemetry keeps OK (Arize-ai/openinference, issue 3415). A request's finish reason is that of the last part of the answer. A
// tool that has no id of its call records "<not specified>", and one that reports a failure
// without raising it has an error.type. Written from google/adk-python 1.4.1 and its main
// branch in 2026 (telemetry/tracing.py, telemetry/_instrumentation.py).
type ADK struct{}

var _ Dialect = ADK{}

// The names of ADK's spans that have no operation name, or another meaning than it.
const (
	nameADKRequest = "call_llm"
	nameADKRun     = "agent_run ["
	nameADKMerged  = "execute_tool (merged)"
)

// adkUnspecified is what ADK writes in place of a missing id.
const adkUnspecified = "<not specified>"

// Name implements [Dialect].
func (ADK) Name() string { return "google_adk" }

func (ADK) claims() claims { return claims{scopes: scopesOf(scopeADK)} }

// Recognise implements [Dialect].
func (ADK) Recognise(s *AttributeScan) Head {
	switch {
	case s.operation != "":
		return s.head(operation(s.operation))
	case s.name == nameADKRequest:
		return s.head(Request)
	case strings.HasPrefix(s.name, nameADKRun):
		return s.head(Run)
	default:
		return Head{}
	}
}

// Read implements [Dialect].
func (ADK) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		adkRequest(span, into.Request)
	case into.Tool != nil:
		adkTool(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
	}
}

func adkTool(span ptrace.Span, t *classify.Tool) {
	genAITool(span, t)
	if withoutOK(t); !t.Waits && t.Outcome == semconv.ToolOutcomeUnset && raised(span) {
		t.Outcome = semconv.ToolOutcomeFailed
	}
	if v, ok := span.Attributes().Get(string(otelsemconv.GenAIToolCallIDKey)); ok && v.Type() == pcommon.ValueTypeStr && v.Str() == adkUnspecified {
		t.CallID = ""
	}
	if t.Outcome == semconv.ToolOutcomeUnset && t.ErrorType != "" {
		t.Outcome = semconv.ToolOutcomeFailed
	}
}

func adkRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.beginWithoutOK(span, r)
	if failed(span) == classify.No && raised(span) {
		r.Failed, e.unset = classify.Yes, false
	}
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	e.end(span, r)
	e.conclude(r)
}
