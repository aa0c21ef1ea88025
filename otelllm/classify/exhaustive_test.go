package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

// table is the class table of the design, in the words of the vocabulary. It is the oracle
// for the code.
var table = map[string]struct{ causes, origins string }{
	"watchdog_timeout":   {"connect first_progress idle total unknown", "watchdog"},
	"local_abort":        {"user application shutdown deadline consumer_closed unknown", "local"},
	"history_broken":     {"missing_output missing_call duplicate_call lost_state invalid_signature", "application"},
	"provider_error":     {"rate_limited overloaded quota_exhausted authentication permission not_found invalid_request context_length_exceeded content_policy server_error timeout cancelled unknown unknown_end", "provider gateway"},
	"connection_failed":  {"dns_not_found dns_temporary connect_refused connect_unreachable connect_timeout tls proxy proxy_refused unknown", "transport"},
	"stream_interrupted": {"write_failed closed_before_headers header_timeout body_truncated connection_reset h2_stream_reset h2_goaway connection_lost clean_eof unknown", "transport"},
	"protocol_violation": {"malformed_event unexpected_content_type event_too_long invalid_tool_input", "provider"},
	"output_limited":     {"unknown max_output_tokens content_filter refusal context_window paused", "provider"},
	"empty_completion":   {"swallowed_error no_content reasoning_only", "provider gateway"},
	"tool_failed":        {"panic execution_error timeout interrupted rejected invalid_input incomplete_input", "tool"},
	"tool_output_lost":   {"delivery_failed never_answered omitted_from_retry", "application"},
	"application_error":  {"run_error invalid_url invalid_request", "application"},
	"run_abandoned":      {"missing_end missing_children process_died", "unknown"},
	"unclassified":       {"unknown", "unknown"},
}

func allows(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// withUnset returns the values of an enum and its unset value.
func withUnset[T any](values []T) []T {
	var unset T
	return append([]T{unset}, values...)
}

var (
	facts    = []Fact{NotObserved, No, Yes}
	bases    = []Basis{Inferred, Corroborated, Typed}
	finishAs = []Finish{FinishNotObserved, FinishMissing, FinishNothingDue, FinishOther, FinishUnstated, FinishStop, FinishToolCalls, FinishCompacted, FinishWaiting, FinishLimited, FinishMaxTokens, FinishContentFilter, FinishRefusal, FinishContextWindow, FinishPaused}
)

// numAnswers is the number of the values of an answer.
const numAnswers = int(answerInvalid) + 1

// TestEveryEnding checks the class table over every combination of what it reads, except
// the kind of a broken history and the class of an upstream failure: see TestBrokenHistory
// and TestBehindAGateway.
func TestEveryEnding(t *testing.T) {
	sources, ends := withUnset(semconv.AbortSourceValues()), withUnset(semconv.StreamEndValues())
	watchdogs, kinds, transports := withUnset(semconv.WatchdogKindValues()), withUnset(semconv.ProviderErrorKindValues()), withUnset(semconv.TransportCauseValues())
	// A sample contains every value of each dimension, and every pair of them: the step is a prime
	// that divides the size of none.
	step := sample.Every(607)
	combinations := len(sources) * len(ends) * len(watchdogs) * len(kinds) * len(transports) * len(finishAs) * numAnswers * 3 * 3 * 3
	t.Logf("%d combinations", combinations)

	for _, end := range ends {
		t.Run("end="+end.String(), func(t *testing.T) {
			t.Parallel()
			seen := map[classification]ending{}
			var last classification
			n := 0
			for _, watchdog := range watchdogs {
				for _, abort := range sources {
					for _, kind := range kinds {
						for _, cause := range transports {
							for _, finish := range finishAs {
								for f := range numAnswers * 27 {
									if n++; n%step != 0 {
										continue
									}
									e := ending{
										watchdog: watchdog, abort: abort, end: end, provider: kind, transport: cause, finish: finish,
										answer: answer(f % numAnswers), failed: facts[f/numAnswers%3], upstream: Upstream{Failed: facts[f/numAnswers/3%3]}, connected: facts[f/numAnswers/9],
									}
									c := e.classify()
									if problem := endingProblem(e, c); problem != "" {
										t.Fatalf("%s: %+v gives %+v", problem, e, c)
									}
									if c == last { // most are: the map alone would take longer than the table
										continue
									}
									last = c
									if _, ok := seen[c]; !ok {
										seen[c] = e
									}
								}
							}
						}
					}
				}
			}
			require.Equal(t, combinations/len(ends), n)
			for c, e := range seen {
				if c == (classification{}) {
					continue
				}
				row, ok := table[c.class.String()]
				require.True(t, ok, "%+v gives the class %q, which is not in the table", e, c.class)
				assert.True(t, allows(row.causes, c.cause.String()), "%+v: cause %s of class %s", e, c.cause, c.class)
				assert.True(t, allows(row.origins, c.origin.String()), "%+v: origin %s of class %s", e, c.origin, c.class)
			}
		})
	}
}

// endingProblem checks the invariants of one row and returns "" if they hold. It does not
// use assert because it runs tens of millions of times.
func endingProblem(e ending, c classification) string {
	switch {
	case e.abort != 0 && e.abort != semconv.AbortSourceWatchdog && e.watchdog == 0 && e.end != semconv.StreamEndWatchdog && c.origin != semconv.OriginLocal:
		return "a local abort is blamed on another party"
	case e.watchdog != 0 && c.class != semconv.ClassWatchdogTimeout:
		return "a watchdog that fired is not the class"
	case e.abort == semconv.AbortSourceWatchdog && c.class != semconv.ClassWatchdogTimeout:
		return "the application's own watchdog is not the class"
	case (e.transport == semconv.TransportCauseInvalidURL || e.transport == semconv.TransportCauseInvalidRequest) &&
		(c.origin == semconv.OriginTransport || c.class == semconv.ClassConnectionFailed):
		return "the caller's own fault is blamed on the network"
	case c.class == semconv.ClassEmptyCompletion && (e.finish == FinishNothingDue || e.finish == FinishCompacted || e.finish == FinishWaiting):
		return "empty although no output was due"
	case c.class == 0 && e.failed == Yes:
		return "a failure without a class"
	case c.class == 0 && (e.provider != 0 || e.transport != 0):
		return "an error without a class"
	case c.class == 0 && e.end != semconv.StreamEndTerminalEvent && e.end != semconv.StreamEndUnset:
		return "an end that is not one passes as success"
	case c.class == 0 && e.succeeded() && e.finish == FinishMissing && e.failed != No:
		return "a missing finish reason passes as success"
	case c.class == 0 && e.finish.limited() != 0 && e.complete():
		return "a limit passes as success"
	case c.class == 0 && e.complete() && e.finish == FinishOther:
		return "an end that is not known to be good passes as success"
	case c.class == 0 && e.complete() && e.answer == answerInvalid:
		return "a call that cannot be read passes as success"
	case c.class == semconv.ClassProviderError && e.provider == 0 && e.end != semconv.StreamEndHTTPError && c.cause != semconv.CauseUnknownEnd:
		return "the provider is blamed without a word from it"
	case c.class == semconv.ClassEmptyCompletion && e.answer != answerNone && e.answer != answerReasoning:
		return "empty without having looked"
	case c.cause == semconv.CauseSwallowedError && e.upstream.Failed != Yes:
		return "swallowed error without an upstream failure"
	case c.class != 0 && (c.cause == 0 || c.origin == 0):
		return "a class without cause or origin"
	default:
		return ""
	}
}

// The dimensions of a risk, for one class and cause. Their product is every combination
// that the guards can read.
const (
	dimBasis = iota
	dimPartsMissing
	dimExtra // permanence of a TLS failure; repetition of a protocol violation
	dimAbort
	dimText
	dimCalls
	dimStarted
	dimProvider
	dimMissing
	dimContinues
	dimSent // this one and the following are read only for the reason of a safe retry
	dimReasoning
	dimToolInput
	dims
)

var dimSize = [dims]int{3, 2, 3, 8, 3, 3, 16, 4, 3, 2, 3, 3, 3}

func riskAt(class semconv.Class, cause semconv.Cause, x *[dims]int) risk {
	k := risk{
		class: class, cause: cause, basis: bases[x[dimBasis]], partsMissing: x[dimPartsMissing] == 1,
		abort: semconv.AbortSource(x[dimAbort]), sent: facts[x[dimSent]], reasoning: facts[x[dimReasoning]],
		text: facts[x[dimText]], toolInput: facts[x[dimToolInput]], calls: callState(x[dimCalls]),
		started:       effects(x[dimStarted] << semconv.ToolEffectReadOnly),
		providerTools: providerTools(x[dimProvider]), missingOutput: facts[x[dimMissing]], continues: x[dimContinues] == 1,
	}
	if class == semconv.ClassProtocolViolation {
		k.repeated = x[dimExtra] > 0
	} else {
		k.permanent = facts[x[dimExtra]]
	}
	return k
}

// TestEveryRisk checks the guards over every class and cause of the table and every
// combination of the facts that they read. It compares the safety of each combination with
// that of every neighbor that has one more side effect or one observation less: the
// neighbor's must not be safer.
func TestEveryRisk(t *testing.T) {
	for i, e := range []semconv.ToolEffect{semconv.ToolEffectReadOnly, semconv.ToolEffectIdempotent, semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown} {
		require.Equal(t, effects(1<<i<<semconv.ToolEffectReadOnly), effects(1<<e), "the set of effects is laid out as the test takes it")
	}
	require.Len(t, withUnset(semconv.AbortSourceValues()), dimSize[dimAbort])

	pairs, total := 0, 0
	for _, class := range semconv.ClassValues() {
		row, ok := table[class.String()]
		require.True(t, ok, "class %s is missing from the table", class)
		for word := range strings.FieldsSeq(row.causes) {
			cause, ok := semconv.ParseCause(word)
			require.True(t, ok, word)
			size := dimSize
			if cause != semconv.CauseTLS && class != semconv.ClassProtocolViolation {
				size[dimExtra] = 1 // no other cause reads it
			}
			n := 1
			for _, s := range size {
				n *= s
			}
			pairs++
			total += n
			t.Run(class.String()+"/"+word, func(t *testing.T) {
				t.Parallel()
				everyRisk(t, class, cause, size, n)
			})
		}
	}
	t.Logf("%d pairs of class and cause, %d combinations", pairs, total)
}

func everyRisk(t *testing.T, class semconv.Class, cause semconv.Cause, size [dims]int, n int) {
	if step := sample.Every(8009); step > 1 {
		someRisks(t, class, cause, size, n, step)
		return
	}
	safety := make([]semconv.RetrySafety, n/reasonOnly)
	worded := make([]bool, summaryKeys)
	var x [dims]int
	k := new(risk) // one for all: an allocation each would take longer than the guards
	for i := range n {
		*k = riskAt(class, cause, &x)
		s, problem := checkRisk(k, worded)
		switch {
		case problem != "":
			t.Fatalf("%s: %+v", problem, *k)
		case i%reasonOnly == 0:
			safety[i/reasonOnly] = s
		case safety[i/reasonOnly] != s:
			t.Fatalf("what only names the reason changes the safety: %+v is %s", *k, s)
		}
		next(&x, &size, dims)
	}

	var stride [dims]int
	for d, s := dims-1, 1; d >= 0; d-- {
		stride[d] = s
		s *= size[d]
	}
	x = [dims]int{}
	for i := range safety {
		eachWorse(class, &x, func(name string, worse *[dims]int, dim int) {
			if other := safety[i+(worse[dim]-x[dim])*stride[dim]/reasonOnly]; other < safety[i] {
				t.Fatalf("%s makes a retry safer: %+v is %s, %+v is %s", name,
					riskAt(class, cause, &x), safety[i], riskAt(class, cause, worse), other)
			}
		})
		next(&x, &size, dimSent)
	}
}

// someRisks checks a sample of the combinations of [everyRisk] by the same rules, each
// with all of its neighbors.
func someRisks(t *testing.T, class semconv.Class, cause semconv.Cause, size [dims]int, n, step int) {
	worded := make([]bool, summaryKeys)
	for i := 0; i < n; i += step {
		x := combination(i, &size)
		k := riskAt(class, cause, &x)
		s, problem := checkRisk(&k, worded)
		if problem != "" {
			t.Fatalf("%s: %+v", problem, k)
		}
		plain := x
		plain[dimSent], plain[dimReasoning], plain[dimToolInput] = 0, 0, 0
		k = riskAt(class, cause, &plain)
		if other, _ := k.judge(); other != s {
			t.Fatalf("what only names the reason changes the safety: %+v is %s", k, s)
		}
		eachWorse(class, &x, func(name string, worse *[dims]int, _ int) {
			k := riskAt(class, cause, worse)
			if other, _ := k.judge(); other < s {
				t.Fatalf("%s makes a retry safer: %+v is %s, %+v is %s", name, riskAt(class, cause, &x), s, k, other)
			}
		})
	}
}

// combination returns the combination that [next] reaches after i steps.
func combination(i int, size *[dims]int) (x [dims]int) {
	for d := dims - 1; d >= 0; d-- {
		x[d] = i % size[d]
		i /= size[d]
	}
	return x
}

// checkRisk checks one verdict and, if its words are new, its summary. It returns the
// safety and what is wrong, "" for nothing. It takes no testing.T: T.Helper alone takes
// longer than the guards.
func checkRisk(k *risk, worded []bool) (safety semconv.RetrySafety, problem string) {
	s, reason := k.judge()
	if problem := riskProblem(k, s, reason); problem != "" {
		return s, fmt.Sprintf("%s: %s (%s)", problem, s, reason)
	}
	if key := summaryKey(k, s, reason); !worded[key] {
		worded[key] = true
		for _, phase := range semconv.PhaseValues() {
			d := Diagnosis{Class: k.class, Cause: k.cause, Phase: phase, Retry: Retry{Safety: s, Reason: reason}}
			summarize(&d, k)
			if problem := summaryProblem(&d, k); problem != "" {
				return s, fmt.Sprintf("%s: %q", problem, d.Summary)
			}
		}
		return s, requestsProblem(k, s, reason)
	}
	return s, ""
}

// requestsProblem checks how the verdicts on the requests of a run change its own verdict,
// which is s without them.
func requestsProblem(k *risk, s semconv.RetrySafety, reason semconv.RetryReason) string {
	for i, safety := range semconv.RetrySafetyValues() {
		with := *k
		with.requests = Retry{Safety: safety, Reason: semconv.RetryReasonValues()[i]}
		got, why := with.judge()
		want := Retry{Safety: s, Reason: reason}
		if safety > s {
			want = with.requests
		}
		d := Diagnosis{Class: k.class, Cause: k.cause, Retry: Retry{Safety: got, Reason: why}}
		summarize(&d, &with)
		switch problem := summaryProblem(&d, &with); {
		case d.Retry != want:
			return fmt.Sprintf("%s for a request, and %s for the run", safety, got)
		case with.raised() != (safety > s):
			return "whether a request raised it is wrong"
		case problem != "":
			return fmt.Sprintf("%s: %q", problem, d.Summary)
		}
	}
	return ""
}

// eachWorse calls visit for each neighbor of x that is worse, or known less well.
func eachWorse(class semconv.Class, x *[dims]int, visit func(name string, worse *[dims]int, dim int)) {
	worse := *x // one for all steps, as visit makes it escape
	for s := range worseSteps {
		step := &worseSteps[s]
		if step.dim == dimExtra && class != semconv.ClassConnectionFailed {
			continue
		}
		if to, ok := step.to(x[step.dim]); ok {
			worse[step.dim] = to
			visit(step.name, &worse, step.dim)
			worse[step.dim] = x[step.dim]
		}
	}
}

// reasonOnly is the number of combinations of the last dimensions, which may change the
// reason of a safe retry but never the safety.
const reasonOnly = 3 * 3 * 3

// next advances x to the next combination of its first n dimensions.
func next(x, size *[dims]int, n int) {
	for d := n - 1; d >= 0; d-- {
		if x[d]++; x[d] < size[d] {
			return
		}
		x[d] = 0
	}
}

// worseSteps are the single steps by which a situation gets worse, or is known less well.
var worseSteps = []struct {
	name string
	dim  int
	to   func(from int) (int, bool)
}{
	{"a weaker basis", dimBasis, func(from int) (int, bool) { return from - 1, from > 0 }},
	{"a part that never arrived", dimPartsMissing, func(from int) (int, bool) { return 1, from == 0 }},
	{"not knowing whether it lasts", dimExtra, func(from int) (int, bool) { return int(NotObserved), from == int(No) }},
	{"an abort", dimAbort, func(from int) (int, bool) { return int(semconv.AbortSourceUser), from == 0 }},
	{"a deadline", dimAbort, func(from int) (int, bool) { return int(semconv.AbortSourceDeadline), from == 0 }},
	{"text", dimText, func(from int) (int, bool) { return int(Yes), from == int(No) }},
	{"not knowing about text", dimText, func(from int) (int, bool) { return int(NotObserved), from != int(NotObserved) }},
	{"calls", dimCalls, func(from int) (int, bool) { return from + 1, from < int(callsUnknown) }},
	{"a read-only tool", dimStarted, func(from int) (int, bool) { return from | 1, from&1 == 0 }},
	{"an idempotent tool", dimStarted, func(from int) (int, bool) { return from | 2, from&2 == 0 }},
	{"a non-idempotent tool", dimStarted, func(from int) (int, bool) { return from | 4, from&4 == 0 }},
	{"a tool of unknown effect", dimStarted, func(from int) (int, bool) { return from | 8, from&8 == 0 }},
	{"not knowing the effect of a read-only tool", dimStarted, func(from int) (int, bool) { return from&^1 | 8, from&1 != 0 }},
	{"not knowing the effect of an idempotent tool", dimStarted, func(from int) (int, bool) { return from&^2 | 8, from&2 != 0 }},
	{"not knowing the effect of a non-idempotent tool", dimStarted, func(from int) (int, bool) { return from&^4 | 8, from&4 != 0 }},
	{"provider tools", dimProvider, func(from int) (int, bool) { return int(providerToolsBegan), from == int(providerToolsNone) }},
	{"not knowing about provider tools", dimProvider, func(from int) (int, bool) {
		return int(providerToolsUnknown), from != int(providerToolsUnknown)
	}},
	{"a missing output", dimMissing, func(from int) (int, bool) { return int(Yes), from == int(No) }},
	{"a provider that goes on", dimContinues, func(from int) (int, bool) { return 1, from == 0 }},
	{"not knowing about outputs", dimMissing, func(from int) (int, bool) { return int(NotObserved), from != int(NotObserved) }},
}

func riskProblem(k *risk, s semconv.RetrySafety, reason semconv.RetryReason) string {
	switch {
	case s == 0 || reason == 0:
		return "no verdict"
	case s != SafeAutoRetry:
		return ""
	case k.text != No:
		return "safe although text was or may have been shown"
	case k.started.has(semconv.ToolEffectNonIdempotent) || k.started.has(semconv.ToolEffectUnknown):
		return "safe in spite of an unaccounted effect"
	case k.calls == callsUnknown || k.providerTools != providerToolsNone || k.missingOutput != No || k.partsMissing:
		return "safe although not everything was observed"
	case k.continues:
		return "safe although the provider goes on"
	case k.confidence() == semconv.ConfidenceLow:
		return "safe at low confidence"
	case k.abort == semconv.AbortSourceUser || k.abort == semconv.AbortSourceShutdown || k.abort == semconv.AbortSourceApplication || k.abort == semconv.AbortSourceDeadline:
		return "safe after an abort"
	default:
		return ""
	}
}

// summaryKeys bounds the result of [summaryKey].
const summaryKeys = 4 * 32 * 3 * 4 * 16 * 3 * 3 * 2 * 2 * 2

// summaryKey numbers everything that the words of a summary depend on, besides class,
// cause and phase.
func summaryKey(k *risk, s semconv.RetrySafety, reason semconv.RetryReason) int {
	bit := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	key := int(s)
	key = key*32 + int(reason)
	key = key*3 + int(k.calls)
	key = key*4 + int(k.providerTools)
	key = key*16 + int(k.started>>semconv.ToolEffectReadOnly)
	key = key*3 + int(k.text)
	key = key*3 + int(k.toolInput)
	key = key*2 + bit(k.sent == No)
	key = key*2 + bit(k.continues)
	return key*2 + bit(k.observed())
}

func summaryProblem(d *Diagnosis, k *risk) string {
	s := d.Summary
	switch {
	case s == "" || len(s) > 512:
		return fmt.Sprintf("a summary of %d bytes", len(s))
	case strings.Contains(s, adviceSafe) != (d.Retry.Safety == SafeAutoRetry):
		return "summary and safety contradict each other"
	case strings.Contains(s, adviceAsk) != (d.Retry.Safety == UserConfirmedRetry):
		return "summary and safety contradict each other"
	case d.SummaryKey == semconv.SummaryKeyToolNotRun && (k.calls == callsUnknown || k.started.has(semconv.ToolEffectNonIdempotent) || k.started.has(semconv.ToolEffectUnknown)):
		return "the summary denies a tool that may have run"
	case (d.SummaryKey == semconv.SummaryKeyToolWithEffectsRan || d.SummaryKey == semconv.SummaryKeyToolOfUnknownEffectRan) && k.started == 0:
		return "the summary names a tool that did not run"
	case strings.HasPrefix(s, textProviderError) != (d.Class == semconv.ClassProviderError && d.Cause != semconv.CauseUnknownEnd):
		return "the summary blames the provider wrongly"
	case d.SummaryKey == semconv.SummaryKeyUnset:
		return "a summary without a key"
	case strings.HasPrefix(s, toolNamed("A", "")+" failed") != (d.Class == semconv.ClassToolFailed):
		return "the summary blames a tool wrongly"
	case d.SummaryKey == semconv.SummaryKeyNothingShown && k.text != No:
		return "the summary denies text that may have been shown"
	case d.SummaryKey == semconv.SummaryKeyNothingSent && k.sent != No:
		return "the summary denies what was sent"
	default:
		return ""
	}
}
