// Incidents replays the five incidents that this project began with: the same agent
// meets the same fault over real HTTP, under the telemetry that it had and under
// otelllm, and the Collector judges both.
//
//	go run ./incidents
//	go run ./incidents -only terminated
//	go run ./incidents -node
//
// It exits with status 0 if every trace is as expected, otherwise with 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/incidents/all"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

// budget is the timeout of the whole program; a healthy one needs some seconds.
const budget = 2 * time.Minute

func main() {
	root := flag.String("root", "..", "`folder` of the repository, which the Collector's path is relative to")
	collector := flag.String("collector", "build/otelcol-llm", "Collector `binary`, as `make collector` builds it")
	only := flag.String("only", "", "`name` of the one incident to play: "+names(all.Stories()))
	inNode := flag.Bool("node", false, "play the incidents that happened in Node with agents in Node, with the packages of examples/node")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "incidents: unexpected argument %q; -h lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	stories, err := choose(*only, *inNode)
	var node *incident.Node
	if err == nil && *inNode {
		node, err = incident.FindNode(filepath.Join(*root, "examples", "node"))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "incidents: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, fmt.Errorf("not done within %s", budget))
	if !filepath.IsAbs(*collector) {
		*collector = filepath.Join(*root, *collector)
	}
	err = run(ctx, node, *collector, filepath.Join(*root, "deploy", "collector", "config-demo.yaml"), stories, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "incidents: %v\n", err)
		os.Exit(1)
	}
}

func names(stories []incident.Story) string {
	var list []string
	for _, s := range stories {
		list = append(list, s.Name)
	}
	return strings.Join(list, ", ")
}

func choose(only string, inNode bool) ([]incident.Story, error) {
	stories := all.Stories()
	if inNode {
		stories = all.NodeStories()
	}
	if only == "" {
		return stories, nil
	}
	for _, s := range stories {
		if s.Name == only {
			return []incident.Story{s}, nil
		}
	}
	return nil, fmt.Errorf("there is no incident %q; there are %s", only, names(stories))
}

// run plays the stories with a Collector of their own, and prints them.
func run(ctx context.Context, node *incident.Node, collector, config string, stories []incident.Story, out *os.File) (err error) {
	dir, err := os.MkdirTemp("", "incidents")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	results, err := incident.Play(ctx, stories, node, collector, config, dir)
	if err != nil {
		return err
	}
	var wrong []string
	for i := range results {
		if i > 0 {
			fmt.Fprintln(out)
		}
		wrong = append(wrong, results[i].Wrong()...)
		results[i].Print(report.NewPrinter(out))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as expected:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}
