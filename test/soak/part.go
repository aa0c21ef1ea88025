package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/wire"
)

// part is one part of a soak: a Collector, a load, and the disturbances of both.
type part struct {
	name    string
	proves  string
	lasts   time.Duration // duration of the load, without draining
	stops   int           // number of SIGTERMs, each with a restart
	kills   int           // number of SIGKILLs, each with a restart
	outages int           // how often the backend refuses connections
	fills   int           // how often the Collector's disk is full
	fail    float64       // share of the calls that the backend fails
	storage bool
	shipped bool // uses the classifier of deploy/collector, with its queue
	bounded bool // max_held_bytes is a quarter of what the load needs
}

// outcome is the result of a part.
type outcome struct {
	part     part
	figures  ledger.Figures
	problems []string
	certain  bool // one of the problems does not depend on time, see [ledger.Problem.DependsOnTime]
	bound    int  // max_held_bytes
	watched       // by its own metrics
	memory   int64
	loaded   time.Duration // how long the load lasted
	took     time.Duration
	backend  wire.BackendCalls
}

// watched is the maxima of llm_classify's own metrics, each over all lives of the Collector.
type watched struct {
	held      int // bytes
	unwritten int // writes to the storage that failed
}

// soak holds what all parts share.
type soak struct {
	root, bin, dir string
	seed           uint64
	open           int // number of concurrent traces
	traces         int // maximum number of traces of a part, 0 for no limit
	limits         limits
	say            func(format string, args ...any)
}

// drainPatience is the timeout for everything to come out after the load has ended, in
// addition to llm_classify's own times.
const drainPatience = time.Minute

func (s *soak) run(ctx context.Context, number int, p part) (o outcome, err error) {
	began := time.Now()
	o = outcome{part: p, bound: s.limits.heldBytes}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seed := s.seed<<8 + uint64(number) //nolint:gosec // few parts
	books := ledger.New()
	backend, err := wire.NewBackend(books, seed, p.fail)
	if err != nil {
		return o, err
	}
	defer backend.Close()
	c, err := s.collector(p, backend.Address())
	if err != nil {
		return o, err
	}
	if err := c.start(ctx); err != nil {
		return o, err
	}
	defer c.close()

	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	maxima := watch(watching, c)
	senders, err := newSenders(ctx, books, c)
	if err != nil {
		return o, err
	}
	loading := s.play(ctx, books, senders, seed, p.lasts)
	if err := s.disturb(ctx, books, backend, c, p, seed); err != nil {
		return o, err
	}
	<-loading // every started trace has been queued
	o.loaded = time.Since(began)
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for _, sender := range senders {
			sender.Close()
		}
	}()
	select {
	case <-flushed:
	case <-time.After(drainPatience):
		o.problems = append(o.problems, fmt.Sprintf("not all spans are acknowledged a minute after the load has ended; the last error: %v", lastError(senders)))
		cancel()
		<-flushed
	}
	rules := ledger.Rules{
		MaxHold: s.limits.hold, Settle: s.limits.settle, RunTimeout: s.limits.runTimeout, SpanLimit: s.limits.spansPerRun,
		Again: 10 * time.Second, Bounded: p.bounded, Storage: p.storage,
		Noted: time.Second, Queued: p.shipped,
	}
	settled(books, rules, s.limits.runTimeout+s.limits.hold+drainPatience)
	unwatch()
	o.watched = <-maxima
	// Problems during the shutdown count, too.
	ends := time.Now()
	if err := c.stop(); err != nil {
		o.problems, o.certain = append(o.problems, err.Error()), true
	}
	books.Stopped(ends, time.Now())
	backend.Refuse()
	figures, problems := books.Check(rules)
	for _, problem := range problems {
		o.problems, o.certain = append(o.problems, problem.String()), o.certain || !problem.DependsOnTime()
	}
	if err := s.tell(p, books, problems, began); err != nil {
		return o, err
	}
	for _, line := range c.lossLines() {
		o.problems, o.certain = append(o.problems, "the Collector's log: "+line), true
	}
	o.figures, o.memory, o.backend, o.took = figures, c.peak, backend.Counts(), time.Since(began)
	o.problems = append(o.problems, o.idle()...)
	return o, nil
}

// maxTold is the maximum number of traces that are reported.
const maxTold = 100

// tell writes the records of the traces with a problem to a file beside the logs.
func (s *soak) tell(p part, books *ledger.Ledger, problems []ledger.Problem, began time.Time) error {
	if len(problems) == 0 {
		return nil
	}
	f, err := os.Create(filepath.Join(s.dir, p.name, "problems.txt"))
	if err != nil {
		return fmt.Errorf("write the problems: %w", err)
	}
	told := make(map[pcommon.TraceID]bool)
	for i := range problems {
		trace := problems[i].Key.Trace
		if told[trace] || len(told) == maxTold {
			continue
		}
		told[trace] = true
		fmt.Fprintln(f, problems[i])
		books.Tell(f, trace, began)
	}
	return f.Close()
}

// idle returns the reasons why a part may have proved nothing.
func (o *outcome) idle() (list []string) {
	f := &o.figures
	missing := func(format string, args ...any) {
		list = append(list, "it proves nothing: "+fmt.Sprintf(format, args...))
	}
	if f.Runs == 0 || f.Acknowledged == 0 {
		missing("nothing was acknowledged")
	}
	if f.Unanswered > f.Sent/20 && o.part.kills == 0 {
		missing("%d of %d spans lost their answer, so that they may come twice", f.Unanswered, f.Sent)
	}
	if o.part.fail > 0 && o.backend.Failed == 0 {
		missing("the backend never failed")
	}
	if o.part.fills > 0 && o.unwritten == 0 && runtime.GOOS == "linux" {
		missing("no write failed while the disk was full")
	}
	if f.Runs-f.Unnoted-f.Slow < f.Runs/10 {
		missing("of %d runs %d may have been judged without a note of it and %d had spans after the memory of it", f.Runs, f.Unnoted, f.Slow)
	}
	return list
}

// collector returns the Collector of a part, not started.
func (s *soak) collector(p part, backend string) (*collector, error) {
	dir := filepath.Join(s.dir, p.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the part %s: %w", p.name, err)
	}
	var files, names []string
	switch {
	case p.shipped:
		for _, name := range []string{"config.yaml", "config-metrics.yaml", "kubernetes/two-layers/collector-classifier.yaml"} {
			files = append(files, filepath.Join(s.root, "deploy", "collector", filepath.FromSlash(name)))
		}
		names = []string{"collector-shipped.yaml"}
	case p.storage:
		names = []string{"collector.yaml", "collector-storage.yaml"}
	default:
		names = []string{"collector.yaml"}
	}
	for _, name := range names {
		path, err := own(dir, name)
		if err != nil {
			return nil, fmt.Errorf("write the Collector's configuration: %w", err)
		}
		files = append(files, path)
	}
	return newCollector(collectorSpec{
		bin: s.bin, dir: dir, configs: files, limits: s.limits, env: []string{"BACKEND_OTLP=" + backend},
	})
}

// watch measures the Collector until ctx ends, and then sends the maxima.
func watch(ctx context.Context, c *collector) <-chan watched {
	maxima := make(chan watched, 1)
	go func() {
		var most watched
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.measure()
				if page, err := get(ctx, c.metrics); err == nil { // fails while the Collector is down
					most = most.most(watchedOn(page))
				}
			case <-ctx.Done():
				maxima <- most
				return
			}
		}
	}()
	return maxima
}

// watchedOn returns what is watched on a page of the Collector's own metrics.
func watchedOn(page []byte) watched {
	return watched{held: classifies(page, "bytes_held"), unwritten: classifies(page, `storage_writes{success="false"}`)}
}

func (w watched) most(o watched) watched {
	return watched{held: max(w.held, o.held), unwritten: max(w.unwritten, o.unwritten)}
}

// numSenders is the number of exporters of all agents, each with its own connection:
// spans of a run take different routes.
const numSenders = 12

// turnShare is the approximate number of an agent's turns in max_hold.
const turnShare = 8

// shortestLife is the minimum time that a Collector runs. It reports healthy some
// moments before it handles signals, and a signal in between would kill it.
const shortestLife = time.Second

// settled waits until everything has come out, and a little longer for spans that
// should not come out.
func settled(books *ledger.Ledger, rules ledger.Rules, patience time.Duration) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end) && !books.Settled(rules); {
		<-tick.C
	}
	time.Sleep(rules.MaxHold)
}
