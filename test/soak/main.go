// Command soak runs the built Collector for minutes with the load of many agents while
// everything around llm_classify fails, and keeps records of every span: `make soak`.
//
// The agents' spans go to the Collector over OTLP, gRPC and HTTP, from several
// exporters that repeat what is not acknowledged. Behind the Collector is a backend, in
// this program, that fails a share of the calls and from time to time refuses
// connections. The parts, one after the other:
//
//   - calm: nothing fails. It measures how much of llm_classify's memory the load needs;
//     later parts have a quarter of it. Every run has the expected verdict.
//   - stops: no storage and no queue behind llm_classify, so that it sees every
//     failure itself, and too little memory. The Collector is stopped (SIGTERM) and
//     started again. Every acknowledged span comes out exactly once.
//   - kills: the same with the journal, and the Collector is killed (SIGKILL), and
//     stopped once. Every acknowledged span comes out at least once, and twice only
//     around a kill; no run is judged again whose spans had all come before.
//   - kills-shipped: the classifier as deploy/collector ships it, with metrics and an
//     exporter's queue on the same storage, is killed.
//
// In all parts every run has one verdict, the right one if all of the run was seen, and
// the triggers on its spans are allowed ones. The content of a span comes out
// unchanged. Three kinds of runs may be judged again on spans that arrive later, which
// is counted: runs with spans on both sides of a stop or kill, because the memory of
// verdicts is lost with the process; with a storage, runs whose verdict was sent just
// before a kill, so that their spans may not be recorded as done; and runs with spans that
// arrive when llm_classify may have forgotten the verdict.
//
// The seed determines the load, but not when things happen and what coincides.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/otelllm/otelllm-go/test/internal/process"
)

// options are the values of the flags.
type options struct {
	root, bin, dir string
	short          bool
	duration       time.Duration
	traces, open   int
	seed           uint64
	fail           float64
	stops, kills   int
	storage        bool
	endurance      bool
	problems       int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

var (
	errFailed = errors.New("failed, see above")
	// errTime is printed where another attempt may succeed: .ci/run makes one.
	errTime = errors.New("failed, but only in what depends on time, see above")
)

// given returns the flags, with the defaults of the short form if it is requested.
func given(args []string) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "root of the repository")
	flags.StringVar(&o.bin, "collector", "", "the Collector to drive (default build/otelcol-llm in root)")
	flags.StringVar(&o.dir, "dir", "", "folder for logs and journals, kept (default a temporary one, kept when something fails)")
	flags.BoolVar(&o.endurance, "endurance", false, "the endurance run in place of the soak: half an hour, attackers beside the agents; other defaults for duration, kills and open; fail, stops, storage and traces have no effect")
	flags.BoolVar(&o.short, "short", false, "short form of about 40 seconds: other defaults for duration, stops, kills and open")
	flags.DurationVar(&o.duration, "duration", 200*time.Second, "how long spans are sent, for all parts together")
	flags.IntVar(&o.traces, "traces", 0, "maximum number of traces of a part; 0 for no limit")
	flags.IntVar(&o.open, "open", 300, "number of concurrent traces")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the load, the failures and their times")
	flags.Float64Var(&o.fail, "fail", 0.3, "share of the calls that the backend fails")
	flags.IntVar(&o.stops, "stops", 6, "number of stops of the Collector")
	flags.IntVar(&o.kills, "kills", 10, "number of kills of the Collector; needs storage")
	flags.BoolVar(&o.storage, "storage", true, "include the parts with a storage")
	flags.IntVar(&o.problems, "problems", 20, "number of problems of each kind to list for a part")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	set := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range o.defaults() {
		if !set[name] {
			if err := flags.Set(name, value); err != nil {
				return o, err
			}
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: -help lists the flags", flags.Arg(0))
	case o.fail < 0 || o.fail > 0.9:
		return o, fmt.Errorf("-fail %v: must be a share between 0 and 0.9", o.fail)
	case o.duration < 2*o.limits().hold+2*time.Second || o.open < 1 || o.traces < 0 || o.stops < 0 || o.kills < 0:
		return o, errors.New("-duration must be 6s or more (4s in the short form), -open 1 or more, and no number negative")
	}
	if o.bin == "" {
		o.bin = filepath.Join(o.root, "build", "otelcol-llm")
	}
	return o, nil
}

// defaults returns the defaults of flags that differ in this form of the run.
func (o *options) defaults() map[string]string {
	switch {
	case o.endurance && o.short:
		return map[string]string{"duration": "210s", "kills": "4", "open": "20"}
	case o.endurance:
		return map[string]string{"duration": "30m", "kills": "15", "open": "20"}
	case o.short:
		return map[string]string{"duration": "16s", "stops": "2", "kills": "2", "open": "150"}
	default:
		return nil
	}
}

// parts returns the parts of a soak. Each has a share of the time.
func (o *options) parts() []part {
	calm := max(o.duration/10, 2*o.limits().hold) // until the held amount has reached its maximum
	rest := o.duration - calm
	list := []part{{name: "calm", proves: "every verdict, and the need of memory", lasts: calm}}
	outages := 2
	if o.short {
		outages = 1
	}
	stops := part{
		name: "stops", proves: "exactly once over stops", lasts: rest, stops: o.stops, outages: 2 * outages,
		fail: o.fail, bounded: true,
	}
	if !o.storage {
		return append(list, stops)
	}
	stops.lasts = rest * 4 / 10
	kills := part{
		name: "kills", proves: "at least once over kills, by the journal alone", lasts: (rest - stops.lasts) / 2, stops: min(o.stops/2, 1), kills: o.kills - o.kills/2, outages: outages,
		fail: o.fail, bounded: true, storage: true,
	}
	stops.stops -= kills.stops
	shipped := kills
	shipped.name, shipped.proves = "kills-shipped", "the same as deploy/collector ships it, with a queue behind"
	shipped.kills, shipped.shipped = o.kills/2, true
	shipped.stops = 0 // its exporter logs data as dropped that it keeps in its queue for the next start
	return append(list, stops, kills, shipped)
}

// limits returns llm_classify's times and bounds. In the short form the end of a part
// does not wait long for runs that never end.
func (o *options) limits() limits {
	l := limits{hold: 2 * time.Second, settle: 300 * time.Millisecond, runTimeout: 20 * time.Second, heldBytes: 256 << 20, factBytes: 64 << 20, spansPerRun: 150}
	switch {
	case o.endurance: // within the reach of an attacker
		l.heldBytes, l.factBytes = 32<<20, 16<<20
	case o.short:
		l.hold, l.runTimeout = time.Second, 5*time.Second
	}
	return l
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := given(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := process.Need(o.bin, "build it with `make collector`"); err != nil {
		return err
	}
	s := &soak{
		bin: o.bin, dir: o.dir, seed: o.seed, open: o.open, traces: o.traces, limits: o.limits(),
		say: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
	}
	if s.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "soak-*"); err != nil {
			return fmt.Errorf("create a folder for logs and journals: %w", err)
		}
	} else if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if o.endurance {
		return s.endurance(ctx, o)
	}
	var failed, certain bool
	began := time.Now()
	s.say("soak: seed %d, %d traces at a time, logs in %s", o.seed, o.open, s.dir)
	var all []outcome
	for i, p := range o.parts() {
		s.say("\n%s: %s", p.name, p.proves)
		result, err := s.run(ctx, i, p)
		if err != nil {
			return fmt.Errorf("part %s: %w; logs in %s", p.name, err, s.dir)
		}
		if i == 0 {
			s.limits.heldBytes = max(result.held/4, 1)
		}
		failed = result.print(s, o.problems) || failed
		certain = certain || result.certain
		all = append(all, result)
	}
	summary(s, all, time.Since(began))
	if failed {
		s.say("logs and journals are in %s", s.dir)
		if !certain {
			return errTime
		}
		return errFailed
	}
	if o.dir == "" {
		return os.RemoveAll(s.dir)
	}
	return nil
}
