package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/test/soak/internal/attack"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/wire"
)

// endurance is the endurance run: the load of the soak for long, attackers beside it, one
// way after the other, while the Collector is killed, the backend is unwell and the disk is
// full from time to time. What honest agents sent is held against bars.
func (s *soak) endurance(ctx context.Context, o options) error {
	s.say("endurance: seed %d, %d traces at a time, %s, logs in %s", o.seed, o.open, o.duration, s.dir)
	e, err := s.endure(ctx, o)
	if err != nil {
		return fmt.Errorf("%w; logs in %s", err, s.dir)
	}
	s.say("\n%s: %s", fullDisk.name, fullDisk.proves)
	full := fullDisk
	full.lasts = max(o.duration/20, 15*time.Second)
	result, err := s.run(ctx, 1, full)
	if err != nil {
		return fmt.Errorf("part %s: %w; logs in %s", full.name, err, s.dir)
	}
	failed := result.print(s, o.problems)
	if e.print(s) || failed {
		s.say("logs and journals are in %s", s.dir)
		return errFailed
	}
	if o.dir == "" {
		return os.RemoveAll(s.dir)
	}
	return nil
}

// fullDisk is the part after the attacks, with kills during and after a full disk. There is
// no queue behind llm_classify: the exporter's queue may drop a batch that it takes out of
// a full storage.
var fullDisk = part{
	name: "full-disk", proves: "at least once over a full disk and kills, by the journal alone",
	kills: 2, fills: 4, fail: 0.1, bounded: true, storage: true,
}

// goMemory is the Collector's GOMEMLIMIT: about what it may take, so that garbage is
// collected before that.
const goMemory = "GOMEMLIMIT=200MiB"

func (s *soak) endure(ctx context.Context, o options) (*endured, error) {
	e := &endured{limits: s.limits}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	books := ledger.New()
	backend, err := wire.NewBackend(books, s.seed, 0)
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	defer backend.Feel(wire.Well) // else open calls do not end
	c, tenants, err := s.enduring(ctx, backend.Address())
	if err != nil {
		return nil, err
	}
	attacker := &attack.Attacker{URL: "http://" + c.http + "/v1/traces"}
	if attacker.Send, err = wire.NewCaller(ctx, c.grpc); err != nil {
		return nil, err
	}
	backend.Divert(attacker.Divert)
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	defer c.close()
	senders, err := newSenders(ctx, books, c)
	if err != nil {
		return nil, err
	}

	began := time.Now()
	calm := max(o.duration/10, 5*s.limits.hold)
	trouble := &disturbances{soak: s, books: books, backend: backend, attacker: attacker, c: c, began: began}
	watching := watchAll(ctx, c, cancel)
	loading := s.play(ctx, books, senders, s.seed, o.duration)
	sleep(ctx, calm)
	e.calm = period{name: "none", row: "-", from: began, to: time.Now(), refused: books.Refused()}
	troubled := make(chan error, 1)
	go func() { troubled <- trouble.run(ctx, o, o.duration-calm) }()
	e.attacks = s.attack(ctx, books, attacker, tenants, began.Add(o.duration))
	if err := <-troubled; err != nil && ctx.Err() == nil {
		cancel(err)
	}
	<-loading
	s.drain(ctx, e, books, senders, tenants, cancel)
	samples := watching()
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, errBroke) {
			return nil, cause
		}
		e.fatal = append(e.fatal, cause.Error())
	} else {
		page, err := get(ctx, c.metrics)
		if err != nil {
			return nil, fmt.Errorf("read the Collector's metrics: %w", err)
		}
		e.counted = countedOn(page)
		asked := time.Now()
		e.stopErr = c.stop()
		e.stop = time.Since(asked)
		books.Stopped(asked, time.Now())
	}
	s.settle(e, books, tenants, trouble, samples)
	e.attacker, e.starts, e.behind = attacker.Counts(), trouble.starts, trouble.behind
	e.fatal = append(e.fatal, c.brokenLines()...)
	if len(e.calm.waits) < fewWaits {
		e.missing = append(e.missing, "too few spans came out before the attacks")
	}
	return e, s.tell(part{name: "endurance"}, books, e.problems, began)
}

// enduring returns the Collector, not started, and whether it knows tenants.
func (s *soak) enduring(ctx context.Context, backend string) (c *collector, tenants bool, err error) {
	dir := filepath.Join(s.dir, "endurance")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("create the folder of the endurance run: %w", err)
	}
	var files []string
	for _, name := range []string{"config.yaml", "config-metrics.yaml", "kubernetes/two-layers/collector-classifier.yaml"} {
		files = append(files, filepath.Join(s.root, "deploy", "collector", filepath.FromSlash(name)))
	}
	for _, name := range []string{"collector-shipped.yaml", "collector-endurance.yaml", "collector-tenants.yaml"} {
		path, err := own(dir, name)
		if err != nil {
			return nil, false, fmt.Errorf("write the Collector's configuration: %w", err)
		}
		files = append(files, path)
	}
	spec := collectorSpec{bin: s.bin, dir: dir, configs: files, limits: s.limits, env: []string{"BACKEND_OTLP=" + backend, goMemory}}
	if c, err = newCollector(spec); err != nil {
		return nil, false, err
	}
	check := exec.CommandContext(ctx, s.bin, append([]string{"validate"}, c.spec.Args...)...)
	check.Env = append(os.Environ(), c.spec.Env...)
	said, err := check.CombinedOutput()
	if err == nil {
		return c, true, nil
	}
	if !bytes.Contains(said, []byte("tenant_from")) {
		return nil, false, fmt.Errorf("validate the Collector's configuration: %w: %s", err, said)
	}
	s.say("tenants: skipped, this Collector has no tenant_from")
	spec.configs = files[:len(files)-1]
	c, err = newCollector(spec)
	return c, false, err
}

// attack attacks in each way for the same time, until end.
func (s *soak) attack(ctx context.Context, books *ledger.Ledger, a *attack.Attacker, tenants bool, end time.Time) (list []period) {
	ways := slices.DeleteFunc(slices.Clone(attack.Ways()), func(w attack.Way) bool { return w.Tenant && !tenants })
	for i, w := range ways {
		p := period{name: w.Name, row: w.Row, from: time.Now()}
		counts, refused := a.Counts(), books.Refused()
		s.say("  attack: %s", w.Name)
		attacking, stop := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ways)-i))
		a.Run(attacking, w)
		stop()
		p.to, p.refused, p.attacker = time.Now(), books.Refused()-refused, a.Counts().Sub(counts)
		list = append(list, p)
	}
	return list
}

func (s *soak) enduranceRules(tenants bool) ledger.Rules {
	return ledger.Rules{
		MaxHold: s.limits.hold, Settle: s.limits.settle, RunTimeout: s.limits.runTimeout, SpanLimit: s.limits.spansPerRun,
		Again: 10 * time.Second, Storage: true, Noted: time.Second, Queued: true,
		Bounded: !tenants, Forgetful: !tenants, // attackers may take the room of honest agents
	}
}

// drain waits until everything of the honest agents has come out.
func (s *soak) drain(ctx context.Context, e *endured, books *ledger.Ledger, senders []*wire.Sender, tenants bool, cancel context.CancelCauseFunc) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for _, sender := range senders {
			sender.Close()
		}
	}()
	select {
	case <-flushed:
		if ctx.Err() == nil {
			settled(books, s.enduranceRules(tenants), s.limits.runTimeout+s.limits.hold+drainPatience)
		}
	case <-time.After(drainPatience):
		e.starved = true
		cancel(fmt.Errorf("%w: it accepts no more spans: %w", errBroke, lastError(senders)))
		<-flushed
	}
}

// settle fills in what the records say.
func (s *soak) settle(e *endured, books *ledger.Ledger, tenants bool, trouble *disturbances, samples []timed) {
	rules := s.enduranceRules(tenants)
	_, e.problems = books.Check(rules)
	waits := books.Waits(rules, trouble.within)
	for _, p := range append([]*period{&e.calm}, pointers(e.attacks)...) {
		for i := range waits {
			if w := &waits[i]; !w.Due.Before(p.from) && w.Due.Before(p.to) {
				p.waits = append(p.waits, w.Wait)
			}
		}
		slices.Sort(p.waits)
		for _, t := range samples {
			if !t.at.Before(p.from) && t.at.Before(p.to) {
				p.sample = p.sample.most(t.sample)
			}
		}
	}
}

func pointers[E any](list []E) (p []*E) {
	for i := range list {
		p = append(p, &list[i])
	}
	return p
}

// errBroke is the cause where the Collector does not go on.
var errBroke = errors.New("the Collector broke")

// timed is a sample at a time.
type timed struct {
	at time.Time
	sample
}

// watchAll measures the Collector. It gives up, with cancel, if the Collector ends by
// itself. The returned function ends it and returns the samples.
func watchAll(ctx context.Context, c *collector, cancel context.CancelCauseFunc) func() []timed {
	ctx, stop := context.WithCancel(ctx)
	var list []timed
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if c.died() {
				cancel(fmt.Errorf("%w: it ended by itself", errBroke))
				return
			}
			t := timed{at: time.Now()}
			t.memory = c.anonymous()
			if n%4 == 0 {
				if page, err := get(ctx, c.metrics); err == nil { // fails while the Collector is down
					t.held, t.facts = int64(classifies(page, "bytes_held")), int64(classifies(page, "fact_bytes"))
				}
			}
			if n%20 == 0 {
				if page, err := get(ctx, c.verdicts); err == nil {
					t.page, t.series = int64(len(page)), series(page)
				}
			}
			list = append(list, t)
		}
	})
	return func() []timed {
		stop()
		watcher.Wait()
		return list
	}
}

// disturbances are what happens to the Collector and the backend, beside the attacks.
type disturbances struct {
	soak     *soak
	books    *ledger.Ledger
	backend  *wire.Backend
	attacker *attack.Attacker
	c        *collector
	began    time.Time
	starts   time.Duration // the longest start after a kill
	behind   time.Duration // the longest time that the exporter's queue took beyond a recovery

	// mu guards everything declared below
	mu      sync.Mutex
	windows []window
}

type window struct{ from, to time.Time }

// within returns for how long something was disturbed between two times.
func (d *disturbances) within(from, to time.Time) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.windows {
		if w.from.Before(from) {
			w.from = from
		}
		if w.to.After(to) {
			w.to = to
		}
		sum += max(w.to.Sub(w.from), 0)
	}
	return sum
}

// A disturbance lasts beyond its own end for at least its own time and recovery: until the
// backoff of senders and exporters is over. It then lasts until the exporter's queue, in which
// everybody's spans wait in their order, is as short as it was before, for at most makeUp times
// as long in all.
const (
	recovery = 3 * time.Second
	makeUp   = 4
)

type disturbance struct {
	name string
	do   func(ctx context.Context, lasts time.Duration) error
}

// run spreads the disturbances over the time, in an order that the seed determines.
func (d *disturbances) run(ctx context.Context, o options, lasts time.Duration) error {
	list := []disturbance{
		{"the backend refuses connections", d.refuse},
		{"the backend stalls", d.feel(wire.Stalled)},
		{"the backend throttles", d.feel(wire.Throttling)},
		{"the backend is overloaded", d.feel(wire.Overloaded)},
		{"the backend resets connections", d.reset},
	}
	for range int(lasts / (10 * time.Minute)) {
		list = append(list, list[:5]...)
	}
	for range o.kills {
		list = append(list, disturbance{"the Collector is killed", d.kill})
	}
	rng := rand.New(rand.NewPCG(o.seed, 0xd157)) //nolint:gosec // this order is not secret
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	began, slot := time.Now(), lasts/time.Duration(len(list))
	for i, what := range list {
		if !sleep(ctx, time.Until(began.Add(slot*time.Duration(i)+slot/4+time.Duration(rng.Int64N(int64(slot/4)))))) {
			return ctx.Err()
		}
		queued := d.queued(ctx)
		from := time.Now()
		if err := what.do(ctx, min(slot/8, 8*time.Second)); err != nil {
			return fmt.Errorf("%w: %s: %w", errBroke, what.name, err)
		}
		took := time.Since(from)
		d.soak.say("  %5.1fs %s, %s", from.Sub(d.began).Seconds(), what.name, round(took))
		if !sleep(ctx, took+recovery) {
			return ctx.Err()
		}
		recovered := time.Now()
		for d.queued(ctx) > queued && time.Since(recovered) < (makeUp-1)*(took+recovery) {
			sleep(ctx, 50*time.Millisecond)
		}
		d.behind = max(d.behind, time.Since(recovered))
		d.mu.Lock()
		d.windows = append(d.windows, window{from, time.Now()})
		d.mu.Unlock()
	}
	return nil
}

// queued returns what waits in the exporter's queue, in bytes; 0 if that is not known.
func (d *disturbances) queued(ctx context.Context) int64 {
	page, err := get(ctx, d.c.metrics)
	if err != nil {
		return 0 // it does not run
	}
	n, _ := sum(page, "otelcol_exporter_queue_size") // 0 then
	return int64(n)
}

func (d *disturbances) kill(ctx context.Context, _ time.Duration) error {
	d.books.Killed(time.Now())
	d.c.kill()
	d.attacker.Killed()
	killed := time.Now()
	if err := d.c.start(ctx); err != nil {
		return err
	}
	d.starts = max(d.starts, time.Since(killed))
	return nil
}

func (d *disturbances) refuse(ctx context.Context, lasts time.Duration) error {
	d.backend.Refuse()
	sleep(ctx, lasts)
	return d.backend.Listen()
}

func (d *disturbances) feel(m wire.Mood) func(context.Context, time.Duration) error {
	return func(ctx context.Context, lasts time.Duration) error {
		d.backend.Feel(m)
		sleep(ctx, lasts)
		d.backend.Feel(wire.Well)
		return nil
	}
}

func (d *disturbances) reset(ctx context.Context, lasts time.Duration) error {
	d.backend.Feel(wire.Stalled)
	defer d.backend.Feel(wire.Well)
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		sleep(ctx, 300*time.Millisecond) // until the answers of accepted calls are sent
		if err := d.backend.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// brokenLines returns the lines of the Collector's logs that say that it broke.
func (c *collector) brokenLines() []string {
	return slices.DeleteFunc(c.lossLines(), func(line string) bool {
		return !strings.Contains(line, "panic") && !strings.Contains(line, "DATA RACE")
	})
}
