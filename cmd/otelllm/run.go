package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/child"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/upstream"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// runGrace is how long requests may stay open after the command has ended: requests of its own processes that go on without
// it, and requests whose end has not been noticed yet.
const runGrace = 2 * time.Second

// runOptions are the flags of `otelllm run`.
type runOptions struct {
	agent     string
	upstreams []string
	json      string
	failOn    []string
	quiet     bool
	logLevel  string
	output    outputOptions
	ci        ciOptions
	// unreachable is how an upstream that cannot be connected to appears to the agent; "": as close as possible to its look
	// without the proxy.
	unreachable string
	maxSpans    int // in memory; 0: as many as a session keeps
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "run an agent, and say why its model calls failed",
		Long: `Run starts COMMAND with its model calls going through a proxy on loopback, which changes
nothing about them. It exits as COMMAND does, and then prints what became of the runs: what
failed, what ran, and what to do.

Every command gets ` + "the base URL variables of the providers' SDKs" + `: OPENAI_BASE_URL,
ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL and others. A base URL that is set already stays
the destination. Agents that need more than variables are known by the name of the command:

` + agentsHelp() + `
Exit status: that of COMMAND, 128 and the number of the signal if one ended it; 126 or 127
if COMMAND cannot be started; 3 if COMMAND succeeded and --fail-on matches; 2 for a usage
error, or a file that could not be written. These do not change between versions.`,
		Example: `  otelllm run -- codex exec "fix the test"
  otelllm run --fail-on failed,incomplete --json runs.jsonl -- python agent.py
  otelllm run --upstream openai=https://gateway.example/v1 -- opencode`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no command is given: otelllm run -- COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&o.agent, "set", "", "prepare the command as this agent, whatever its name: "+strings.Join(agents.Names(), ", "))
	f.StringArrayVar(&o.upstreams, "upstream", nil, "`URL` that gets the model calls, or PROVIDER=URL for those of one provider; may be repeated")
	f.StringVar(&o.json, "json", "", "write each run to `FILE`, as one line of JSON")
	f.StringSliceVar(&o.failOn, "fail-on", nil, "exit with status 3 if a run has one of these `OUTCOMES` or classes, such as failed,incomplete; any: if anything is not well")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing")
	f.StringVar(&o.unreachable, "unreachable", "", unreachableHelp+"; the default is what comes nearest for the agent")
	o.output.flags(cmd)
	o.ci.flags(cmd)
	f.StringVar(&o.logLevel, "log-level", "error", "log `LEVEL`: debug, info, warn or error")
	return cmd
}

// agentsHelp returns the table of agents for the help.
func agentsHelp() string {
	var b strings.Builder
	for _, a := range agents.Table() {
		if a.Name == agents.Generic {
			continue
		}
		tried := "untried"
		if a.Version != "" {
			tried = "tried with " + a.Version
		}
		fmt.Fprintf(&b, "  %-10s %-14s %s\n", a.Name, a.Title, tried)
	}
	return b.String()
}

func (o *runOptions) run(ctx context.Context, args []string) error {
	ctx = context.WithoutCancel(ctx) // signals are the command's
	var all tally
	var err error
	if all.failOn, err = parseFailOn(o.failOn); err != nil {
		return err
	}
	upstreams, err := parseRunUpstreams(o.upstreams)
	if err != nil {
		return err
	}
	unreachable, err := proxy.ParseUnreachable(o.unreachable)
	if err != nil {
		return fmt.Errorf("--unreachable: %w", err)
	}
	log, err := newLogger(os.Stderr, o.logLevel)
	if err != nil {
		return err
	}
	ln, err := proxy.Listen(ctx)
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	var temp tempDir
	defer temp.remove()
	plan, err := o.plan(args, upstreams, ln.Addr(), temp.make)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	transport, err := upstream.Transport(upstream.Options{Getenv: plan.Getenv, Proxies: plan.Agent.Proxies, Certificate: plan.Agent.Certificate})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	// The files are emptied when nothing is wrong with the flags.
	if err := all.open(o.json); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer func() { _, _ = all.close() }() // after an error
	if err := o.ci.open(); err != nil {
		return errors.Join(err, ln.Close())
	}
	outputs, err := o.output.open(ctx, log)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer func() { _ = outputs.abandon(ctx) }() // after an error
	service := plan.Agent.Name
	if service == agents.Generic {
		service = ""
	}
	var failed func(proxy.Failure)
	if !o.quiet {
		failed = newTrouble(os.Stderr, time.Now).failed
	}
	served, err := serve(ctx, ln, serveOptions{
		unreachable: cmp.Or(unreachable, plan.Agent.Unreachable), failed: failed,
		service: service, upstreams: upstreamsOf(plan), sinks: []func(ptrace.Traces){outputs.sink}, grace: runGrace, log: log, transport: transport, oneAgent: true,
		maxSpans: o.maxSpans, forgotten: all.take,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if !o.quiet {
		for _, note := range plan.Notes {
			fmt.Fprintf(os.Stderr, "otelllm: note: %s\n", note)
		}
	}
	o.announcePage(outputs, served.session.Store)
	following := follow(served.session.Store, func(ended []report.Record) {
		all.write(ended)
		_ = outputs.writeReport(served.session.Store.Records()) // an error is one at the end, too
	})
	began := time.Now()
	ended, startErr := child.Run(plan.Args, plan.Env)
	following.close() // runs that end from here on are corrected by how the command ended
	closing, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	serveErr := served.stopServing()
	how := endingOf(args, plan.Agent.Name, ended)
	served.session.Instrumentation.EndInferredRunsBy(how.ofWaiting()) // the command sends no further request
	closeErr := errors.Join(serveErr, served.session.Close(closing))
	home, _ := os.UserHomeDir() // or ""
	sessions := sessionsOf(closing, plan, home, began)
	records := joinSession(how.correct(served.session.Store.Records()), sessions)
	fileErr := outputs.close(closing, records)
	if startErr != nil {
		fmt.Fprintf(os.Stderr, "otelllm: %v\n", startErr)
		return statusCode(ended.Code)
	}
	slices.Reverse(records) // the first run first
	all.take(records)
	if len(records) == 0 && all.failOn[anything] {
		all.matched = anything
	}
	if served.session.Store.Cut() > 0 && (o.json != "" || len(o.failOn) > 0) {
		fmt.Fprintln(os.Stderr, "otelllm: a run had more model calls and tools than there is room for: --json and --fail-on lack its beginning")
	}
	matched, jsonErr := all.close()
	ciErr := o.ci.write(os.Stderr, how, records)
	status := exitOf(ended.Code, matched != "", closeErr, errors.Join(fileErr, jsonErr, ciErr))
	if !o.quiet {
		s := summary{ending: how, records: records, dropped: served.session.Store.Dropped(), more: o.more(), now: time.Now()}
		if s.requests = int(served.requests()); s.requests == 0 {
			s.why = plan.Nothing()
		}
		if errors.Is(status, statusCode(statusFailOn)) {
			s.failOn = matched
		}
		s.print(os.Stderr)
		printSessions(os.Stderr, sessions)
	}
	return status
}

// more says how to see more of the runs.
func (o *runOptions) more() string {
	switch {
	case o.output.report != "":
		return "the runs are in " + report.Printable(o.output.report) + ": open it in a browser"
	case o.json != "":
		return "see what happened step by step: otelllm explain last " + report.Printable(o.json)
	default:
		return "to see them as pictures, run it with --report runs.html, or with --page while it runs"
	}
}

// announcePage serves the page, and prints its address.
func (o *runOptions) announcePage(outputs *outputs, store *runs.Store) {
	if address := outputs.servePage(store); address != "" && !o.quiet {
		fmt.Fprintf(os.Stderr, "otelllm: runs are shown on %s\n", address)
	}
}

// plan prepares the command.
func (o *runOptions) plan(args []string, upstreams map[string]*url.URL, addr net.Addr, temp func() (string, error)) (*agents.Plan, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // or ""
	return agents.Prepare(agents.Command{
		Args: args, Env: os.Environ(), Dir: dir, Home: home, Agent: o.agent, Upstreams: upstreams,
		Proxy: &url.URL{Scheme: "http", Host: addr.String()}, Temp: temp,
	})
}

// upstreamsOf returns the upstreams of a plan, in the form of the proxy.
func upstreamsOf(plan *agents.Plan) []proxy.Upstream {
	var list []proxy.Upstream
	for _, r := range plan.Routes {
		list = append(list, proxy.Upstream{Prefix: r.Prefix, URL: r.URL})
	}
	for _, r := range plan.Rests {
		list = append(list, proxy.Upstream{Provider: r.Host, URL: r.URL})
	}
	return list
}

// tempDir is a folder that is made when it is asked for.
type tempDir string

func (d *tempDir) make() (string, error) {
	dir, err := os.MkdirTemp("", "otelllm-")
	*d = tempDir(dir)
	return dir, err
}

func (d *tempDir) remove() {
	if *d != "" {
		_ = os.RemoveAll(string(*d))
	}
}

// exitOf prints the errors of the end, and returns the exit status. A command that failed keeps its own.
func exitOf(code int, matched bool, closeErr, fileErr error) error {
	for _, err := range []error{closeErr, fileErr} {
		if err != nil {
			fmt.Fprintf(os.Stderr, "otelllm: %v\n", err)
		}
	}
	switch {
	case code != 0:
		return statusCode(code)
	case fileErr != nil:
		return statusCode(statusError)
	case matched:
		return statusCode(statusFailOn)
	default:
		return nil
	}
}

// parseRunUpstreams reads URL and PROVIDER=URL.
func parseRunUpstreams(values []string) (map[string]*url.URL, error) {
	upstreams := make(map[string]*url.URL)
	for _, value := range values {
		name, target, ok := strings.Cut(value, "=")
		if !ok || strings.ContainsAny(name, ":/") {
			name, target = "", value
		}
		u, err := parseUpstream(target)
		if err != nil {
			return nil, err
		}
		upstreams[name] = u
	}
	return upstreams, nil
}
