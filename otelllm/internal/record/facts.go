package record

import (
	"strconv"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// applyError fills in an error that the provider reported, and returns what it means. Status
// is that of the response, and asked is what is known about the request.
func applyError(f *spanfacts.Request, asked catalogue.Request, status int, e *wire.Error) catalogue.Verdict {
	v := catalogue.Decide(catalogue.Error{
		Status: status, Own: e.Status, Names: []string{e.Code, e.Type}, Phrases: e.Phrases, Quoted: e.Quoted,
		Wait: e.RetryAfter, Request: asked,
	})
	f.Provider.Kind, f.Provider.History = v.Kind, v.History
	f.Provider.Code = providerCode(e.Code, e.Type)
	f.Provider.Intermediary = catalogue.IntermediaryType(e.Type)
	f.RetryAfter = e.RetryAfter
	return v
}

// fillState fills in what the response said.
func fillState(f *spanfacts.Request, st *wire.State) {
	f.Unread = f.Unread || st.Unread
	f.Keepalives = st.Keepalives
	// counted returns a count. A zero is one only if everything was seen.
	counted := func(n int, all bool) classify.Count {
		if n == 0 && !all {
			return 0
		}
		return classify.Counted(n)
	}
	f.Events = counted(st.Events, !f.Unread)
	whole := !f.Unread && !st.Resumed
	f.Text, f.Reasoning = counted(st.TextChunks, whole), counted(st.ReasoningChunks, whole)
	f.ToolInputsStarted, f.ToolInputsCompleted = counted(st.ToolInputsStarted, whole), counted(st.ToolInputsCompleted, whole)
	f.ToolInputsInvalid = counted(st.ToolInputsInvalid, false) // written only if there are any
	f.ToolCalls = counted(st.ToolCalls, whole)
	f.ProviderToolsStarted = counted(st.ProviderToolsStarted, whole)
	f.ProviderToolTypes = st.ProviderTools
	f.CallIDs, f.CallNames, f.OpenCallIDs = nil, nil, nil
	for i := range st.Calls {
		switch c := &st.Calls[i]; {
		case c.ID == "":
		case c.Completed:
			f.CallIDs, f.CallNames = append(f.CallIDs, c.ID), append(f.CallNames, c.Name)
		default:
			f.OpenCallIDs = append(f.OpenCallIDs, c.ID)
		}
	}
	f.Provider.Intermediary = st.Spliced // an error within the answer says by itself whose it is
	f.ResponseID, f.ResponseModel = st.ResponseID, st.Model
	f.Usage, f.OutputTokens = st.Usage, classify.Counted(st.Usage.Output)
}

// errorType returns the error.type of what failed. It is "" if nothing failed, or if this
// side ended the request on purpose.
func errorType(f *spanfacts.Request) string {
	switch {
	case f.Ended == semconv.StreamEndHTTPError:
		return strconv.Itoa(f.Status)
	case f.Provider.Kind != semconv.ProviderErrorKindUnset:
		if f.Provider.Code != "" && f.Provider.Code != classify.Redacted {
			return f.Provider.Code
		}
		return f.Provider.Kind.String()
	case f.Watchdog.Kind != semconv.WatchdogKindUnset, f.Abort.Source == semconv.AbortSourceWatchdog:
		return semconv.ClassWatchdogTimeout.String()
	case f.Abort.Source != semconv.AbortSourceUnset:
		return ""
	case f.Transport.Cause != semconv.TransportCauseUnset:
		return f.Transport.Cause.String()
	case len(f.ErrorChain) > 0:
		return f.ErrorChain[len(f.ErrorChain)-1]
	case f.Ended == semconv.StreamEndTerminalEvent && f.Finish == classify.FinishMissing:
		return semconv.CauseNoContent.String()
	case f.Ended == semconv.StreamEndNoResponse:
		return "_OTHER" // the conventions' value for what has no name
	default:
		return ""
	}
}

// FillIdentity fills in what the request's body says about the request itself. A run knows
// its conversation better than one of its requests does.
func FillIdentity(id *spanfacts.Identity, c *httpcall.Contents) {
	id.Model, id.Stream = c.Model, c.Stream
	if id.ConversationID == "" {
		id.ConversationID = c.ConversationID
	}
}

// FillFacts fills in what the request's body says about tools and the history.
func FillFacts(f *spanfacts.Request, c *httpcall.Contents) {
	f.ProviderTools, f.HistoryCalls, f.HistoryOutputs = c.ProviderTools, c.HistoryCalls, c.HistoryOutputs
	f.HistoryEndsWithOutputs, f.MaxTokens, f.Background = c.EndsWithOutputs, c.MaxTokens, c.Background
}

// providerCode returns what is recorded of a provider's name for an error: its code,
// otherwise its type.
func providerCode(code, typ string) string {
	if code == "" {
		code = typ
	}
	return classify.SanitizeCode(code)
}
