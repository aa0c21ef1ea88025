package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// What is said of the spans of a trace does not follow from the order in which they
// arrived, although many of them begin and end at the same time, and some came twice.
func TestOrderOfMembers(t *testing.T) {
	for seed := range uint64(800) {
		g := rand.New(rand.NewPCG(seed, 2))
		nodes := anyNodes(g)
		want := spoken(t, nodes)
		for range 3 {
			g.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			require.Equal(t, want, spoken(t, nodes), "seed %d: %v", seed, nodes)
		}
	}
}

// anyNodes are the spans of an agent, and of gateways beneath its requests.
func anyNodes(g *rand.Rand) (nodes []node) {
	services := []string{"agent", "agent", "gateway", "gateway behind"}
	add := func(n node) {
		n.from = g.IntN(3)
		n.to = n.from + g.IntN(3)
		nodes = append(nodes, n)
	}
	add(node{id: 1, role: trace.Run, facts: dialect.Facts{Run: &classify.Run{Ended: classify.Yes}}})
	if g.IntN(3) == 0 {
		nodes = nil // there is another span in its place
	}
	inferred := byte(0) // a run that a gateway inferred
	for id := byte(2); id < byte(4+g.IntN(9)); id++ {
		n := node{id: id, parent: 1 + byte(g.IntN(int(id)-1)), service: services[g.IntN(len(services))], facts: failedCall}
		switch g.IntN(6) {
		case 0:
			n.facts = overloaded
		case 1:
			n.facts = reset
		case 2:
			n.facts = stopped
		case 3, 4:
			n.role = trace.Tool
			n.facts = dialect.Facts{Tool: &classify.Tool{CallID: fmt.Sprint("call_", g.IntN(2)), Name: "pay", Start: t0, End: t0.Add(time.Second)}}
			if g.IntN(2) == 0 {
				n.facts.Tool.Outcome = semconv.ToolOutcomeFailed
			}
		}
		switch g.IntN(8) {
		case 0, 1:
			n.run = 1
		case 2:
			n.run = inferred
		case 3:
			n.role, n.yields, n.service, n.run = trace.Run, true, "gateway", 0
			n.facts = dialect.Facts{Run: &classify.Run{Ended: classify.Yes}}
			inferred = id
		}
		n.server = n.service != "agent" && g.IntN(2) == 0
		add(n)
		if g.IntN(6) == 0 {
			nodes = append(nodes, nodes[len(nodes)-1])
		}
	}
	return nodes
}

// spoken is what is said of each of the runs, in words.
func spoken(t *testing.T, nodes []node) (words []string) {
	t.Helper()
	links := map[byte]byte{1: 0}
	if slices.ContainsFunc(nodes, func(n node) bool { return n.id == 1 }) {
		links = nil
	}
	releases, _ := drain(t, links, nodes...)
	for i := range releases {
		release := &releases[i]
		got, d := causes(t, release)
		text := fmt.Sprint(release.RunID, got)
		if d.Run != nil {
			carrier := ""
			if d.Carrier >= 0 {
				carrier = release.Members[d.Carrier].ID.String()
			}
			text += fmt.Sprint(" ", carrier, " ", d.Run.Outcome, d.Run.Class, d.Run.Cause, d.Run.Retry, d.Run.Summary, strings.Join(d.Run.Timeline, "; "), d.Run.Evidence)
		}
		words = append(words, text)
	}
	slices.Sort(words)
	return words
}

// A span of another service carries no verdict of the run, not even if it came twice.
func TestCarrierIsNoDuplicate(t *testing.T) {
	served := node{id: 3, parent: 2, from: 1, to: 6, service: "gateway", facts: stopped}
	releases, _ := drain(t, map[byte]byte{8: 0},
		node{id: 2, parent: 8, from: 1, to: 5, service: "agent", facts: stopped}, served, served,
		node{id: 4, parent: 8, from: 2, to: 4, service: "agent", facts: stopped})
	require.Len(t, releases, 1)
	_, d := causes(t, &releases[0])
	require.NotNil(t, d.Run)
	require.Equal(t, id(2), releases[0].Members[d.Carrier].ID)
}

// Of the gateways that observed the execution of a call, the one nearest to the agent
// counts: what is beneath another service's request does not.
func TestObservedByTwoGateways(t *testing.T) {
	observed := func(id, run byte, from, to int) node {
		return node{
			id: id, parent: run, run: run, role: trace.Tool, from: from, to: to, service: "gateway",
			facts: dialect.Facts{Tool: &classify.Tool{CallID: "call_1", Name: "pay"}},
		}
	}
	infers := func(id, parent byte, service string) node {
		return node{
			id: id, parent: parent, role: trace.Run, from: 2, to: 8, service: service, yields: true,
			facts: dialect.Facts{Run: &classify.Run{Ended: classify.Yes}},
		}
	}
	nodes := []node{
		{id: 1, role: trace.Run, to: 9, service: "agent", facts: dialect.Facts{Run: &classify.Run{Ended: classify.Yes}}},
		{id: 2, parent: 1, run: 1, from: 1, to: 8, service: "agent", facts: stopped},
		infers(3, 2, "gateway"),
		{id: 4, parent: 3, run: 3, from: 2, to: 8, service: "gateway", facts: stopped},
		observed(5, 3, 4, 6),
		infers(6, 4, "gateway behind"),
		observed(7, 6, 3, 6),
	}
	for range nodes {
		nodes = append(nodes[1:], nodes[0])
		releases, _ := drain(t, nil, nodes...)
		require.Len(t, releases, 1)
		j := Judge{relations: relations(&releases[0], nil)}
		j.assemble(&releases[0])
		require.Len(t, j.tools, 1)
		require.Equal(t, id(5), releases[0].Members[j.tools[0]].ID)
	}
}
