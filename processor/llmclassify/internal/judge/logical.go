package judge

import (
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// judgeLogicalCalls writes the verdicts on the logical calls of several attempts: the verdict on the last attempt, or, if
// that would be less safe to repeat, the verdict on all attempts together. If the last attempt did not fail, but the call
// is marked as failed, its producer observed more, and the call has a verdict of its own. The run includes that call, so it
// is judged again with the call's effects.
func (j *Judge) judgeLogicalCalls(release *trace.Release, verdicts []*classify.Diagnosis) {
	members, again := release.Members, false
	worst := mostCareful(j.relations, verdicts)
	room := maxJudgedAgain * len(members)
	for i := range j.relations {
		last := lastAttempt(members, j.relations, i)
		if last == i {
			continue
		}
		m := &members[i]
		if verdicts[i] = verdicts[last]; verdicts[i] != nil {
			if all := j.judgeAttempts(members, i, &room); all.Retry.Safety > verdicts[i].Retry.Safety {
				verdicts[i] = all
			}
			if w, ok := worst[i]; ok && verdicts[w].Retry.Safety > verdicts[i].Retry.Safety {
				verdicts[i] = verdicts[w]
			}
			continue
		}
		if m.Known.Facts(m.Span, dialect.Request).Request.Failed != classify.Yes {
			continue
		}
		v := judgeRequest(m, classify.Upstream{})
		if verdicts[i] = failed(&v.Requests[0]); verdicts[i] != nil && !j.relations[i].apart {
			v.Effects.Requests = 0 // its attempts are counted
			j.run.Inner, again = j.run.Inner.Join(v.Effects), true
		}
	}
	if again {
		classify.JudgeInto(&j.verdicts, &j.run) // the verdicts on the requests and tools stay as they are
	}
}

// mostCareful finds, for each logical call of several attempts, the failed attempt that is the least safe to repeat.
func mostCareful(s []relation, verdicts []*classify.Diagnosis) map[int]int {
	var worst map[int]int
	for i, d := range verdicts {
		if d == nil || len(s[i].attempts) > 0 {
			continue
		}
		for at, n := i, 0; s[at].attempt && n < maxDepth; n++ {
			at = s[at].above
			if w, ok := worst[at]; ok && d.Retry.Safety <= verdicts[w].Retry.Safety {
				continue
			}
			if worst == nil {
				worst = make(map[int]int)
			}
			worst[at] = i
		}
	}
	return worst
}

// maxJudgedAgain bounds how often the attempts of a release are judged together, on average: calls may be within calls.
const maxJudgedAgain = 8

// judgeAttempts judges the attempts of a logical call together: repeating the call repeats all of them. Room is the number
// of attempts that there is still time for; beyond that some are missing, and the verdict is on a partial run.
func (j *Judge) judgeAttempts(members []trace.Member, call int, room *int) *classify.Diagnosis {
	run := classify.Run{Ended: classify.Yes}
	var attempts []int
	calls := []int{call}
	for n := 0; n < len(calls); n++ {
		if j.relations[calls[n]].lacks {
			run.Inner = run.Inner.Join(effectsShown(&members[calls[n]]))
		}
		for _, at := range j.relations[calls[n]].attempts {
			if *room--; *room < 0 {
				run.Partial, run.Doubts = true, append(run.Doubts, trace.TooMany.Names()...)
				break
			}
			if len(j.relations[at].attempts) > 0 {
				calls = append(calls, at)
			} else {
				attempts = append(attempts, at)
			}
		}
	}
	slices.SortFunc(attempts, func(a, b int) int { return compareStarts(&members[a], &members[b]) })
	run.Requests = make([]classify.Request, len(attempts))
	for n, at := range attempts {
		members[at].Known.Request(members[at].Span, &run.Requests[n], nil)
	}
	run.AnnouncedRequests, run.AnnouncedTools = classify.Counted(len(run.Requests)), classify.Counted(0)
	span(&run)
	d := classify.Judge(&run).Run
	d.Outcome, d.RecoveredFailures, d.Timeline = semconv.RunOutcomeUnset, 0, nil
	return &d
}

// lastAttempt returns the last attempt of a logical call, or i itself if it has none.
func lastAttempt(members []trace.Member, s []relation, i int) int {
	for range maxDepth {
		attempts := s[i].attempts
		if len(attempts) == 0 {
			break
		}
		i = slices.MaxFunc(attempts, func(a, b int) int { return compareStarts(&members[a], &members[b]) })
	}
	return i
}
