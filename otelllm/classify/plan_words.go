package classify

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// maxPlanned bounds the calls that one sentence of a plan names.
const maxPlanned = 8

// String returns the plan in plain sentences, fit to be pasted into the prompt with which an agent
// is resumed. It has at most 8 calls of each list, and no content; "" for the zero value.
func (p Plan) String() string {
	var s []string
	for _, o := range [...]struct {
		output CallOutput
		words  string
	}{
		{OutputDelivered, "ran, with the output that you have"},
		{OutputKept, "ran, and the output is still to be sent"},
		{OutputLost, "ran, and the output is lost"},
	} {
		s = addPlanned(s, "Already done: ", withOutput(p.Ran, o.output), " "+o.words+". Do not call it again.", " "+o.words+". Do not call them again.")
	}
	s = addPlanned(s, "Unknown: ", p.MayHaveRun, " may have run. Check what it did before you call it again.", " may have run. Check what they did before you call them again.")
	s = addPlanned(s, "Not done: ", p.NeverRan, " did not run.", " did not run.")
	if p.More {
		s = append(s, "Other calls may have run that are not recorded.")
	}
	if p.Ask != semconv.RetryReasonUnset && p.Send != semconv.ResumeSendNothing {
		s = append(s, "Ask a person before anything is sent ("+p.Ask.String()+").")
	}
	if text := p.sendText(); text != "" {
		if p.Wait > 0 {
			text = "Wait " + durationText(p.Wait) + ". " + text
		}
		s = append(s, text)
	}
	return strings.Join(s, " ")
}

func (p *Plan) sendText() string {
	switch p.Send {
	case semconv.ResumeSendAgain:
		return "It is safe to send the same again."
	case semconv.ResumeSendRest:
		return "Go on from the conversation, with every output that exists."
	case semconv.ResumeSendRepairedHistory:
		return "Before you go on, give each call without an output one that says what is known of it."
	case semconv.ResumeSendNothing:
		if p.Ask != semconv.RetryReasonUnset {
			return "Do not send the same again (" + p.Ask.String() + ")."
		}
		return "There is nothing to send."
	default:
		return ""
	}
}

func withOutput(calls []PlannedCall, output CallOutput) (list []PlannedCall) {
	for i := range calls {
		if calls[i].Output == output {
			list = append(list, calls[i])
		}
	}
	return list
}

// addPlanned adds a sentence about some calls, unless there are none.
func addPlanned(sentences []string, head string, calls []PlannedCall, one, several string) []string {
	if len(calls) == 0 {
		return sentences
	}
	var names []string
	for i := range calls[:min(len(calls), maxPlanned)] {
		names = append(names, calls[i].String())
	}
	list, tail := strings.Join(names, ", "), one
	if more := len(calls) - len(names); more > 0 {
		list += " and " + strconv.Itoa(more) + " more"
	}
	if len(calls) > 1 {
		tail = several
	}
	return append(sentences, head+list+tail)
}

// String returns the name of the tool, with the id of the call in parentheses: "pay (call_1)".
func (c PlannedCall) String() string {
	name := cmp.Or(c.Name, "a tool")
	if c.ID != "" {
		name += " (" + c.ID + ")"
	}
	return name
}

// MarshalJSON returns the plan as every program of this project prints it:
//
//	{"ran": [{"id", "name", "effect", "output"}], "may_have_run": […], "never_ran": […],
//	 "more": true, "send": "rest", "wait": 20, "ask": "visible_output", "words": "…"}
//
// Wait is in seconds. What is unset is left out, the lists are not.
func (p Plan) MarshalJSON() ([]byte, error) {
	type call struct {
		ID     string `json:"id,omitempty"`
		Name   string `json:"name,omitempty"`
		Effect string `json:"effect"`
		Output string `json:"output,omitempty"`
	}
	calls := func(list []PlannedCall) []call {
		out := make([]call, 0, len(list))
		for i := range list {
			c := &list[i]
			out = append(out, call{c.ID, c.Name, c.Effect.String(), c.Output.String()})
		}
		return out
	}
	return json.Marshal(struct {
		Ran        []call  `json:"ran"`
		MayHaveRun []call  `json:"may_have_run"`
		NeverRan   []call  `json:"never_ran"`
		More       bool    `json:"more,omitempty"`
		Send       string  `json:"send,omitempty"`
		Wait       float64 `json:"wait,omitempty"`
		Ask        string  `json:"ask,omitempty"`
		Words      string  `json:"words,omitempty"`
	}{calls(p.Ran), calls(p.MayHaveRun), calls(p.NeverRan), p.More, p.Send.String(), p.Wait.Seconds(), p.Ask.String(), p.String()})
}
