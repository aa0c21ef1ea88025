package classify

import (
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// askedAgain reports whether the run sent its last request after the tool had ended, what that
// request carried is not known, and it was answered, or how it ended is not known. The run did not
// end on the tool: the model was asked again.
func (j *judge) askedAgain(t int) bool {
	n := len(j.order)
	if n == 0 {
		return false
	}
	if last := j.states[j.order[n-1]]; last != stateUnknown && !last.answered() {
		return false
	}
	last := j.requestAt(int32(n - 1))
	return last.HistoryCalls == nil && j.follows(n-1, t)
}

// failedToParse reports whether the error of a tool is one of a parser of JSON: of JavaScript,
// Python or the AI SDK.
func (t *Tool) failedToParse() bool {
	switch className(t.ErrorType) {
	case "SyntaxError", "JSONDecodeError", "InvalidToolInputError", "AI_InvalidToolInputError", "AI_JSONParseError":
		return true
	default:
		return false
	}
}

// className returns an error.type that is the name of a class without its packages.
func className(errorType string) string {
	return errorType[strings.LastIndexAny(errorType, ".:")+1:]
}

// inputUnsure reports whether a tool that failed may have got half an input: the request
// before it broke off, was cut by a limit, failed for an unknown reason or lacks the finish reason
// that was due, and no response is known to have made the call. Where its end was not observed, the
// tool's error shows it. What failed then is not known to be the tool.
func (j *judge) inputUnsure(n int) bool {
	t := &j.run.Tools[n]
	if t.CallID != "" && j.isMade(n) {
		return false
	}
	pos, _ := slices.BinarySearchFunc(j.order, t, func(i int, t *Tool) int {
		if j.run.Requests[i].Start.After(t.Start) {
			return 1
		}
		return -1
	})
	if pos == 0 {
		return false
	}
	i := j.order[pos-1]
	switch j.classifications[i].class {
	case semconv.ClassStreamInterrupted, semconv.ClassWatchdogTimeout, semconv.ClassOutputLimited, semconv.ClassUnclassified:
		return true
	case semconv.ClassUnset:
		finish := j.run.Requests[i].Finish
		return j.states[i] == stateUnknown && (finish == FinishMissing || finish == FinishNotObserved && t.failedToParse())
	default:
		return false
	}
}
