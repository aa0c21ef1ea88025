package dialect

import (
	"cmp"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// OpenAIAgents reads the spans of OpenAI's agents SDK through OpenInference (scopes
// @arizeai/openinference-instrumentation-openai-agents and
// openinference.instrumentation.openai_agents): LLM spans generation and response,
// TOOL with tool.name and no id, AGENT; CHAIN turn only groups spans. A TOOL without a
// name is a handoff, as the span's own name shows, and is not a tool. Neither is the
// root a run, an AGENT without graph.node.id for the whole trace: it is OK however the
// agents beneath it ended, which are the runs. Early versions for Python have no
// graph.node.id: there an agent differs from the root only if it failed.
//
// An exception event has a message and no type, so that few errors can be identified.
// The OK of an AGENT is not success: an agent goes on with what a broken stream brought,
// or stops when its reader does.
//
// The usage of a response comes with its last event, so that OK with a count of tokens is
// success; without one the SDK counts zeros, and the end never came: a stream that ended
// early, was stopped, or was no longer read. The finish reason beside such zeros is made up
// from what had arrived, and so is a call: its input may be half of one. Versions for
// JavaScript from 0.2.8 on record a finish reason; before, and for Python, a limit is only
// in what they record of the whole response: its incomplete_details, or for Chat
// Completions, with recorded outputs, the response itself. Python's record of Chat
// Completions has neither. Whether a request streamed, phases and histories are not
// recorded. Measured with @openai/agents 0.20.0 and version 0.2.15 for JavaScript; older
// versions and 2.0.0 for Python by their source.
type OpenAIAgents struct{}

var _ Dialect = OpenAIAgents{}

// Name implements [Dialect].
func (OpenAIAgents) Name() string { return "openai_agents" }

func (OpenAIAgents) claims() claims { return claims{scopes: scopesOf(scopeOpenAIAgents)} }

// Recognise implements [Dialect]. Only the scope identifies its spans.
func (OpenAIAgents) Recognise(s *AttributeScan) Head {
	return s.head(openInferenceKind(s))
}

// Read implements [Dialect].
func (OpenAIAgents) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		openAIAgentsRequest(span, into.Request)
	case into.Tool != nil:
		openInferenceTool(span, into.Tool)
		openAIAgentsTool(span, into.Tool)
		into.Tool.Handoff = openAIAgentsHandoff(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
		if into.Run.Failed == classify.Yes && into.Run.ErrorType == "" {
			into.Run.ErrorType = openAIAgentsStops[beforeColon(span.Status().Message())]
		}
	}
}

// openAIAgentsStops maps the message with which the SDK marks an agent that it stopped to the class
// of the error that it then raises. Details follow the message after a colon.
var openAIAgentsStops = map[string]string{
	"Max turns exceeded":           "MaxTurnsExceeded",
	"Guardrail tripwire triggered": "InputGuardrailTripwireTriggered",
}

func beforeColon(message string) string {
	before, _, _ := strings.Cut(message, ":")
	return before
}

// The name of a span or a tool that hands over to another agent: the SDK's type of span,
// with the agent if it is known; the name that the SDK gives the tool by which the model
// asks for it; and the one that versions for JavaScript give to the span.
const (
	nameHandoff       = "handoff"
	nameHandoffTo     = "handoff to "
	toolHandoffPrefix = "transfer_to_"
	toolHandedPrefix  = "handoff_to_"
)

func openAIAgentsHandoff(span ptrace.Span, t *classify.Tool) bool {
	of := span.Name() == nameHandoff || strings.HasPrefix(span.Name(), nameHandoffTo)
	switch {
	case strings.HasPrefix(t.Name, toolHandedPrefix):
		return of
	case t.Name != "":
		return strings.HasPrefix(t.Name, toolHandoffPrefix)
	default:
		return of
	}
}

// openAIAgentsTool reads what ended a tool from the message of its error, whose form is the
// SDK's: the class of an error before its own message.
func openAIAgentsTool(span ptrace.Span, t *classify.Tool) {
	if t.Outcome != semconv.ToolOutcomeFailed || t.ErrorType != "" {
		return
	}
	class := openAIAgentsClass(span.Status().Message())
	switch f, known := failureOf(class); {
	case !known:
		return
	case f.abort == semconv.AbortSourceDeadline:
		t.Outcome = semconv.ToolOutcomeTimedOut
	case f.abort != semconv.AbortSourceUnset:
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, f.abort
	}
	t.ErrorType = typeName(class)
}

// openAIAgentsErrors begin the messages of tools' errors; JSON with the error follows.
var openAIAgentsErrors = [...]string{"Error running tool: ", "Error running tool (non-fatal): "}

// openAIAgentsClass is the class of the error in a message of the SDK, empty if the message
// has another form.
func openAIAgentsClass(message string) string {
	if len(message) > maxEmpty {
		return ""
	}
	for _, prefix := range openAIAgentsErrors {
		rest, ok := strings.CutPrefix(message, prefix)
		if !ok {
			continue
		}
		var data struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(rest), &data) != nil {
			return ""
		}
		return beforeColon(data.Error)
	}
	return ""
}

func openAIAgentsRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	usage, messages := false, false
	var response pcommon.Value
	incomplete := ""
	for key, v := range span.Attributes().All() {
		switch key {
		case keyOITokens:
			usage = usage || count(v).N() > 0
		case keyOITokensOfAnswer:
			e.output = count(v)
			usage = usage || e.output.N() > 0
		case keyOITokensOfPrompt:
			e.input = count(v)
		case keyOIFinish:
			e.finish(v)
		case keyOIParameters:
			incomplete = incompleteReason(v)
		case keyOutputValue:
			response = v
		default:
			messages = messages || strings.HasPrefix(key, oiOutputMessages)
			if openInferenceCall(key) {
				addID(&r.CallIDs, v)
				continue
			}
			e.read(key, v, r)
		}
	}
	if incomplete != "" { // a finish reason beside it is made up
		e.reasons = []string{incomplete}
	}
	if response != (pcommon.Value{}) && (!messages || e.reasons == nil) {
		e.openAIResponse(response)
	}
	if messages && e.content == classify.NotObserved {
		e.content = classify.Yes
	}
	e.end(span, r)
	switch {
	case r.Failed == classify.Yes:
		if e.conclude(r) && r.Provider.Kind != semconv.ProviderErrorKindUnset && r.Ended == semconv.StreamEndUnset {
			r.Provider.InBand = true // the messages that are known are of the last event of a response
		}
	case !usage:
		// The end never came: what is recorded of it is made up.
		r.Failed, r.Finish, r.CallIDs = classify.NotObserved, classify.FinishMissing, nil
	case e.empty(r):
		nothingIn(r, classify.Corroborated)
	case r.Finish == classify.FinishMissing:
		r.Failed = classify.NotObserved
	default:
		e.conclude(r)
	}
}

// incompleteReason is the reason why a response is incomplete, among the parameters that
// are recorded of it; empty without one, unknown if an attribute limit cut them.
func incompleteReason(v pcommon.Value) string {
	switch s := v.Str(); {
	case !strings.Contains(s, keyIncomplete):
		return ""
	case len(s) > maxJSON:
		return limitOfLong(s)
	}
	var parameters struct {
		Incomplete *struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
	}
	if json.Unmarshal([]byte(v.Str()), &parameters) != nil {
		return finishUnknown
	}
	if parameters.Incomplete == nil {
		return ""
	}
	return cmp.Or(parameters.Incomplete.Reason, statusIncomplete)
}

// limitOfLong is the reason why a response is cut that is too long to be parsed, as its JSON has
// it; empty if it shows none. Within a text the quotes would be escaped.
func limitOfLong(s string) string {
	for _, colon := range [...]string{`":`, `": `} {
		for _, reason := range [...]string{"length", "content_filter"} {
			if strings.Contains(s, `"finish_reason`+colon+`"`+reason+`"`) {
				return reason
			}
		}
		if strings.Contains(s, `"`+keyIncomplete+colon+`{`) {
			return statusIncomplete
		}
	}
	return ""
}

// keyIncomplete is the name of a response's detail, and statusIncomplete its status beside
// that.
const (
	keyIncomplete    = "incomplete_details"
	statusIncomplete = "incomplete"
)

// openAIResponse reads whether a recorded response has any content, and its finish reasons
// where no other attribute has them: a list of chat completions, or one response. What is long
// counts as content.
func (e *ending) openAIResponse(v pcommon.Value) {
	s := v.Str()
	if len(s) > maxJSON {
		e.content = classify.Yes
		if limit := limitOfLong(s); limit != "" && e.reasons == nil {
			e.reasons = []string{limit}
		}
		return
	}
	var reasons []string
	switch {
	case strings.HasPrefix(s, "[{"):
		var completions []struct {
			Choices *[]struct {
				Reason string `json:"finish_reason"`
			} `json:"choices"`
		}
		if json.Unmarshal([]byte(s), &completions) != nil {
			return
		}
		chosen := false
		for _, c := range completions {
			if c.Choices == nil {
				return // a message, in Python
			}
			for _, choice := range *c.Choices {
				chosen = true
				if choice.Reason != "" {
					reasons = append(reasons, truncated(choice.Reason))
				}
			}
		}
		e.content = classify.FactOf(chosen)
	case strings.HasPrefix(s, "{"):
		var response struct {
			Status     string                   `json:"status"`
			Incomplete *struct{ Reason string } `json:"incomplete_details"`
			Output     *[]struct{}              `json:"output"`
		}
		if json.Unmarshal([]byte(s), &response) != nil || response.Output == nil {
			return
		}
		e.content = classify.FactOf(len(*response.Output) > 0)
		if response.Incomplete != nil && response.Incomplete.Reason != "" {
			reasons = []string{truncated(response.Incomplete.Reason)}
			break
		}
		switch response.Status {
		case statusIncomplete, statusFailed, statusCancelled:
			reasons = []string{response.Status}
		}
	}
	if e.reasons == nil {
		e.reasons = reasons
	}
}
