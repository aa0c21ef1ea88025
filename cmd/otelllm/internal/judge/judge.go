// Package judge answers lines of facts with verdicts: the live verdict for programs in any
// language. See docs/judge.md for the protocol.
package judge

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
)

// The defaults of [Options].
const (
	DefaultMaxRuns  = 10_000
	DefaultMaxBytes = 64 << 20
	DefaultIdle     = time.Hour
)

// Options bound what is kept.
type Options struct {
	MaxRuns  int           // open runs, with those within them; 0 for DefaultMaxRuns
	MaxBytes int           // estimated memory of them; 0 for DefaultMaxBytes
	Idle     time.Duration // how long a run is kept that does not change; 0 for DefaultIdle
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Forgot is called when runs are forgotten before they ended. May be nil.
	Forgot func(why string)
}

// Judge keeps the facts of open runs, and judges them. It is safe for concurrent use.
type Judge struct {
	options Options

	mu sync.Mutex
	// Everything below is guarded by mu.
	runs   map[string]place // by the key that the program gave
	traces *list.List       // of *trace, least recently changed first
	bytes  int
	last   pcommon.Timestamp // what now returned last
	// forgot: runs were forgotten, so that one that does not begin may be one of them.
	forgot bool
}

// place is a run of a program.
type place struct {
	trace *trace
	id    pcommon.SpanID
}

// trace is a run of a program with the runs within it, or a trace that came as OTLP.
type trace struct {
	*live.Trace
	keys    []string // of Judge.runs
	parts   map[string]*flatPart
	spans   uint64 // ids that were given
	bytes   int    // of parts
	counted int    // of Judge.bytes
	changed time.Time
	element *list.Element
}

// New returns a Judge without runs.
func New(o Options) *Judge {
	if o.MaxRuns <= 0 {
		o.MaxRuns = DefaultMaxRuns
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Judge{options: o, runs: make(map[string]place), traces: list.New()}
}

// Open returns how many runs are open, and about how much memory they take.
func (j *Judge) Open() (runs, bytes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs), j.bytes
}

// now returns the time, later than every time before. What is reported without a time is
// ordered by it.
func (j *Judge) now() pcommon.Timestamp {
	j.last = max(j.last+1, pcommon.NewTimestampFromTime(j.options.Now()))
	return j.last
}

// open adds a trace with its first run. Begun: the program says that the run begins.
// Otherwise, if any run was forgotten, it may be that one.
func (j *Judge) open(key string, begun bool) *trace {
	t := &trace{Trace: live.NewTrace(), parts: make(map[string]*flatPart)}
	t.element = j.traces.PushBack(t)
	if j.forgot && !begun {
		t.SetIncomplete()
	}
	t.add(j, key, t.newID())
	return t
}

// add adds a run to the trace.
func (t *trace) add(j *Judge, key string, id pcommon.SpanID) {
	j.runs[key] = place{t, id}
	t.keys = append(t.keys, key)
}

// newID returns an id that no span of the trace has.
func (t *trace) newID() (id pcommon.SpanID) {
	t.spans++
	for i := range id {
		id[i] = byte(t.spans >> (8 * (len(id) - 1 - i)))
	}
	return id
}

// touch counts what a trace takes now, and makes room for it. It returns an error if the
// trace is too large by itself.
func (j *Judge) touch(t *trace) error {
	t.changed = j.options.Now()
	j.traces.MoveToBack(t.element)
	size := t.Bytes() + t.bytes
	for _, key := range t.keys {
		size += keySize + len(key)
	}
	j.bytes += size - t.counted
	t.counted = size
	for j.traces.Len() > 1 {
		oldest := j.traces.Front().Value.(*trace)
		switch {
		case t.changed.Sub(oldest.changed) > j.options.Idle:
			j.forget(oldest, "it has not changed for "+j.options.Idle.String())
		case len(j.runs) > j.options.MaxRuns:
			j.forget(oldest, "there are too many open runs")
		case j.bytes > j.options.MaxBytes:
			j.forget(oldest, "the open runs take too much memory")
		default:
			return nil
		}
	}
	if j.bytes > j.options.MaxBytes || len(j.runs) > j.options.MaxRuns {
		j.forget(t, "it takes too much memory by itself")
		return errTooLarge
	}
	return nil
}

// keySize is what a run takes beside its spans, in bytes.
const keySize = 256

var errTooLarge = errors.New("the run has too many spans or takes too much memory, and was forgotten")

// forget drops a trace before it ended.
func (j *Judge) forget(t *trace, why string) {
	j.drop(t)
	j.forgot = true
	if j.options.Forgot != nil {
		j.options.Forgot(why)
	}
}

// drop drops a trace.
func (j *Judge) drop(t *trace) {
	j.traces.Remove(t.element)
	j.bytes -= t.counted
	for _, key := range t.keys {
		delete(j.runs, key)
	}
}
