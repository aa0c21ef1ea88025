package classify

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestPartsOfARun judges each part of generated runs with what the other parts did, as a
// caller does that cannot keep all of a long run. No verdict may be less careful than that
// on the whole run.
func TestPartsOfARun(t *testing.T) {
	rounds := 10_000 / sample.Every(20)
	failed := 0
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3)) //nolint:gosec // a test that can be repeated
		whole := randomRun(rnd)
		again, cut := rnd.IntN(2) == 0, rnd.IntN(2) == 0
		for i := range whole.Requests {
			q := &whole.Requests[i]
			if again {
				q.Attempt = 1 + rnd.IntN(5)/3
			}
			if !cut {
				q.OpenCallIDs = nil
			}
			if rnd.IntN(2) == 0 {
				q.Transport = Transport{}
			}
			if rnd.IntN(6) == 0 { // its caller closed it after silence
				q.End, q.Ended, q.LastProgress = q.Start.Add(2*minSilence), semconv.StreamEndConsumerClosed, 1
				q.Transport, q.Abort = Transport{}, Abort{}
			}
		}
		for i := range whole.Tools {
			if rnd.IntN(6) == 0 {
				whole.Tools[i].Abort.Source = semconv.AbortSourceUser
			}
		}
		problem, compared := partsProblem(whole, rnd)
		if problem != "" {
			t.Fatalf("seed %d: %s\n%+v", seed, problem, whole)
		}
		failed += compared
	}
	if failed < rounds/4 {
		t.Fatalf("only %d parts failed, as the whole run did", failed)
	}
}

// partsProblem splits a run into parts and compares the verdicts on each with those on the
// whole run. It returns how many parts failed, as the whole run did.
func partsProblem(whole *Run, rnd *rand.Rand) (problem string, compared int) {
	all := Judge(whole)
	parts := make([]Run, 2+rnd.IntN(2))
	for p := range parts {
		parts[p] = *whole
		parts[p].Requests, parts[p].Tools, parts[p].Partial = nil, nil, true
	}
	requests := make([][]int, len(parts))
	for i := range whole.Requests {
		p := rnd.IntN(len(parts))
		parts[p].Requests = append(parts[p].Requests, whole.Requests[i])
		requests[p] = append(requests[p], i)
	}
	for t := range whole.Tools {
		p := rnd.IntN(len(parts))
		parts[p].Tools = append(parts[p].Tools, whole.Tools[t])
	}
	effects := make([]Effects, len(parts))
	for p := range parts {
		effects[p] = Judge(&parts[p]).Effects
	}
	for p := range parts {
		for other, did := range effects {
			if other != p {
				parts[p].Inner = parts[p].Inner.Join(did)
			}
		}
		v := Judge(&parts[p])
		for n, i := range requests[p] {
			a, b := &all.Requests[i], &v.Requests[n]
			if a.Failed() && (!b.Failed() || b.Retry.Safety < a.Retry.Safety) {
				return fmt.Sprintf("request %d: %s as a part of %s", i+1, words(b), words(a)), 0
			}
		}
		if !all.Run.Failed() || !v.Run.Failed() {
			continue
		}
		compared++
		if v.Run.Retry.Safety < all.Run.Retry.Safety {
			return fmt.Sprintf("the run: %s as a part of %s", words(&v.Run), words(&all.Run)), 0
		}
	}
	return "", compared
}

// A run of which parts are missing does not blame its application: they may explain the
// failure.
func TestPartsThatMayExplainTheFailure(t *testing.T) {
	r := run(true, []Request{request(0, 1, answers)})
	assert.Equal(t, "application_error/run_error@unknown user_confirmed_retry (visible_output)", words(judged(&r)))
	r.Partial = true
	assert.Equal(t, "unclassified/unknown@unknown user_confirmed_retry (visible_output)", words(judged(&r)))
}

func judged(r *Run) *Diagnosis {
	v := Judge(r)
	return &v.Run
}

// A request that was cancelled after another one failed may be what the run ended on.
func TestCancelledInAnotherPart(t *testing.T) {
	failed := request(-3, -2, all(reset(semconv.PhaseResponseStarted), carries("z")))
	answered := request(2, 3, answers)
	cleanup := []Request{request(0, 1, reset(semconv.PhaseResponseStarted)), request(0, 5, aborted(semconv.AbortSourceUnknown))}
	whole := run(true, append([]Request{failed, answered}, cleanup...))
	assert.Equal(t, "local_abort/unknown@text no_retry (not_transient)", words(judged(&whole)))
	part, other := whole, whole
	part.Partial, other.Partial = true, true
	part.Requests, other.Requests = []Request{failed, answered}, cleanup
	part.Inner = Judge(&other).Effects
	assert.Equal(t, "stream_interrupted/connection_reset@response_started no_retry (not_transient)", words(judged(&part)))
}

// A tool that is in another part of the run has run.
func TestToolInAnotherPart(t *testing.T) {
	cut := request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))
	whole := run(true, []Request{cut}, tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	part, other := whole, whole
	part.Partial, other.Partial = true, true
	part.Tools, other.Requests = nil, nil
	part.Inner = Judge(&other).Effects
	v := Judge(&part)
	for _, d := range []*Diagnosis{&v.Run, &v.Requests[0]} {
		assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)", words(d))
		assert.NotEqual(t, semconv.SummaryKeyToolNotRun, d.SummaryKey)
	}
}

// The request that carried an output may be in another part of the run.
func TestOutputInAnotherPart(t *testing.T) {
	first := request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))
	retry := request(2, 3, answers)
	r := run(true, []Request{first, retry}, tool(1.5, 4, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	assert.Equal(t, semconv.ClassToolOutputLost, judged(&r).Class)
	r.Partial = true
	assert.NotEqual(t, semconv.ClassToolOutputLost, judged(&r).Class)
	assert.Empty(t, judged(&r).MissingOutputs)
}
