package responses

import (
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// history is what is known of the newest responses of a connection, which later requests may
// name as the one before them: the ids of calls and outputs up to there. A connection goes
// on with its newest response, or with one before it; the server itself forgets most others.
type history struct {
	known [4]answered // the oldest first
	n     int
	warm  *wire.Transcript // of the newest prewarm; or nil
}

// answered is a response and the history up to it.
type answered struct {
	id             string
	calls, outputs []string
	warm           bool // a prewarm: it has no answer
}

// add takes a turn whose answer has ended.
func (h *history) add(t *turn) {
	if t.id == "" || t.calls == nil {
		return
	}
	a := answered{t.id, t.calls, t.outputs, t.warm != nil}
	switch {
	case t.warm != nil:
		h.warm = t.warm
		for i := range h.known[:h.n] {
			h.known[i].warm = false
		}
	case t.request == nil:
		return // not recorded
	default:
		ids, known := t.request.rec.Calls()
		if !known {
			return
		}
		a.calls = join(a.calls, ids)
	}
	if h.n == len(h.known) {
		copy(h.known[:], h.known[1:])
		h.n--
	}
	h.known[h.n] = a
	h.n++
}

// find returns a response, or nil.
func (h *history) find(id string) *answered {
	for i := range h.known[:h.n] {
		if id != "" && h.known[i].id == id {
			return &h.known[i]
		}
	}
	return nil
}

// extend sets the history of a turn whose request has these contents.
func (h *history) extend(t *turn, c *httpcall.Contents) {
	t.calls, t.outputs = c.HistoryCalls, c.HistoryOutputs
	if before := h.find(c.PreviousID); before != nil && c.BodyCalls != nil {
		t.calls, t.outputs = join(before.calls, c.BodyCalls), join(before.outputs, c.HistoryOutputs)
	}
}

// read reads the transcript of a request that names a response as the one before it, if any.
func (h *history) read(tr *wire.Transcript, previous string, frame []byte) bool {
	if before := h.find(previous); before != nil && before.warm {
		return tr.ReadAfter(h.warm, frame)
	}
	return tr.Read(frame)
}

// join returns the newest ids of both lists, which stay as they are. It is never nil.
func join(before, after []string) []string {
	all := slices.Concat(before, after)
	if all == nil {
		return []string{}
	}
	return all[max(0, len(all)-classify.MaxIDs):]
}
