package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// OpenLLMetry reads the spans of Traceloop's instrumentations, for JavaScript and
// Python, in their present form (gen_ai.*) and their older ones (llm.request.type,
// gen_ai.completion.0.finish_reason, llm.response.finish_reason).
//
// An error is ERROR with an exception event; the status of a truncated stream may be OK,
// so that OK is not success. For JavaScript the finish reason stop is written for
// truncated, aborted and empty streams, too, under either key, and proves nothing; on
// Responses the span of a stream ends with its headers. A task is a step and not a run. The
// ids of calls are in the older form only, and only with recorded content. Counts of tokens are not counts of
// chunks: the one token of a truncated response is a placeholder. Histories are not
// recorded.
type OpenLLMetry struct {
	scope scope // which language; unknown if the scope is not known
}

var _ scoped = OpenLLMetry{}

// Keys of OpenLLMetry's older forms.
const (
	keyLLMFinish        = "llm.response.finish_reason"
	keyLLMStop          = "llm.response.stop_reason"
	keyCompletionFinish = "gen_ai.completion.0.finish_reason"
	completionCalls     = "gen_ai.completion.0.tool_calls."
	keyTraceloopEntity  = "traceloop.entity.name"
)

// Values of traceloop.span.kind and llm.request.type.
const (
	traceloopWorkflow = "workflow"
	traceloopAgent    = "agent"
	traceloopTool     = "tool"
	traceloopHandoff  = "handoff" // to another agent, of openai-agents
	requestChat       = "chat"
	requestCompletion = "completion"
)

// Name implements [Dialect].
func (OpenLLMetry) Name() string { return "openllmetry" }

func (OpenLLMetry) in(s scope) Dialect { return OpenLLMetry{s} }

func (OpenLLMetry) claims() claims {
	return claims{markOpenLLMetry, scopesOf(scopeOpenLLMetryJS, scopeOpenLLMetryPython)}
}

// Recognise implements [Dialect].
func (OpenLLMetry) Recognise(s *AttributeScan) Head {
	if kind := operation(s.operation); kind != Other {
		return s.head(kind)
	}
	switch s.requestType {
	case requestChat, requestCompletion:
		return s.head(Request)
	}
	switch s.traceloop {
	case traceloopWorkflow, traceloopAgent:
		return s.head(Run)
	case traceloopTool, traceloopHandoff:
		return s.head(Tool)
	}
	return Head{}
}

// Read implements [Dialect].
func (d OpenLLMetry) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		d.request(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
		if v, ok := span.Attributes().Get(keyTraceloopEntity); ok && into.Tool.Name == "" {
			into.Tool.Name = text(v)
		}
		if v, ok := span.Attributes().Get(keyTraceloopKind); ok {
			into.Tool.Handoff = v.Str() == traceloopHandoff
		}
	case into.Run != nil && d.scope == scopePythonAgents:
		readRunWithoutOK(span, into.Run) // see [GenAI]
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func (d OpenLLMetry) request(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	if r.Failed == classify.No {
		r.Failed = classify.NotObserved // the status of a truncated stream may be OK
	}
	var old ending // finish reasons in the older forms, which are the provider's own
	streaming := classify.NotObserved
	for key, v := range span.Attributes().All() {
		switch key {
		case keyLLMStreaming, keyGenAIStreaming:
			if v.Type() == pcommon.ValueTypeBool {
				streaming = classify.FactOf(v.Bool())
			}
		case keyLLMFinish, keyLLMStop, keyGenAIFinish, keyGenAIStop, keyCompletionFinish:
			old.addFinish(v)
		default:
			if strings.HasPrefix(key, completionCalls) && strings.HasSuffix(key, ".id") {
				addID(&r.CallIDs, v)
				continue
			}
			e.read(key, v, r)
		}
	}
	if old.reasons != nil {
		e.reasons = old.reasons
	}
	e.streamed = streaming == classify.Yes
	e.end(span, r)
	if d.inventsStop(old.reasons != nil) && streaming != classify.No && e.has(finishStop) {
		r.Finish = classify.FinishNotObserved
	}
	switch {
	case e.conclude(r), r.Failed == classify.Yes:
	case e.streamed && len(e.reasons) == 0 && e.unset:
		r.Ended = semconv.StreamEndEOF
	}
}

// inventsStop reports whether the producer writes the finish reason stop for each stream,
// whatever came: all but those for Python, where the reason is under the newer key. Those for
// JavaScript do under the older one, too.
func (d OpenLLMetry) inventsStop(older bool) bool {
	switch d.scope {
	case scopeOpenLLMetryPython, scopePython, scopeGoogleGenAI, scopeAG2:
		return false
	case scopeOpenLLMetryJS:
		return true
	default:
		return !older
	}
}

// addID adds an id to a bounded list, which keeps the first ones.
func addID(ids *[]string, v pcommon.Value) {
	if id := id(v); id != "" && len(*ids) < classify.MaxIDs {
		*ids = append(*ids, id)
	}
}
