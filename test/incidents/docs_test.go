package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/incidents/all"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

var update = flag.Bool("update", false, "write what the stories print into docs/incidents.md")

// The page shows what the stories print when they run with the built Collector.
func TestPage(t *testing.T) {
	section(t, "stories", page(play(t, all.Stories(), nil)))
}

// section compares the text between two marks of the page with want.
func section(t *testing.T, name, want string) {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	path := filepath.Join(built.Root(t), "docs", "incidents.md")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	require.True(t, ok, "%s has no %s", path, begin)
	is, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %s", path, end)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o600))
		return
	}
	assert.Equal(t, want, is, "stale: `cd examples && OTELCOL_BIN=… go test ./incidents -update`, with Node for what happened there")
}

// The output before and the verdict after are the expected ones, with the built
// Collector.
func TestStories(t *testing.T) {
	for _, told := range play(t, all.Stories(), nil) {
		for _, wrong := range told.Wrong() {
			t.Error(wrong)
		}
	}
}

// The same for the stories that happened in Node, with agents in Node.
func TestNodeStories(t *testing.T) {
	built.Collector(t) // without it, Node is not needed
	node, err := incident.FindNode(filepath.Join(built.Root(t), "examples", "node"))
	if errors.Is(err, incident.ErrNoNode) {
		t.Skipf("LEFT OUT: %v", err)
	}
	require.NoError(t, err)
	results := play(t, all.NodeStories(), node)
	section(t, "stories in Node", "\n"+outputs(results))
	for _, told := range results {
		for _, wrong := range told.Wrong() {
			t.Error(wrong)
		}
	}
}

func play(t *testing.T, stories []incident.Story, node *incident.Node) []incident.PlayedStory {
	t.Helper()
	results, err := incident.Play(t.Context(), stories, node, built.Collector(t),
		filepath.Join(built.Root(t), "deploy", "collector", "config-demo.yaml"), t.TempDir())
	require.NoError(t, err)
	return results
}

var (
	moment  = regexp.MustCompile(`\+\d+\.\d{3}s `)
	traceID = regexp.MustCompile(`(?m)^  trace +[0-9a-f]{32}\n`)
)

// output returns what a story prints, without times and ids.
func output(t *incident.PlayedStory) string {
	var out bytes.Buffer
	t.Output(&report.Printer{W: &out})
	text := traceID.ReplaceAllString(moment.ReplaceAllString(out.String(), ""), "")
	return "```\n" + strings.TrimRight(text, "\n") + "\n```\n\n"
}

// outputs returns the output of stories that the page describes elsewhere.
func outputs(results []incident.PlayedStory) string {
	var b strings.Builder
	for i := range results {
		fmt.Fprintf(&b, "### %s\n\n%s", results[i].Story.Title, output(&results[i]))
	}
	return b.String()
}

// page returns the stories with their output.
func page(results []incident.PlayedStory) string {
	var b bytes.Buffer
	for i := range results {
		t := &results[i]
		s := t.Story
		fmt.Fprintf(&b, "\n## %d. %s\n\n", i+1, s.Title)
		for _, p := range []string{"**What users saw.** " + s.Met, "**What had happened.** " + s.Happened} {
			fmt.Fprintf(&b, "%s\n\n", strings.Join(report.Wrap(p, 120), "\n"))
		}
		b.WriteString(output(t))
		fmt.Fprintf(&b, "%s\n\n", strings.Join(report.Wrap("**What to do.** "+s.Do, 120), "\n"))
		fmt.Fprintf(&b, "Run it: `go run ./incidents -only %s`. Source: [test/incidents/%[1]s](../test/incidents/%[1]s/story.go).\n", s.Name)
	}
	return b.String() + "\n"
}

func TestChoose(t *testing.T) {
	stories, err := choose("", false)
	require.NoError(t, err)
	assert.Len(t, stories, 5)
	for _, s := range stories {
		assert.DirExists(t, s.Name)
		one, err := choose(s.Name, false)
		require.NoError(t, err)
		require.Len(t, one, 1)
		assert.Equal(t, s.Name, one[0].Name)
	}
	_, err = choose("another", false)
	require.ErrorContains(t, err, `there is no incident "another"; there are toolblamed, terminated`)
}

func TestACollectorThatIsNotBuilt(t *testing.T) {
	err := run(context.Background(), nil, "build/no-such", "none", all.Stories(), os.Stdout)
	require.ErrorContains(t, err, "build it with `make collector`")
}
