// Otelllm says why the model streams of an agent broke, and whether a retry is safe: for agents in any language, without a
// Collector.
package main

import (
	"context"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// Packages write text of a peer to this log: net/http, for example, the bytes of a response without a request for it.
	// This program has its own log.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	cmd := newCommand()
	cmd.SetArgs(withPage(os.Args[1:]))
	err := cmd.ExecuteContext(ctx)
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
		newClassifyCommand(), newSessionsCommand(), newExplainCommand(), newCheckCommand(), newJudgeCommand(), newVersionCommand(), newManCommand(),
	)
	return root
}

// withPage returns the arguments with "--page :4320" as "--page=:4320": the address is optional, and then a flag takes no
// word of its own. Arguments behind "--" belong to a command.
func withPage(args []string) []string {
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if args[i] != "--page" {
			continue
		}
		if _, _, err := net.SplitHostPort(args[i+1]); err == nil {
			return slices.Concat(args[:i], []string{"--page=" + args[i+1]}, args[i+2:])
		}
	}
	return args
}
