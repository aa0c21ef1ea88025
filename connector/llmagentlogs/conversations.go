package llmagentlogs

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/turn"
	"github.com/otelllm/otelllm-go/semconv"
)

// key identifies a conversation. Equal ids from different services are different conversations.
type key struct {
	agent  agentlog.Agent
	id     string
	origin string
}

// conversation is a conversation of an agent. Its records wait for a while, so that they are handled in the order in which
// they happened.
type conversation struct {
	turn.Machine
	origin  origin
	waiting []agentlog.Event
	seen    map[uint64]struct{} // hashes of records that were handled
	bytes   int                 // of the waiting records
	counted int                 // the memory of this conversation in conversations.bytes

	lossy bool // a record that should wait was dropped

	first, last time.Time // arrival of the first waiting record, and of the last record of all
	added       uint64    // the number of the last record, among all records of conversations
}

// maxSeen bounds the hashes of a conversation's records, which reveal a record that is delivered again. Beyond it they are
// cleared.
const maxSeen = 4096

// hashBytes estimates the memory of a hash in a map.
const hashBytes = 24

// conversations are the open conversations. They know no clock: time is an argument. They are not safe for concurrent use.
type conversations struct {
	cfg   *Config
	byKey map[key]*conversation
	bytes int
	added uint64 // number of records so far
	count counts
}

// counts are the events since they were last taken.
type counts struct {
	duplicates, strays, tooLarge, busy, forgotten int64
	made                                          [3]int64
}

func newConversations(cfg *Config) *conversations {
	return &conversations{cfg: cfg, byKey: make(map[key]*conversation)}
}

// add lets an event wait until it is handled. If there is no room, and none can be made before the spans in out are
// forwarded, the event is dropped.
func (c *conversations) add(id string, e *agentlog.Event, from *origin, now time.Time, out *batch) {
	size := e.Size()
	if c.bytes+size > c.cfg.MaxBytes && out.bytes <= c.cfg.maxMade() {
		c.makeRoom(out)
	}
	k := key{e.Agent, id, from.id}
	conv := c.byKey[k]
	switch {
	case c.bytes+size > c.cfg.MaxBytes:
		c.count.busy++
		if conv != nil {
			conv.lossy = true
		}
		return
	case conv == nil:
		conv = &conversation{Machine: turn.Machine{Agent: e.Agent, Conversation: id, Join: c.cfg.JoinTraces}, origin: *from}
		c.byKey[k] = conv
	case conv.bytes+size > c.cfg.MaxBytes/16:
		c.count.tooLarge++
		conv.lossy = true
		return
	}
	if len(conv.waiting) == 0 {
		conv.first = now
	}
	conv.last = now
	c.added++
	conv.added = c.added
	conv.waiting = append(conv.waiting, *e)
	conv.bytes += size
	c.account(conv)
}

// account updates the memory of all conversations by the memory of one.
func (c *conversations) account(conv *conversation) {
	now := conv.bytes + conv.Machine.Bytes() + conv.origin.bytes() + hashBytes*len(conv.seen)
	c.bytes += now - conv.counted
	conv.counted = now
}

func (c *conversations) forget(k key, conv *conversation) {
	c.bytes -= conv.counted
	delete(c.byKey, k)
}

// tick handles the records that are due. It returns true if there is more to do after the spans in out have been forwarded.
func (c *conversations) tick(now time.Time, out *batch) (more bool) {
	for k, conv := range c.byKey {
		if out.bytes > c.cfg.maxMade() {
			return true
		}
		if len(conv.waiting) > 0 && now.Sub(conv.first) < c.cfg.Settle {
			continue
		}
		c.handle(conv, out)
		silent := now.Sub(conv.last)
		if patience := c.patience(conv.Waits()); silent >= patience {
			c.write(conv, out, conv.Silent)
			c.account(conv)
		}
		if silent >= c.cfg.MaxAge {
			c.forget(k, conv)
		}
	}
	if c.bytes > c.cfg.MaxBytes { // handled records may need more memory than waiting ones
		c.makeRoom(out)
	}
	return false
}

// patience is how long a turn may be silent.
func (c *conversations) patience(waits turn.Waits) time.Duration {
	switch waits {
	case turn.ForNothingMore:
		return c.cfg.Settle
	case turn.ForAttempt:
		return c.cfg.Quiet
	default:
		return c.cfg.MaxAge
	}
}

// stop ends all conversations. It returns true as tick does.
func (c *conversations) stop(out *batch) (more bool) {
	for k, conv := range c.byKey {
		if out.bytes > c.cfg.maxMade() {
			return true
		}
		c.handle(conv, out)
		c.write(conv, out, func(to turn.Sink) { conv.Stop(semconv.RunEndUnclear, to) })
		c.forget(k, conv)
	}
	return false
}

// handle handles the waiting records, in the order in which they happened, each once.
func (c *conversations) handle(conv *conversation, out *batch) {
	if conv.lossy { // the missing record may belong to any turn
		conv.Lost()
	}
	if len(conv.waiting) > 0 {
		slices.SortFunc(conv.waiting, func(a, b agentlog.Event) int { return agentlog.Compare(&a, &b) })
		c.write(conv, out, func(to turn.Sink) {
			for i := range conv.waiting {
				e := &conv.waiting[i]
				switch {
				case i > 0 && *e == conv.waiting[i-1], conv.knows(e):
					c.count.duplicates++
				case !conv.Handle(e, to):
					c.count.strays++
				}
				if conv.lossy {
					conv.Lost()
				}
			}
		})
		conv.waiting, conv.bytes = nil, 0
		c.account(conv)
	}
	conv.lossy = false
}

// knows reports whether the event was handled before, and remembers it. Parts of responses are not remembered, because
// there are many. If one counts twice, the verdict is as careful.
func (conv *conversation) knows(e *agentlog.Event) bool {
	if e.Kind == agentlog.Progress {
		return false
	}
	hash := e.Hash()
	if _, ok := conv.seen[hash]; ok {
		return true
	}
	if conv.seen == nil || len(conv.seen) >= maxSeen {
		conv.seen = make(map[uint64]struct{})
	}
	conv.seen[hash] = struct{}{}
	return false
}

// write adds the spans that do makes to out.
func (c *conversations) write(conv *conversation, out *batch, do func(turn.Sink)) {
	made := ptrace.NewSpanSlice()
	s := spans{to: made}
	do(&s)
	for kind, n := range s.made {
		c.count.made[kind] += n
	}
	if made.Len() > 0 {
		out.add(&conv.origin, made)
	}
}
