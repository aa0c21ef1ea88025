package turn

import (
	"strconv"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/semconv"
)

// progress counts a part of the response.
func (r *Request) progress(e *agentlog.Event) {
	r.events++
	r.End = max(r.End, e.Time)
	switch e.Part {
	case agentlog.Text:
		r.Text++
		r.endsInText = true
	case agentlog.Reasoning:
		r.Reasoning++
	case agentlog.InputBegan:
		r.InputsBegan = max(r.InputsBegan, r.InputsCompleted+1)
	case agentlog.InputCompleted:
		r.InputsCompleted++
		r.InputsBegan = max(r.InputsBegan, r.InputsCompleted)
	case agentlog.ProviderTool:
		r.ProviderTools++
	case agentlog.ItemBegan:
		r.inItem, r.endsInText = true, false
	case agentlog.ItemEnded:
		if !r.inItem { // no other part of the item is recorded
			r.endsInText = false
		}
		r.inItem = false
	case agentlog.Something:
	}
}

// phase is how far the response is known to have come.
func (r *Request) phase() semconv.Phase {
	switch {
	case r.Failure.End == semconv.StreamEndTerminalEvent:
		return semconv.PhaseStreamEnd
	case r.InputsBegan > r.InputsCompleted:
		return semconv.PhaseToolInput
	case r.InputsCompleted > 0:
		return semconv.PhaseToolCallReady
	case r.Text > 0:
		return semconv.PhaseText
	case r.Reasoning > 0:
		return semconv.PhaseReasoning
	case r.events > 0, r.Failure.End == semconv.StreamEndHTTPError:
		return semconv.PhaseResponseStarted
	default:
		return semconv.PhaseUnknown
	}
}

// ErrorType is the type of a request's error: the most specific name that is recorded.
func ErrorType(f *agentlog.Failure, status int) string {
	switch {
	case !f.Failed:
		return ""
	case status >= 400:
		return strconv.Itoa(status)
	case f.Provider != semconv.ProviderErrorKindUnset:
		return f.Provider.String()
	case f.Code != "":
		return f.Code
	case f.Watchdog != semconv.WatchdogKindUnset:
		return "watchdog_" + f.Watchdog.String()
	case f.Type != "":
		return f.Type
	case f.End != semconv.StreamEndUnset:
		return f.End.String()
	default:
		return "_OTHER"
	}
}
