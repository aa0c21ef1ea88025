package classify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A run that ended well recovered if it, or the producer of a request, counts attempts that
// failed, also where nothing else is recorded of them.
func TestFailuresThatAreOnlyCounted(t *testing.T) {
	good := func(from, to float64, failedBefore int) Request {
		return little(from, to, func(r *Request) {
			r.Ended, r.Basis, r.Finish, r.FailedBefore = semconv.StreamEndTerminalEvent, Typed, FinishStop, failedBefore
		})
	}
	bad := little(0, 1, func(r *Request) { r.Failed, r.Ended, r.Basis = Yes, semconv.StreamEndReadError, Typed })
	silent := little(0, 1, nil)
	for _, tt := range []struct {
		name      string
		retries   int
		requests  []Request
		want      string
		recovered int
	}{
		{"no attempt failed", 0, []Request{good(0, 1, 0)}, "succeeded ", 0},
		{"two attempts in one span", 0, []Request{good(0, 1, 1)}, "recovered ", 1},
		{"of two requests", 0, []Request{good(0, 1, 1), good(2, 3, 2)}, "recovered ", 3},
		{"the attempt before it has a span, too", 0, []Request{bad, good(2, 3, 1)}, "recovered ", 1},
		{"one of two has a span", 0, []Request{bad, good(2, 3, 2)}, "recovered ", 2},
		{"the run counts one", 1, []Request{silent, good(2, 3, 0)}, "recovered ", 1},
		{"the run counts one, which is seen", 1, []Request{bad, good(2, 3, 0)}, "recovered ", 1},
		{"the run and the request count the same", 1, []Request{good(0, 1, 1)}, "recovered ", 1},
		{"it failed in the end", 2, []Request{bad}, "failed stream_interrupted", 0},
		{"how it ended is not known", 2, []Request{silent}, "incomplete unclassified", 0},
	} {
		run := Run{Start: at(0), End: at(9), Ended: Yes, Retries: tt.retries, Requests: tt.requests}
		d := Judge(&run).Run
		assert.Equal(t, tt.want, d.Outcome.String()+" "+d.Class.String(), "%s: %s", tt.name, d.Summary)
		assert.Equal(t, tt.recovered, d.RecoveredFailures, tt.name)
	}
}
