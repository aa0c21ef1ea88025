// Oracle compares what is recorded of a stream with what the client delivered to its caller.
// Each real client reads each stream through otelllm's transport, cut at every byte and
// ended in three ways: a clean end, the end of the connection, and a reset. The facts must
// not deny what the caller got, a retry must not be called safe after text or a call that a
// program may have executed, and a complete answer must not be called a failure.
//
//	go run ./oracle
//
// The streams are generated, framed correctly and in every sloppy way. If OTELLLM_FIXTURES
// names a folder, recorded streams are added. To run a single case:
//
//	go run ./oracle -client go-openai -stream 'openai_chat/call/plain' -cut 512 -end rst -v
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetOutput(io.Discard) // genai logs what ends a stream
	var (
		seed     = flag.Uint64("seed", 1, "seed of the generated streams")
		fixtures = flag.String("fixtures", os.Getenv("OTELLLM_FIXTURES"), "folder of recorded streams, with one folder per wire protocol")
		only     = flag.String("client", "", "run only clients whose names match this expression")
		streams  = flag.String("stream", "", "run only streams whose names match this expression")
		cut      = flag.Int("cut", -1, "run only this offset")
		ending   = flag.String("end", "", "run only this end: clean, fin or rst")
		every    = flag.Bool("every", false, "cut long recorded streams at every byte, not only where something new begins; takes hours")
		some     = flag.Int("n", 0, "number of cases, selected at random by the seed; 0 for all")
		workers  = flag.Int("j", 2*runtime.GOMAXPROCS(0), "number of concurrent cases")
		shown    = flag.Int("show", 3, "number of examples to print for each kind")
		verbose  = flag.Bool("v", false, "print each case; useful for a few")
	)
	flag.Parse()
	cases, err := selection(*seed, *fixtures, *only, *streams, *cut, *ending, *every)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
	// In random order, so that a run that is interrupted covers a bit of everything.
	r := rand.New(rand.NewPCG(*seed, 0))
	r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	if *some > 0 {
		cases = cases[:min(*some, len(cases))]
	}
	began := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rep, told, early := newReport(*shown), began, 0
	err = runAll(ctx, cases, *workers, func(c *testCase, res *result) {
		rep.add(c, res)
		for _, f := range res.findings {
			if !f.kind.note() && early < 20 { // print early: a run takes long, and one finding often suffices
				early++
				fmt.Fprintf(os.Stderr, "oracle: %s: %s: %s\n", f.kind, c, f.detail)
			}
		}
		if *verbose {
			printCase(os.Stdout, c, res)
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "oracle: %d of %d cases, findings %t\n", rep.total(), len(cases), rep.failed())
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
	rep.print(os.Stdout)
	fmt.Printf("\n%d of %d cases in %s\n", rep.total(), len(cases), time.Since(began).Round(100*time.Millisecond))
	if rep.failed() || rep.total() < len(cases) {
		os.Exit(1)
	}
}

// selection returns the cases that the flags select.
func selection(seed uint64, fixtures, onlyClients, onlyStreams string, cut int, ending string, every bool) ([]testCase, error) {
	clientNames, err := regexp.Compile(onlyClients)
	if err != nil {
		return nil, err
	}
	streamNames, err := regexp.Compile(onlyStreams)
	if err != nil {
		return nil, err
	}
	streams := generated(seed)
	if fixtures != "" {
		more, err := recorded(fixtures)
		if err != nil {
			return nil, err
		}
		streams = append(streams, more...)
	}
	var cases []testCase
	for i := range streams {
		s := &streams[i]
		if !streamNames.MatchString(s.name) {
			continue
		}
		cuts := s.usefulCuts()
		switch {
		case cut >= 0:
			cuts = []int{min(cut, len(s.body))}
		case every || !strings.HasPrefix(s.name, "recorded/"):
			cuts = s.every()
		}
		for _, c := range clients() {
			if !c.reads(s) || !clientNames.MatchString(c.name) {
				continue
			}
			for _, at := range cuts {
				for e := range ends {
					if ending == "" || ending == e.String() {
						cases = append(cases, testCase{c.name, s, at, e})
					}
				}
			}
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("no case matches; the clients are %s", strings.Join(names(), ", "))
	}
	return cases, nil
}

func names() (all []string) {
	for _, c := range clients() {
		all = append(all, c.name)
	}
	return all
}

func printCase(out io.Writer, c *testCase, res *result) {
	fmt.Fprintf(out, "%s\n  sent: end %t, error %t\n  given: %s\n", c, res.truth.final, res.truth.failed, &res.delivery)
	if err := res.delivery.err; err != nil {
		fmt.Fprintf(out, "  error: %q\n", err)
	}
	var facts []string
	for key, value := range res.recording {
		if strings.HasPrefix(string(key), "llm.") && !slices.Contains([]string{"llm.failure.summary", "llm.failure.summary_key", "llm.failure.evidence", "llm.failure.missing_evidence"}, string(key)) {
			facts = append(facts, strings.TrimPrefix(string(key), "llm.")+"="+value.String())
		}
	}
	slices.Sort(facts)
	fmt.Fprintf(out, "  recorded: %s\n", strings.Join(facts, " "))
	for _, f := range res.findings {
		fmt.Fprintf(out, "  %s: %s\n", f.kind, f.detail)
	}
}
