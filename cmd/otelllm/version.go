package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return printVersion(cmd.OutOrStdout(), info)
		},
	}
}

// printVersion prints the version in the build information: the module's version if it was fetched as one, else the
// revision that it was built from.
func printVersion(w io.Writer, info *debug.BuildInfo) error {
	version, revision, modified := "unknown", "", ""
	if info != nil {
		version = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = " " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = " (with changes)"
			}
		}
	}
	_, err := fmt.Fprintf(w, "otelllm %s%s%s %s %s/%s\n", version, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
