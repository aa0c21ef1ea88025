// Package turn follows the turns of one conversation of an agent: events in, the parts of runs out. It is pure: it knows no
// clock and no spans, and keeps little of a turn that is over.
package turn

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/semconv"
)

// Place is where the parts of a turn belong. It is the same for all of them.
type Place struct {
	Agent        agentlog.Agent
	Conversation string
	// Key identifies the turn within the conversation. Repeated records give the same key.
	Key string
	// Trace and Above are the agent's own trace, and the span that began the turn there; empty if the agent exports none.
	Trace pcommon.TraceID
	Above pcommon.SpanID
}

// Request is one attempt of a model request. A count of zero means that nothing was observed, not that there was nothing:
// an agent may lose records.
type Request struct {
	Start, End pcommon.Timestamp
	Above      pcommon.SpanID // the agent's own span, or empty
	Open       bool           // its end was not observed
	Attempt    int
	Model      string
	Provider   string
	RequestID  string
	Status     int
	Failure    agentlog.Failure
	Phase      semconv.Phase
	Finish     string // the finish reason, "" if not observed

	Text, Reasoning, InputsBegan, InputsCompleted, ProviderTools int

	InputTokens, OutputTokens int64 // -1 if not recorded

	events     int  // number of events in its response
	inItem     bool // an item of its output has begun
	endsInText bool // the last recorded item of its output is text
	ran        bool // a tool ended before its response did
}

// Tool is one execution of a tool, or a call that was rejected.
type Tool struct {
	Start, End pcommon.Timestamp
	Above      pcommon.SpanID
	CallID     string
	Name       string
	Outcome    semconv.ToolOutcome // unset if not observed
	ErrorType  string
}

// Run is a turn that is over.
type Run struct {
	Start, End pcommon.Timestamp
	EndedBy    semconv.RunEnd
	Requests   int
	ErrorType  string // of the request that ended it
}

// Sink takes the parts of runs, in the order in which they ended; a run after its parts. A run without parts is not
// reported.
type Sink interface {
	Request(Place, *Request)
	Tool(Place, *Tool)
	Run(Place, *Run)
}
