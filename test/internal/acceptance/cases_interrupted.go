package acceptance

import (
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// interrupted returns cases 1, 2 and 4 to 7: a stream that breaks before its end.
func interrupted() []Case {
	var cases []Case
	add := func(more ...Case) { cases = append(cases, more...) }

	add(over(withSessions(), func(faultyllm.Wire) Case {
		return Case{
			Number: 1, Title: "text, tool input begun, RST",
			Script: []faultyllm.Exchange{faultyllm.Answer(thinking, saying, patching, faultyllm.Reset())},
			Want:   toolNotRun(interruption(semconv.CauseConnectionReset, semconv.PhaseToolInput, confirmed, semconv.RetryReasonVisibleOutput)),
		}
	})...)

	add(everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 2, Title: "tool input begun, RST",
			Script: []faultyllm.Exchange{faultyllm.Answer(thinking, patching, faultyllm.Reset())},
			Want:   toolNotRun(interruption(semconv.CauseConnectionReset, semconv.PhaseToolInput, safe, semconv.RetryReasonIncompleteToolInput)),
		}
	})...)

	headersThenFIN := failed(interruption(semconv.CauseBodyTruncated, semconv.PhaseResponseStarted, safe, semconv.RetryReasonNoOutput))
	add(everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 4, Title: "headers, then FIN in the body", Variant: "chunked",
			Script: []faultyllm.Exchange{faultyllm.Answer(faultyllm.Begin(), faultyllm.Truncate())},
			Want:   headersThenFIN,
		}
	})...)
	add(Case{
		Number: 4, Title: "headers, then FIN in the body", Variant: "content length", Wire: faultyllm.Anthropic,
		Script: []faultyllm.Exchange{faultyllm.Answer(faultyllm.Truncate()).Framed(faultyllm.ContentLength)},
		Want:   headersThenFIN,
	}, Case{
		Number: 4, Title: "headers, then FIN in the body", Variant: "not streamed", Wire: faultyllm.Responses,
		Script:  []faultyllm.Exchange{faultyllm.Answer(saying, patch, faultyllm.Truncate(), faultyllm.Finish(faultyllm.ToolCalls))},
		Want:    headersThenFIN,
		Prepare: func(_ *World, s *Setup) { s.Config.Stream = false },
	})

	add(over(withSessions(), func(faultyllm.Wire) Case {
		return Case{
			Number: 5, Title: "text, then a clean EOF",
			Script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.CleanEnd())},
			Want:   failed(interruption(semconv.CauseCleanEOF, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput)),
		}
	})...)

	add(everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 6, Title: "reasoning only, RST",
			Script: []faultyllm.Exchange{faultyllm.Answer(thinking, faultyllm.Reset())},
			Want:   failed(interruption(semconv.CauseConnectionReset, semconv.PhaseReasoning, safe, semconv.RetryReasonReasoningOnly)),
		}
	})...)

	ready := faultyllm.Answer(thinking, patch, faultyllm.FinishReason(faultyllm.ToolCalls), faultyllm.Reset())
	add(everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 7, Title: "tool call ready, RST",
			Script: []faultyllm.Exchange{ready},
			Want:   toolNotRun(interruption(semconv.CauseConnectionReset, semconv.PhaseToolCallReady, safe, semconv.RetryReasonToolCallNotExecuted)),
		}
	})...)
	add(over([]faultyllm.Wire{faultyllm.Chat, faultyllm.Responses}, func(faultyllm.Wire) Case {
		return Case{
			Number: 7, Title: "tool call ready, RST", Variant: "tools not observed",
			Script:  []faultyllm.Exchange{ready},
			Want:    failed(interruption(semconv.CauseConnectionReset, semconv.PhaseToolCallReady, confirmed, semconv.RetryReasonToolStateUnknown)),
			Prepare: func(_ *World, s *Setup) { s.NoTools = true },
		}
	})...)
	return cases
}
