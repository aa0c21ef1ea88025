package fleet

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

const prometheusOverlay = `
exporters: {prometheus: {endpoint: "${env:EXPORTED}"}}
`

// One gateway and three classifiers get the spans of each trace over four connections.
// One classifier crashes while it holds parts of runs and while others are in progress,
// and comes back: every trace is judged in one place, as without the crash, and no
// acknowledged span is missing.
func TestAClassifierCrashes(t *testing.T) {
	t.Parallel()
	backend := newStore()
	var classifiers []*node
	for i := range 3 {
		c := newClassifier(t, i, backend, prometheusOverlay)
		c.start(t)
		classifiers = append(classifiers, c)
	}
	gateway := newGateway(t, "gateway", classifiers...)
	gateway.start(t)

	a := newAgents(t, 4, gateway.http)
	const holding = 30
	begun, gate := make(chan struct{}, holding), make(chan struct{})
	a.start(t, held(holding, begun, gate))
	for range holding {
		<-begun
	}
	a.flush(t)
	eventually(t, "each classifier holds runs", func(ct *assert.CollectT) {
		traces := 0.0
		for _, c := range classifiers {
			held := c.metric(ct, "otelcol_processor_llm_classify_traces_held")
			assert.Positive(ct, held)
			traces += held
		}
		assert.GreaterOrEqual(ct, traces, float64(holding))
	})

	// At the worst moment: it has judged runs, and has not yet delivered what it
	// forwarded.
	victim := classifiers[1]
	a.start(t, quick("before", 1))
	eventually(t, "the victim judges", func(ct *assert.CollectT) {
		assert.Positive(ct, victim.metric(ct, "otelcol_processor_llm_classify_spans_forwarded"))
	})
	victim.kill()
	a.start(t, quick("during", 2)) // a third of them wait at the gateway
	close(gate)
	cases := a.wait()
	a.flush(t) // acknowledged by the gateway, while the victim is down
	victim.start(t)

	eventually(t, "every verdict", func(ct *assert.CollectT) {
		for _, c := range cases {
			assert.NotEmpty(ct, backend.runs(c.trace), c.Label())
		}
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged but missing")
	})
	byPlace := make(map[int]int)
	for _, c := range cases {
		assert.Empty(t, slices.DeleteFunc(c.Diff(backend.runs(c.trace)), moreCareful), c.Label())
		places := backend.places(c.trace)
		require.Len(t, places, 1, "%s was judged in several places", c.Label())
		byPlace[places[0]]++
	}
	assert.Len(t, byPlace, len(classifiers), "every classifier judged some runs")
	// While one classifier is down, the gateway sends a batch for several classifiers to
	// all of them again: at least once, not exactly once.
	t.Logf("%d runs, by classifier: %v; %d of %d spans arrived more than once", len(cases), byPlace, backend.again(), len(a.scatter.all()))
}

// splitOverlay makes a classifier judge an incomplete run within seconds.
const splitOverlay = prometheusOverlay + `
processors: {llm_classify: {max_hold: 2s, settle: 500ms, run_timeout: 3s}}
`

// A trace is split: two gateways disagree about the list of classifiers, as happens for
// some seconds whenever it changes. Traces for classifiers that both know are judged in
// one place. The others are judged in two parts, and each part lacks something: its
// verdict says so, and allows no more than the verdict on the whole run.
func TestASplitTraceIsJudgedWithCaution(t *testing.T) {
	t.Parallel()
	backend := newStore()
	var classifiers []*node
	for i := range 3 {
		c := newClassifier(t, i, backend, splitOverlay)
		c.start(t)
		classifiers = append(classifiers, c)
	}
	all := newGateway(t, "a gateway that knows all", classifiers...)
	all.start(t)
	fewer := newGateway(t, "a gateway that knows two", classifiers[0], classifiers[2])
	fewer.start(t)

	a := newAgents(t, 2, all.http, fewer.http)
	a.start(t, quick("split", 3))
	cases := a.wait()
	a.flush(t)
	eventually(t, "every verdict, and every span", func(ct *assert.CollectT) {
		for _, c := range cases {
			assert.NotEmpty(ct, backend.runs(c.trace), c.Label())
		}
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged but missing")
	})

	split := 0
	for _, c := range cases {
		runs := backend.runs(c.trace)
		if len(backend.places(c.trace)) == 1 {
			assert.Empty(t, c.Diff(runs), c.Label())
			continue
		}
		split++
		marked := false
		for _, run := range runs {
			v := &run.Verdict
			marked = marked || v.Trigger != semconv.TriggerComplete
			// The verdict on the whole trace is the lower bound for the verdicts on its
			// parts.
			if v.Failed() && c.Want.Run.Class != semconv.ClassUnset {
				assert.GreaterOrEqual(t, v.Safety, c.Want.Run.Safety, "%s: %s / %s because of %s", c.Label(), v.Class, v.Cause, v.Reason)
			}
			assert.NotEqual(t, semconv.RunOutcomeSucceeded, v.Outcome, "%s: a part of it looks complete", c.Label())
		}
		assert.True(t, marked, "%s: no verdict says that it is incomplete", c.Label())
	}
	require.Positive(t, split)
	t.Logf("%d runs, %d of them split", len(cases), split)
}
