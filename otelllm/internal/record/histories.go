package record

import (
	"slices"
	"sync"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Histories remembers, for providers that keep the history, what it had after the newest
// responses of this process: the ids of its calls and outputs. A request that names such a
// response, or its conversation, is then known to have them. The zero value has none. A nil
// *Histories remembers nothing. It is safe for concurrent use.
type Histories struct {
	mu    sync.Mutex
	known map[historyKey]*keptHistory
	order []historyKey // as they were added; forgotten ones may be among them
	bytes int
}

// historyKey is a response, or a conversation, of a server.
type historyKey struct {
	server, id   string
	conversation bool
}

// keptHistory is the history after a response. Its lists do not change.
type keptHistory struct{ calls, outputs []string }

const (
	maxHistories      = 4096
	maxHistoriesBytes = 4 << 20
	historyBytes      = 256 // of an entry, besides its ids
)

// onServer is what a request has of a history that the provider keeps.
type onServer struct {
	conversation   string
	calls, outputs []string // of the body; calls are nil if the provider keeps none, or refers to single items
}

// extend completes the history of a request that continues one which is known. What a
// conversation has is known less well, because others may have added to it: it counts only
// if each of its calls has its output.
func (h *Histories) extend(server string, f *spanfacts.Request, c *httpcall.Contents) {
	if h == nil || c.HistoryCalls != nil || c.BodyCalls == nil {
		return
	}
	conversation := c.PreviousID == ""
	key := historyKey{server, c.PreviousID, conversation}
	if conversation {
		key.id = c.ConversationID
	}
	before := h.find(key)
	if before == nil {
		return
	}
	calls, outputs := newest(before.calls, c.BodyCalls), newest(before.outputs, c.HistoryOutputs)
	if conversation && !settled(calls, outputs) {
		return
	}
	f.HistoryCalls, f.HistoryOutputs = calls, outputs
}

func settled(calls, outputs []string) bool {
	return !slices.ContainsFunc(calls, func(id string) bool { return !slices.Contains(outputs, id) })
}

// add takes the history of a request that was answered, and the calls of its answer. Where
// the history before the request is not known, the calls in it are settled: the provider does
// not answer a request whose history has a call without its output.
func (h *Histories) add(server, response string, r *onServer, f *spanfacts.Request, made []string) {
	if h == nil || response == "" {
		return
	}
	before := keptHistory{f.HistoryCalls, f.HistoryOutputs}
	if before.calls == nil {
		before = keptHistory{r.calls, r.outputs}
	}
	after := &keptHistory{newest(before.calls, made), newest(before.outputs, nil)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(historyKey{server, response, false}, after)
	if r.conversation != "" {
		h.put(historyKey{server, r.conversation, true}, after)
	}
}

func (h *Histories) find(key historyKey) *keptHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[key]
}

// put adds an entry, with mu held, and forgets the oldest ones that there is no room for.
func (h *Histories) put(key historyKey, after *keptHistory) {
	if h.known == nil {
		h.known = map[historyKey]*keptHistory{}
	}
	if before := h.known[key]; before != nil {
		h.bytes -= before.size(key)
	} else {
		h.order = append(h.order, key)
	}
	h.known[key] = after
	h.bytes += after.size(key)
	for len(h.order) > 1 && (len(h.order) > maxHistories || h.bytes > maxHistoriesBytes) {
		oldest := h.order[0]
		h.order = h.order[1:]
		h.bytes -= h.known[oldest].size(oldest)
		delete(h.known, oldest)
	}
}

func (k *keptHistory) size(key historyKey) int {
	n := historyBytes + len(key.server) + len(key.id)
	for _, list := range [...][]string{k.calls, k.outputs} {
		for _, id := range list {
			n += len(id) + 16
		}
	}
	return n
}

// newest returns the newest ids of both lists, which stay as they are. It is never nil.
func newest(before, after []string) []string {
	all := slices.Concat([]string{}, before, after)
	return all[max(0, len(all)-classify.MaxIDs):]
}

// answered remembers the history of a request that was answered, with mu held.
func (r *Recorder) answered() {
	st := r.response.state
	if r.config.Histories == nil || st == nil || !st.Complete || st.Err != nil || st.Unread || st.ToolInputsStarted > len(st.Calls) ||
		r.response.protocol == nil || !wire.KeepsHistory(r.response.protocol) || r.kept.calls == nil && r.facts.HistoryCalls == nil {
		return
	}
	made := make([]string, 0, len(st.Calls))
	for i := range st.Calls {
		if st.Calls[i].ID == "" {
			return // its output cannot be assigned
		}
		made = append(made, st.Calls[i].ID)
	}
	r.config.Histories.add(r.identity.ServerAddress, st.ResponseID, &r.kept, &r.facts, made)
}

// fillContents fills in what the request's body says about tools and the history, with what
// is known of a history that the provider keeps.
func (r *Recorder) fillContents(f *spanfacts.Request, c *httpcall.Contents) {
	FillFacts(f, c)
	r.kept = onServer{c.ConversationID, c.BodyCalls, c.HistoryOutputs}
	r.broken = c.BrokenInput
	r.config.Histories.extend(r.identity.ServerAddress, f, c)
}

// FillContents fills in what the request's body says. Use it before [Recorder.Begin] only.
func (r *Recorder) FillContents(c *httpcall.Contents) { r.fillContents(&r.facts, c) }
