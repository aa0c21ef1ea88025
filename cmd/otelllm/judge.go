package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/judge"
)

// judgeOptions are the options of judge.
type judgeOptions struct {
	socket   string
	once     bool
	maxRuns  int
	maxMiB   int
	idle     time.Duration
	forgotMu sync.Mutex
	forgot   map[string]bool // reasons that were reported
}

func newJudgeCommand() *cobra.Command {
	o := &judgeOptions{forgot: make(map[string]bool)}
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "answer lines of facts with verdicts, for programs in any language",
		Long: `Judge gives the live verdict to programs in any language: each line on standard input is a
JSON object with facts about a request, a tool or a run, or a line of OTLP JSON, and each line
on standard output is the verdict on that run as of now. Nothing is sent anywhere.

  {"run":"r1","kind":"run","state":"begun"}
  {"run":"r1","kind":"request","id":"q1","llm.stream.end":"read_error",
   "llm.transport.cause":"connection_reset","llm.stream.phase":"text","llm.stream.text_chunks":3}

(each on one line). The protocol is described in docs/judge.md.

Only open runs are kept: at most --max-runs, in at most --max-mib, and for --idle after their
last line. Of more the oldest are forgotten, which is reported, and verdicts on them are more
careful if their programs go on.

With --once each line has all facts that its answer is made from: one object, or an array of them
in their order. Nothing is kept from one line to the next.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "socket", "", "serve a Unix socket at this `path`, for many programs, instead of standard input")
	f.BoolVar(&o.once, "once", false, "judge each line on its own: an object, or an array of all facts of a run")
	cmd.MarkFlagsMutuallyExclusive("once", "socket")
	f.IntVar(&o.maxRuns, "max-runs", judge.DefaultMaxRuns, "open runs that are kept at most")
	f.IntVar(&o.maxMiB, "max-mib", judge.DefaultMaxBytes>>20, "`MiB` that open runs take at most")
	f.DurationVar(&o.idle, "idle", judge.DefaultIdle, "how long a run is kept of which nothing comes")
	return cmd
}

func (o *judgeOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if o.maxRuns <= 0 || o.maxMiB <= 0 || o.idle <= 0 {
		return errors.New("--max-runs, --max-mib and --idle must be greater than 0")
	}
	j := judge.New(judge.Options{
		MaxRuns: o.maxRuns, MaxBytes: o.maxMiB << 20, Idle: o.idle,
		Forgot: func(why string) { o.reportForgotten(stderr, why) },
	})
	if o.socket != "" {
		return judge.ListenAndServe(ctx, o.socket, j, func() {
			fmt.Fprintf(stderr, "otelllm: judging on %s\n", o.socket)
		})
	}
	done := make(chan error, 1)
	serve := j.Serve
	if o.once {
		serve = judge.ServeOnce
	}
	go func() { done <- serve(stdin, stdout) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // a read of standard input does not return
		return nil
	}
}

// reportForgotten reports each reason once.
func (o *judgeOptions) reportForgotten(stderr io.Writer, why string) {
	o.forgotMu.Lock()
	defer o.forgotMu.Unlock()
	if !o.forgot[why] {
		o.forgot[why] = true
		fmt.Fprintf(stderr, "otelllm: an open run was forgotten: %s. Further ones are not reported.\n", why)
	}
}
