package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// sessionsOptions are the flags of `otelllm sessions`.
type sessionsOptions struct {
	paths  []string
	since  time.Duration
	agent  string
	follow bool
	json   string
	report string
	failOn []string
	plan   string

	only *sessionfiles.Agent // as the flag names it
}

// defaultSince is how old the sessions are that are read, unless a user asks for others.
const defaultSince = 24 * time.Hour

func newSessionsCommand() *cobra.Command {
	o := &sessionsOptions{}
	cmd := &cobra.Command{
		Use:   "sessions [PATH...]",
		Short: "say how the last sessions of coding agents ended, from what they wrote to the disk",
		Long: `Sessions reads the files in which coding agents keep their sessions, and says of each session how
its last turn ended: also of one whose process was killed, and without any set-up before. Nothing
is changed, nothing is sent, and nothing that a person, a model or a tool wrote is printed.

Without a PATH it reads where agents keep their sessions, as their environment variables say:

` + sessionAgentsHelp() + `
A PATH is a file, or a folder with files of sessions or an agent's folders in it.

A session whose process still runs has no verdict. Where no lock, process id or open file shows
what became of a process, it counts as gone an hour after it wrote last; with --follow on Linux, as
soon as it was seen and is there no more.

Exit status: 0 all was read, 2 some of it was not, or the arguments are wrong, 3 --fail-on matches.`,
		Example: `  otelllm sessions
  otelllm sessions --since 168h --agent codex
  otelllm sessions --plan 01a22111
  otelllm sessions --follow`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.paths = args
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.since, "since", defaultSince, "read sessions that changed since this `DURATION` ago; 0 for all. A file that is named is always read")
	f.StringVar(&o.agent, "agent", "", "read only the sessions of this agent: "+strings.Join(sessionAgentNames(), ", "))
	f.BoolVar(&o.follow, "follow", false, "go on, and say within seconds when a session dies or ends badly")
	f.StringVar(&o.json, "json", "", "write each turn of the sessions to `FILE`, as one line of JSON; of a turn of which nothing is said nothing is written")
	f.StringVar(&o.report, "report", "", "write the turns to `FILE.html`, as one page that needs nothing else")
	f.StringSliceVar(&o.failOn, "fail-on", nil, "exit with status 3 if a last turn has one of these `OUTCOMES` or classes, such as failed,incomplete; any: if anything is not well")
	f.StringVar(&o.plan, "plan", "", "print what ran in the session with this `ID`, what may have run, and what to tell the model when it is resumed; the beginning of the id is enough")
	return cmd
}

func sessionAgentNames() (names []string) {
	for _, a := range sessionfiles.Agents {
		names = append(names, a.Name)
	}
	return names
}

// sessionAgentsHelp returns the table of agents for the help.
func sessionAgentsHelp() string {
	var b strings.Builder
	for _, p := range sessionfiles.Places("~", func(string) string { return "" }) {
		fmt.Fprintf(&b, "  %-10s %-12s %s\n", p.Agent.Name, p.Agent.Title, strings.ReplaceAll(p.Home, `\`, "/"))
	}
	return b.String()
}

// check checks the flags against each other.
func (o *sessionsOptions) check() error {
	if o.agent != "" {
		if o.only = sessionfiles.Find(o.agent); o.only == nil {
			return fmt.Errorf("--agent %s is not known: write one of %s", o.agent, strings.Join(sessionAgentNames(), ", "))
		}
	}
	switch {
	case o.since < 0:
		return errors.New("--since must not be less than 0")
	case o.follow && (o.plan != "" || o.report != "" || len(o.failOn) > 0):
		return errors.New("--follow goes on until it is interrupted: --plan, --report and --fail-on need a command of their own")
	}
	return nil
}

func (o *sessionsOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	all := tally{}
	var err error
	if all.failOn, err = parseFailOn(o.failOn); err != nil {
		return err
	}
	if err := all.open(o.json); err != nil {
		return err
	}
	s := &sessionScan{options: o, all: &all, out: stdout, err: stderr}
	if o.follow {
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		err = s.follow(ctx, time.Now, ticks.C)
	} else {
		err = s.once(ctx, time.Now())
	}
	matched, closing := all.close()
	switch {
	case err != nil || closing != nil:
		return errors.Join(err, closing)
	case matched != "":
		fmt.Fprintf(stderr, "otelllm: exit status %d, because of --fail-on %s\n", statusFailOn, matched)
		return statusCode(statusFailOn)
	case s.bad:
		return statusCode(statusError)
	}
	return nil
}

// sessionScan reads sessions and prints what became of them.
type sessionScan struct {
	options  *sessionsOptions
	all      *tally
	out, err io.Writer
	bad      bool // something could not be read; it is said
}

// problem says what could not be read.
func (s *sessionScan) problem(p *sessionfiles.Problem) {
	s.bad = true
	fmt.Fprintf(s.err, "otelllm: %s\n", report.Printable(p.Error()))
}

// files returns the files to be read, the newest first.
func (s *sessionScan) files(since time.Time) ([]sessionfiles.File, error) {
	if len(s.options.paths) > 0 {
		return sessionfiles.Named(s.options.paths, s.options.only, since, s.problem)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find the home directory: %w", err)
	}
	var places []sessionfiles.Place
	for _, p := range sessionfiles.Places(home, os.Getenv) {
		if s.options.only == nil || s.options.only == p.Agent {
			places = append(places, p)
		}
	}
	return sessionfiles.Discover(places, since, s.problem), nil
}

// sinceOf returns the time before which sessions are left out; zero for none.
func (o *sessionsOptions) sinceOf(now time.Time) time.Time {
	if o.since == 0 {
		return time.Time{}
	}
	return now.Add(-o.since)
}

// once reads all sessions and prints what became of them.
func (s *sessionScan) once(ctx context.Context, now time.Time) error {
	since := s.options.sinceOf(now)
	files, err := s.files(since)
	if err != nil {
		return err
	}
	if len(s.options.paths) > 0 {
		since = time.Time{}
	}
	wanted := s.options.json != "" || s.options.report != "" || s.options.plan != ""
	scan := sessionfiles.Scan{Since: since, Now: now, All: wanted, Around: sessionfiles.LookAround(), Report: s.problem}
	table := &sessionTable{now: now, plan: s.options.plan}
	var records []report.Record
	scan.Sessions(ctx, files, func(one *sessionfiles.Session) {
		if one.Last() == nil {
			return
		}
		turns, last := s.records(one)
		if s.options.report != "" {
			records = append(records, turns...)
		}
		table.add(one, last)
	})
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if s.options.report != "" {
		if err := writeReport(s.options.report, records); err != nil {
			return err
		}
	}
	if s.options.plan != "" {
		return table.printPlan(s.out)
	}
	table.print(s.out)
	return nil
}

// records returns the records of the turns of a session, the newest first, and that of its last turn,
// which is compared with --fail-on; nil if nothing is said of that.
func (s *sessionScan) records(one *sessionfiles.Session) (records []report.Record, last *report.Record) {
	all := s.options.json != "" || s.options.report != ""
	for i := len(one.Turns) - 1; i >= 0 && (all || i == len(one.Turns)-1); i-- {
		r := sessionfiles.RecordOf(&one.Turns[i])
		if r == nil {
			if i == len(one.Turns)-1 {
				s.all.undetermined(one.Turns[i].State)
			}
			continue
		}
		records = append(records, *r)
		if i == len(one.Turns)-1 {
			last = r
			s.all.take([]report.Record{*r})
		} else {
			s.all.write([]report.Record{*r})
		}
	}
	return records, last
}
