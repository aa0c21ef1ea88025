// Command soak drives the built Collector for minutes with the load of many agents
// while everything around llm_classify goes wrong, and keeps the books of every
// span: `make soak`.
//
// The agents' spans go to the Collector over OTLP, gRPC and HTTP, from several
// exporters that send again what is not acknowledged. Behind the Collector is a
// backend, in this program, that fails for a share of the calls and now and then
// refuses connections. Parts, one after the other:
//
//   - calm: nothing fails. What the load needs of llm_classify's memory is measured;
//     later parts have a quarter of it. Every run has the verdict that it is to have.
//   - stops: no storage and no queue behind llm_classify, so that it sees every
//     failure itself, and too little memory. The Collector is stopped (SIGTERM) and
//     started again. Every acknowledged span comes out exactly once.
//   - kills: the same with the journal, and the Collector is killed (SIGKILL), and
//     stopped once. Every acknowledged span comes out at least once, and twice only
//     where a kill is between; no run is judged again that was noted as judged.
//   - kills-shipped: the classifier as deploy/collector ships it, with metrics and an
//     exporter's queue on the same storage, is killed.
//
// In all of them every run has one verdict, a run that was seen as a whole the right
// one, and the marks on its spans are those that they may bear; what was on a span
// comes out as it went in. Three kinds of runs may be judged again on what comes after,
// which is counted: without a storage those whose spans fall on both sides of a stop,
// as what was judged is forgotten with the process; with one those whose verdict left
// just before a kill, so that it may not be noted; and those of which something came
// when llm_classify may have forgotten them.
//
// The load is made from a seed; when things happen, and what of it falls together,
// is not.
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

	"github.com/otelllm/otelllm-go/examples/internal/process"
)

// options are the flags.
type options struct {
	root, bin, dir string
	short          bool
	duration       time.Duration
	traces, open   int
	seed           uint64
	fail           float64
	stops, kills   int
	storage        bool
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

var errFailed = errors.New("failed, see above")

// given are the flags, with the defaults of the short form where it is asked for.
func given(args []string) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "root of the repository")
	flags.StringVar(&o.bin, "collector", "", "the Collector to drive (default build/otelcol-llm in root)")
	flags.StringVar(&o.dir, "dir", "", "folder for logs and journals, kept (default a temporary one, kept when something fails)")
	flags.BoolVar(&o.short, "short", false, "a form of about 40 seconds: other defaults for duration, stops, kills and open")
	flags.DurationVar(&o.duration, "duration", 200*time.Second, "how long spans are sent, all parts together")
	flags.IntVar(&o.traces, "traces", 0, "traces of a part at most; 0 for as many as come in its time")
	flags.IntVar(&o.open, "open", 300, "traces that are under way at a time")
	flags.Uint64Var(&o.seed, "seed", 1, "of the load, the failures and their times")
	flags.Float64Var(&o.fail, "fail", 0.3, "share of the calls that the backend fails")
	flags.IntVar(&o.stops, "stops", 6, "how often the Collector is stopped and started")
	flags.IntVar(&o.kills, "kills", 10, "how often it is killed and started; needs storage")
	flags.BoolVar(&o.storage, "storage", true, "with the parts that have a storage")
	flags.IntVar(&o.problems, "problems", 20, "problems of each kind that are listed for a part")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.short {
		set := make(map[string]bool)
		flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range map[string]string{"duration": "16s", "stops": "2", "kills": "2", "open": "150"} {
			if !set[name] {
				if err := flags.Set(name, value); err != nil {
					return o, err
				}
			}
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q: there are only flags, -help lists them", flags.Arg(0))
	case o.fail < 0 || o.fail > 0.9:
		return o, fmt.Errorf("-fail %v: a share between 0 and 0.9", o.fail)
	case o.duration < 2*o.limits().hold+2*time.Second || o.open < 1 || o.traces < 0 || o.stops < 0 || o.kills < 0:
		return o, errors.New("-duration is to be 6s or more (4s in the short form), -open 1 or more, and no number negative")
	}
	if o.bin == "" {
		o.bin = filepath.Join(o.root, "build", "otelcol-llm")
	}
	return o, nil
}

// parts are the parts of a soak. Each has a share of the time.
func (o *options) parts() []part {
	calm := max(o.duration/10, 2*o.limits().hold) // until as much is held as ever will be
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
	shipped.stops = 0 // its exporter logs as dropped what it keeps in its queue for the next start
	return append(list, stops, kills, shipped)
}

// limits are llm_classify's times and bounds. In the short form the end of a part does
// not wait long for runs that never end.
func (o *options) limits() limits {
	l := limits{hold: 2 * time.Second, settle: 300 * time.Millisecond, runTimeout: 20 * time.Second, heldBytes: 256 << 20, spansPerRun: 150}
	if o.short {
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
			return fmt.Errorf("make a folder for logs and journals: %w", err)
		}
	} else if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	failed, began := false, time.Now()
	s.say("soak: seed %d, %d traces at a time, logs in %s", o.seed, o.open, s.dir)
	var all []outcome
	for i, p := range o.parts() {
		s.say("\n%s: %s", p.name, p.proves)
		result, err := s.run(ctx, i, p)
		if err != nil {
			return fmt.Errorf("part %s: %w; logs in %s", p.name, err, s.dir)
		}
		if i == 0 {
			s.limits.heldBytes = max(result.peak/4, 1)
		}
		failed = result.print(s, o.problems) || failed
		all = append(all, result)
	}
	summary(s, all, time.Since(began))
	if failed {
		s.say("logs and journals are in %s", s.dir)
		return errFailed
	}
	if o.dir == "" {
		return os.RemoveAll(s.dir)
	}
	return nil
}
