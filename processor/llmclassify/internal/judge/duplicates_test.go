package judge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// TestDuplicates: a request that is known of an agent's logs, and one that is known by its own
// span, are one if they were at the same time and nothing speaks against it.
func TestDuplicates(t *testing.T) {
	type request struct {
		from, to int
		model    string
		facts    classify.Request
	}
	for name, tt := range map[string]struct {
		logged, own []request
		duplicates  []int // of the logged ones, then the own ones
	}{
		"at the same time":        {[]request{{from: 1, to: 3}}, []request{{from: 1, to: 3}}, []int{0}},
		"one after the other":     {[]request{{from: 1, to: 3}}, []request{{from: 4, to: 5}}, nil},
		"one model":               {[]request{{1, 3, "m-2026", classify.Request{}}}, []request{{1, 3, "a/m", classify.Request{}}}, []int{0}},
		"two models":              {[]request{{1, 3, "m", classify.Request{}}}, []request{{1, 3, "n", classify.Request{}}}, nil},
		"two attempts":            {[]request{{1, 3, "", classify.Request{Attempt: 1}}}, []request{{1, 3, "", classify.Request{Attempt: 2}}}, nil},
		"an attempt":              {[]request{{1, 3, "", classify.Request{Attempt: 2}}}, []request{{1, 3, "", classify.Request{}}}, []int{0}},
		"one call":                {[]request{{1, 3, "", classify.Request{CallIDs: []string{"a"}}}}, []request{{1, 3, "", classify.Request{CallIDs: []string{"a", "b"}}}}, []int{0}},
		"two calls":               {[]request{{1, 3, "", classify.Request{CallIDs: []string{"a"}}}}, []request{{1, 3, "", classify.Request{CallIDs: []string{"b"}}}}, nil},
		"the nearest one":         {[]request{{from: 4, to: 9, facts: classify.Request{Failed: classify.Yes}}}, []request{{from: 1, to: 9}, {from: 4, to: 9}}, []int{2}},
		"two of them, and one":    {[]request{{from: 1, to: 9}, {from: 2, to: 9}}, []request{{from: 1, to: 9}}, []int{0}},
		"two in parallel, of two": {[]request{{from: 1, to: 9}, {from: 2, to: 9}}, []request{{from: 2, to: 9}, {from: 1, to: 9}}, []int{0, 1}},
	} {
		release := &trace.Release{RunID: id(99), Run: &trace.Item{ID: id(99), Role: trace.Run}}
		add := func(r request, run byte, yields bool) {
			span := ptrace.NewSpan()
			if r.model != "" {
				span.Attributes().PutStr("gen_ai.request.model", r.model)
			}
			it := &trace.Item{ID: id(byte(len(release.Members) + 1)), Parent: id(98), Run: id(run), Role: trace.Request, Yields: yields, Start: at(r.from), End: at(r.to)}
			it.Known.Dialect = given{facts: dialect.Facts{Request: &r.facts}}
			release.Members = append(release.Members, trace.Member{Item: it, Span: span})
		}
		for _, r := range tt.logged {
			add(r, 97, true)
		}
		for _, r := range tt.own {
			add(r, 0, false)
		}
		var duplicates []int
		for i, s := range relations(release, nil) {
			if s.duplicate {
				duplicates = append(duplicates, i)
			}
		}
		assert.Equal(t, tt.duplicates, duplicates, name)
	}
}
