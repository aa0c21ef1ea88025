package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newManCommand returns the hidden command that prints the manual page, for packages: cobra's own generator needs a
// module more.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "print the manual page",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), manPage(cmd.Root()))
			return err
		},
	}
}

// manPage returns one page in the man macros, with every command that help shows.
func manPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(root.Name()), root.Name(), roff(root.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n\\fICOMMAND\\fR [\\fIFLAG\\fR...] [\\fIARGUMENT\\fR...]\n", root.Name())
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, ".SH %s\n.B %s\n.PP\n", strings.ToUpper(cmd.Name()), roff(cmd.UseLine()))
		preformatted(&b, cmd.Long)
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
				usage += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(&b, ".TP\n\\fB\\-\\-%s\\fR \\fI%s\\fR\n%s\n", roff(f.Name), roff(value), roff(usage))
		})
		if cmd.Example != "" {
			b.WriteString(".PP\nExamples:\n")
			preformatted(&b, cmd.Example)
		}
	}
	return b.String()
}

// preformatted writes a text whose lines stay as they are.
func preformatted(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(text))
}

// roff returns a text that roff prints as it is: a backslash, a hyphen and a dot or a quote at the beginning of a line mean
// something there.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
