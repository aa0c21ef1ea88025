package demo

import (
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// The model that the agent asks for, and the tools that it calls.
const (
	model     = "gpt-5.5"
	editTool  = "edit_file"
	payTool   = "pay"
	editInput = `{"path":"main.go","text":"package main"}`
	payInput  = `{"invoice":"2026-117","amount":"240.00"}`
)

// scene is one way to break the agent's stream.
type scene struct {
	doing   string   // what the model or the agent was doing
	answers []answer // to the requests of the agent, in their order
	gateway bool     // a gateway is between the agent and the model
	want    verdict
}

// verdict is what is compared of a verdict on a run.
type verdict struct {
	class  semconv.Class
	cause  semconv.Cause
	origin semconv.Origin
	safety semconv.RetrySafety // of the run
	resend semconv.RetrySafety // of the request that broke
}

// answer is what the model server does with one request: it sends the events, and then, if
// it breaks, resets the connection.
type answer struct {
	events []string
	breaks bool
}

func scenes() []scene {
	return []scene{
		{
			doing: "writing a call of " + editTool,
			answers: []answer{
				{events: []string{begins(), callBegins("call_1", editTool), callGoesOn(editInput[:18])}, breaks: true},
			},
			want: verdict{
				semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport,
				semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetySafeAutoRetry,
			},
		},
		{
			doing:   "asked through a gateway",
			answers: []answer{{events: []string{begins(), overloaded, done}}},
			gateway: true,
			want: verdict{
				semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.OriginGateway,
				semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetySafeAutoRetry,
			},
		},
		{
			doing: "answering after " + payTool + " ran",
			answers: []answer{
				{events: []string{begins(), callBegins("call_2", payTool), callGoesOn(payInput), ends("tool_calls"), done}},
				{events: []string{begins()}, breaks: true},
			},
			want: verdict{
				semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport,
				semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetySafeAutoRetry,
			},
		},
	}
}

// verdictOf returns what is compared of the verdict on a run.
func verdictOf(run *report.Run) verdict {
	v := verdict{class: run.Verdict.Class, cause: run.Verdict.Cause, origin: run.Verdict.Origin, safety: run.Verdict.Safety}
	if request := run.Decisive(); request != nil {
		v.resend = request.Verdict.Safety
	}
	return v
}
