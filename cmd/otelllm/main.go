// Otelllm says why the model streams of an agent broke, and whether a retry is safe: for
// agents in any language, without a Collector.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// Packages write to this log what a peer has sent: net/http, for example, the bytes of a
	// response without a request for it. This program has its own log.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := newCommand().ExecuteContext(ctx)
	stop()
	os.Exit(exitStatus(err))
}

// newCommand returns the whole command line. Each command is in a file of its name.
func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "otelllm",
		Short:         "why a model stream broke, and whether to retry",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRunCommand(), newProxyCommand(), newDemoCommand(),
		newClassifyCommand(), newExplainCommand(), newCheckCommand(), newJudgeCommand(),
	)
	return root
}

// statusError is the exit status of a command that failed.
const statusError = 2

// statusCode is an error whose message is already printed, if it has one.
type statusCode int

// Error implements error.
func (s statusCode) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitStatus prints an error and returns the exit status that it means.
func exitStatus(err error) int {
	var code statusCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintf(os.Stderr, "otelllm: %v\n", err)
		return statusError
	}
}
