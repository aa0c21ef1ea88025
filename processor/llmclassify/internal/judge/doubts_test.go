package judge

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestDoubtsAreNamed: the missing evidence of a failed run names each doubt that counts, and the page has a row for it.
func TestDoubtsAreNamed(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operate/troubleshooting.md")
	require.NoError(t, err)
	failed := dialect.Facts{Request: &classify.Request{
		Start: at(1).AsTime(), End: at(2).AsTime(), Ended: semconv.StreamEndReadError, Phase: semconv.PhaseResponseStarted,
		Transport: classify.Transport{Cause: semconv.TransportCauseConnectionReset},
	}}
	verdict := func(announced int, twice bool, change func(*trace.Release)) *classify.Diagnosis {
		run := dialect.Facts{Run: &classify.Run{Start: at(0).AsTime(), End: at(3).AsTime(), Failed: classify.Yes}}
		if announced > 0 {
			run.Run.AnnouncedRequests, run.Run.AnnouncedTools = classify.Counted(announced), classify.Counted(0)
		}
		nodes := []node{{id: 1, role: trace.Run, to: 3, facts: run}, {id: 2, parent: 1, run: 1, role: trace.Request, from: 1, to: 2, facts: failed}}
		if twice {
			nodes = append(nodes, node{id: 2, parent: 1, run: 1, role: trace.Request, from: 2, to: 3, facts: failed})
		}
		releases, _ := drain(t, nil, nodes...)
		require.Len(t, releases, 1)
		r := &releases[0]
		r.Reason = trace.Complete
		if announced > 0 {
			r.Run.Announced = trace.Announced{Known: true, Requests: uint32(announced)}
		}
		change(r)
		var j Judge
		d := j.Diagnose(r, trace.Inner{})
		require.NotNil(t, d.Run)
		if len(d.Run.MissingEvidence) > 0 {
			assert.NotEqual(t, classify.SafeAutoRetry, d.Run.Retry.Safety)
		}
		return d.Run
	}
	as := func(doubt trace.Doubt, why trace.Reason) func(*trace.Release) {
		return func(r *trace.Release) { r.Doubt, r.Reason = doubt, why }
	}
	for _, tt := range []struct {
		name      string
		announced int
		twice     bool
		change    func(*trace.Release)
		want      []string
	}{
		{"none", 1, false, as(0, trace.Complete), nil},
		{"forgotten", 1, false, as(trace.Forgotten, trace.Complete), []string{"doubt.forgotten"}},
		{"before the start", 1, false, as(trace.BeforeStart, trace.Complete), []string{"doubt.before_start"}},
		{"too many", 1, false, as(trace.TooMany, trace.Complete), []string{"doubt.too_many"}},
		{"elsewhere", 1, false, as(trace.Elsewhere, trace.Complete), []string{"doubt.placed_by_time"}},
		{"several", 1, false, as(trace.Forgotten|trace.Elsewhere, trace.Complete), []string{"doubt.forgotten", "doubt.placed_by_time"}},
		{"that do not count", 1, false, as(trace.Uncounted, trace.RunEnded), nil},
		{"that do not count, beside one", 1, false, as(trace.Refused|trace.TooMany, trace.RunEnded), []string{"doubt.too_many"}},
		{"an open run", 0, false, as(trace.OpenRun, trace.RunEnded), []string{"doubt.open_run"}},
		{"refused", 0, false, as(trace.Refused, trace.RunEnded), []string{"doubt.refused"}},
		{"links lost", 0, false, as(trace.LinksLost, trace.RunEnded), []string{"doubt.links_lost"}},
		{"crowded", 0, false, as(trace.Crowded, trace.RunEnded), []string{"doubt.too_many_traces"}},
		{"late", 1, false, as(0, trace.Late), []string{"doubt.late"}},
		{"for memory", 1, false, as(0, trace.Memory), []string{"doubt.released_early"}},
		{"beyond the limit", 1, false, as(0, trace.SpanLimit), []string{"doubt.released_early"}},
		{"one id twice", 2, true, as(0, trace.Complete), []string{"doubt.same_span_id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, entry := range verdict(tt.announced, tt.twice, tt.change).MissingEvidence {
				if strings.HasPrefix(entry, "doubt.") {
					got = append(got, entry)
					assert.Contains(t, string(page), "| `"+entry+"` |", "the page explains it")
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
