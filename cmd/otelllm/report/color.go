package report

import (
	"fmt"

	"github.com/otelllm/otelllm-go/semconv"
)

// color is an ANSI attribute; 0 is no attribute.
type color uint8

const (
	plain  color = 0
	bold   color = 1
	dim    color = 2
	red    color = 31
	green  color = 32
	yellow color = 33
)

// paint formats text, in color if the printer uses it.
func (p *Printer) paint(c color, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if !p.Color || c == plain {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

func outcomeColor(r *Run) color {
	if r == nil {
		return red
	}
	switch r.Verdict.Outcome {
	case semconv.RunOutcomeSucceeded, semconv.RunOutcomeRecovered:
		return green
	case semconv.RunOutcomeLimited, semconv.RunOutcomeAborted:
		return yellow
	default:
		return red
	}
}

func safetyColor(r *Run) color {
	if r == nil {
		return plain
	}
	switch r.Verdict.Safety {
	case semconv.RetrySafetySafeAutoRetry:
		return green
	case semconv.RetrySafetyUserConfirmedRetry:
		return yellow
	case semconv.RetrySafetyNoRetry:
		return red
	default:
		return plain
	}
}
