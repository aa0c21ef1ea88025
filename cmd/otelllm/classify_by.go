package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// byAgent is the value of --by that groups runs by the agent and its version.
const byAgent = "agent"

// agentGroup counts the outcomes of the runs of one version of an agent, and of its model calls that belong to no run.
type agentGroup struct {
	Agent    string         `json:"agent"`
	Version  string         `json:"version,omitempty"` // "": not recorded
	Runs     int            `json:"runs"`
	Outcomes map[string]int `json:"outcomes,omitempty"`
	Calls    int            `json:"calls_without_run,omitempty"`
	// Failures counts class/cause, of runs and of calls without one.
	Failures map[string]int `json:"failures,omitempty"`
}

// groupAgents groups records by agent and version, in the order of their names.
func groupAgents(records []report.Record) []*agentGroup {
	type key struct{ agent, version string }
	groups := map[key]*agentGroup{}
	for i := range records {
		r := &records[i]
		agent, version := agentOf(r)
		g := groups[key{agent, version}]
		if g == nil {
			g = &agentGroup{Agent: agent, Version: version, Outcomes: map[string]int{}, Failures: map[string]int{}}
			groups[key{agent, version}] = g
		}
		if r.Kind == report.RecordRun {
			g.Runs++
			g.Outcomes[cmp.Or(text(r, semconv.RunOutcomeKey), "unknown")]++
		} else {
			g.Calls++
		}
		if class := text(r, semconv.FailureClassKey); class != "" {
			g.Failures[class+"/"+text(r, semconv.FailureCauseKey)]++
		}
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *agentGroup) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Version, b.Version))
	})
}

// agentOf returns the agent of a record and its version: the name of the run, or else the product of the first user agent,
// or else the service. The version is from the first user agent.
func agentOf(r *report.Record) (agent, version string) {
	var product string
	for _, part := range append([]report.Record{*r}, r.Requests...) {
		if sent := text(&part, otelsemconv.UserAgentOriginalKey); sent != "" {
			product, version, _ = strings.Cut(sent, "/")
			break
		}
	}
	return cmp.Or(text(r, otelsemconv.GenAIAgentNameKey), product, r.Service, "unknown"), version
}

// printAgents prints the groups as a table, or as one JSON object in each line.
func printAgents(w io.Writer, records []report.Record, asJSON bool) error {
	groups := groupAgents(records)
	if asJSON {
		encoder := json.NewEncoder(w)
		for _, g := range groups {
			if err := encoder.Encode(g); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "agent\tversion\truns\tok\tfailed\tother\tmost frequent failures")
	for _, g := range groups {
		ok := g.Outcomes[semconv.RunOutcomeSucceeded.String()] + g.Outcomes[semconv.RunOutcomeRecovered.String()] + g.Outcomes[semconv.RunOutcomeWaiting.String()]
		failed := g.Outcomes[semconv.RunOutcomeFailed.String()]
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", report.Printable(g.Agent), report.Printable(cmp.Or(g.Version, "-")), g.Runs,
			share(ok, g.Runs), share(failed, g.Runs), share(g.Runs-ok-failed, g.Runs), report.Printable(mostFrequent(g.Failures)))
	}
	return table.Flush()
}

// share returns a count with its share of all.
func share(n, all int) string {
	if n == 0 || all == 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d (%d %%)", n, (100*n+all/2)/all)
}

// maxFailures is how many kinds of failures a row names.
const maxFailures = 3

// mostFrequent names the most frequent failures.
func mostFrequent(failures map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		return cmp.Or(cmp.Compare(failures[b], failures[a]), strings.Compare(a, b))
	})
	texts := make([]string, 0, maxFailures)
	for _, kind := range kinds[:min(len(kinds), maxFailures)] {
		texts = append(texts, fmt.Sprintf("%s %d", kind, failures[kind]))
	}
	return strings.Join(texts, ", ")
}
