package classify

import (
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// runShape generates long runs of one shape, ordinary or made to be expensive to judge.
type runShape struct {
	name string
	run  func(n int) *Run // with n requests and tools together
}

// steps returns a run of n/2 steps, each a request and its tool.
func steps(n int, change func(i int, q *Request, f *Tool)) *Run {
	n /= 2
	r := &Run{Start: t0, End: at(float64(4 * n)), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(n), AnnouncedTools: Counted(n)}
	r.Requests, r.Tools = make([]Request, n), make([]Tool, n)
	for i := range n {
		id := "call_" + strconv.Itoa(100_000+i)
		q := request(float64(4*i), float64(4*i+1), reset(semconv.PhaseToolCallReady))
		q.CallIDs, q.ToolInputsStarted, q.ToolInputsCompleted, q.ToolCalls = []string{id}, Counted(1), Counted(1), Counted(1)
		f := tool(float64(4*i+2), float64(4*i+3), id, semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
		change(i, &q, &f)
		r.Requests[i], r.Tools[i] = q, f
	}
	return r
}

// window returns the ids of the calls before call i, at most size of them.
func window(i, size int) []string {
	ids := make([]string, 0, size)
	for c := max(0, i-size); c < i; c++ {
		ids = append(ids, "call_"+strconv.Itoa(100_000+c))
	}
	return ids
}

// healthy lets a request be answered.
func healthy(q *Request) {
	answers(q)
	q.Transport = Transport{}
}

func history(q *Request, ids []string) { q.HistoryCalls, q.HistoryOutputs = ids, ids }

// sameTimes is a run of which everything happened at once.
func sameTimes(r *Run, length time.Duration) *Run {
	for i := range r.Requests {
		r.Requests[i].Start, r.Requests[i].End = t0, t0.Add(length)
	}
	for i := range r.Tools {
		r.Tools[i].Start, r.Tools[i].End = t0, t0.Add(length)
	}
	return r
}

var runShapes = []runShape{
	{"healthy", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			healthy(q)
			history(q, window(i, 8))
		})
	}},
	{"all fail", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) { history(q, window(i, 8)) })
	}},
	{"long histories", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			healthy(q)
			history(q, window(i, MaxIDs))
		})
	}},
	{"long histories, all fail", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) { history(q, window(i, MaxIDs)) })
	}},
	{"long histories that are refused", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			refused(400, semconv.ProviderErrorKindInvalidRequest)(q)
			q.HistoryCalls, q.HistoryOutputs = window(i+1, MaxIDs-1), window(i, MaxIDs-1)
		})
	}},
	{"one id", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = []string{"call"}, "call"
			history(q, []string{"call"})
		})
	}},
	{"one id, no reuse", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = nil, "call"
			history(q, []string{"call"})
		})
	}},
	{"one id, in calls alone", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = []string{"call"}, "call"
			q.HistoryCalls = []string{"call"}
		})
	}},
	{"one id, answered", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			healthy(q)
			q.CallIDs, f.CallID = []string{"call"}, "call"
			for range min(i%MaxIDs, 40) {
				q.HistoryCalls, q.HistoryOutputs = append(q.HistoryCalls, "call"), append(q.HistoryOutputs, "call")
			}
		})
	}},
	{"one id, no tools", func(n int) *Run {
		r := steps(2*n, func(i int, q *Request, _ *Tool) {
			q.CallIDs = []string{"call"}
			history(q, []string{"call"})
		})
		r.Tools = nil
		return r
	}},
	{"one id, made then carried", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			f.CallID, q.CallIDs = "call", nil
			if i < n/4 {
				q.CallIDs = []string{"call"}
			} else {
				history(q, []string{"call", "call"})
			}
		})
	}},
	{"64 ids", func(n int) *Run {
		ids := window(MaxIDs-1, MaxIDs-1)
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = ids[i%len(ids):i%len(ids)+1], ids[i%len(ids)]
			history(q, ids)
		})
	}},
	{"64 ids, unlike outputs", func(n int) *Run {
		ids := window(MaxIDs-1, MaxIDs-1)
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = ids, ids[i%len(ids)]
			q.HistoryCalls, q.HistoryOutputs = ids, ids[:i%len(ids)]
			f.Effect = semconv.ToolEffect(1 + i%4)
		})
	}},
	{"one conversation, forked", func(n int) *Run {
		r := steps(2*n, func(i int, q *Request, _ *Tool) {
			if i >= n/2 {
				healthy(q)
			}
			q.CallIDs, q.ToolCalls = nil, Counted(0)
			history(q, []string{"own_" + strconv.Itoa(i), "call"})
		})
		r.Tools = nil
		return r
	}},
	{"one conversation, never answered", func(n int) *Run {
		r := steps(2*n, func(i int, q *Request, _ *Tool) {
			history(q, []string{"call"})
			if i == n-1 {
				healthy(q)
				history(q, nil)
				q.HistoryCalls = []string{}
			}
		})
		r.Tools = nil
		return r
	}},
	{"no histories", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) { history(q, nil) })
	}},
	{"no tools named", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			history(q, window(i, 8))
			f.CallID, q.CallIDs = "", nil
		})
	}},
	{"one writer at the end", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs = nil
			q.End = at(float64(8 * n))
			if i == n/2-1 {
				f.Effect = semconv.ToolEffectNonIdempotent
			}
			history(q, window(i, 8))
		})
	}},
	{"tools that were answered", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			history(q, window(i, 4))
			if i < n/4 {
				healthy(q)
			}
		})
	}},
	{"all at once", func(n int) *Run {
		return sameTimes(steps(n, func(i int, q *Request, f *Tool) { history(q, window(i, 8)) }), 0)
	}},
	{"all at once, no histories at the end", func(n int) *Run {
		return sameTimes(steps(n, func(i int, q *Request, f *Tool) {
			if history(q, []string{}); i >= n/4 {
				history(q, nil)
			}
		}), 0)
	}},
	{"all at once, one id", func(n int) *Run {
		return sameTimes(steps(n, func(i int, q *Request, f *Tool) {
			q.CallIDs, f.CallID = []string{"call"}, "call"
			history(q, []string{"call"})
		}), 0)
	}},
	{"all overlap", func(n int) *Run {
		return sameTimes(steps(n, func(i int, q *Request, f *Tool) { history(q, window(i, 8)) }), time.Hour)
	}},
	{"tools that deliver nothing", func(n int) *Run {
		return steps(n, func(i int, q *Request, f *Tool) {
			history(q, []string{})
			f.Delivery = semconv.OutputDeliveryFailed
		})
	}},
	{"attempts", func(n int) *Run {
		r := steps(2*n, func(i int, q *Request, _ *Tool) {
			refused(503, semconv.ProviderErrorKindOverloaded)(q)
			q.Attempt = i + 1
			history(q, window(20, 20))
		})
		r.Tools = nil
		return r
	}},
	{"cancelled", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			if i%2 == 0 {
				aborted(semconv.AbortSourceUnknown)(q)
				q.End = at(float64(4 * n))
			}
		})
	}},
	{"protocol violations", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) { q.Transport.Cause = semconv.TransportCauseMalformedEvent })
	}},
	{"many calls an answer", func(n int) *Run {
		return steps(n, func(i int, q *Request, _ *Tool) {
			q.CallIDs = window(i+32, 32)
			q.OpenCallIDs = window(i+64, 31)
			history(q, window(i, 32))
		})
	}},
}
