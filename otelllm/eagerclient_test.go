package otelllm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// A program may execute a call as soon as its input is one JSON value, long before the
// provider says that the call, or the answer, is complete. A cut after that must not be called
// safe to repeat, nor may the facts say that no input was complete.

// checkEager compares the verdict on a prefix of an answer with what the reference client has
// executed of it. It reports what both say.
func (c *cutter) checkEager(tb testing.TB, f *faults, w *wireStream, n int, end way) (executed int, safe bool) {
	tb.Helper()
	text := w.text()
	client := executedOf(w.name, []byte(text[:n]), end.name == endsClean.name)
	if !client.opened {
		return 0, false
	}
	facts := c.facts(tb, w.path, w.request, w.contentType, text[:n], end)
	facts.ProviderTools, facts.HistoryCalls, facts.HistoryOutputs = []string{}, []string{}, []string{}
	run := classify.Run{Requests: []classify.Request{facts}}
	v := classify.Judge(&run)
	safe = v.Run.Retry.Safety == classify.SafeAutoRetry || v.Requests[0].Retry.Safety == classify.SafeAutoRetry
	if client.executed == 0 {
		return 0, safe
	}
	example := fmt.Sprintf("%d bytes (%s): %d executed\n\t\t%s", n, end.name, client.executed, around(text, n))
	if safe {
		f.add("safe to repeat after an executed call: "+brief(&v.Run), w.name, example)
	}
	if seen := facts.ToolInputsCompleted; seen.Observed() && seen.N() == 0 && !facts.Unread {
		f.add("an executed call has no complete input", w.name, example)
	}
	return client.executed, safe
}

var eagerEnds = []way{endsClean, endsReset, endsTruncated}

// TestEagerClient cuts random answers of every kind at every byte: a few, or many with
// OTELLLM_EVERY_CUT.
func TestEagerClient(t *testing.T) {
	answers := 3
	if everyCut() {
		answers = 400
	}
	c := newCutter()
	for i, kind := range eagerKinds() {
		t.Run(kind.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			var f faults
			executed, safe := 0, 0
			for range answers {
				w := eagerAnswer(t, &kind, r)
				text := w.text()
				for n := 0; n <= len(text); n += sample.Every(41) {
					// In turns, as the ends differ in little.
					end := eagerEnds[r.IntN(len(eagerEnds))]
					ran, allowed := c.checkEager(t, &f, &w, n, end)
					executed, safe = executed+b2i(ran > 0), safe+b2i(allowed)
				}
			}
			f.report(t)
			if sample.Only() {
				return
			}
			assert.Positive(t, executed, "the check is empty")
			if hasPieces(kind.name) {
				assert.Greater(t, safe, answers, "while the input of a call is open, nothing has run")
			}
		})
	}
}

// TestEagerClientOfStreams cuts the project's own answers, framed correctly and not, and the
// recorded ones, in every way: at some of their bytes, or at each with OTELLLM_EVERY_CUT. Of a cut
// at which the reference client has executed nothing, nothing is to be checked.
func TestEagerClientOfStreams(t *testing.T) {
	for _, group := range []struct {
		name    string
		answers []wireStream
		most    int // cuts of one answer
	}{
		{"own", slices.Concat(ownAnswers(t), oddAnswers(t)), 200},
		{"sloppy", sloppyAnswers(t), 40},
		{"generated", generatedAnswers(t), 40},
		{"recorded", recordedAnswers(t), 80},
	} {
		t.Run(group.name, func(t *testing.T) {
			c := newCutter()
			var f faults
			cuts, executed := 0, map[string]int{}
			for i := 0; i < len(group.answers); i += sample.Every(4) {
				w := group.answers[i]
				stream, text := w.name, w.text()
				w.name = eagerKindOf(t, &w)
				var ran [2]int // executed by clients that see the body break, and end
				last := -1
				for _, n := range cutsOf(stream, text, group.most/sample.Every(8)) {
					if cuts++; n != last+1 || w.mayExecute(text, n) {
						ran[0] = executedOf(w.name, []byte(text[:n]), false).executed
						ran[1] = executedOf(w.name, []byte(text[:n]), true).executed
					}
					last = n
					for _, end := range eagerEnds {
						if ran[b2i(end.name == endsClean.name)] > 0 {
							c.checkEager(t, &f, &w, n, end)
							executed[w.name]++
						}
					}
				}
			}
			f.report(t)
			t.Logf("%d answers, %d cuts; with an executed call: %v", len(group.answers), cuts, executed)
			if len(group.answers) > 0 {
				assert.NotEmpty(t, executed)
			}
		})
	}
}

// mayExecute reports whether a client may do at a cut what it did not do a byte before: an event or
// a value ends there.
func (w *wireStream) mayExecute(text string, n int) bool {
	if w.contentType != awsType {
		return n == 0 || strings.ContainsRune("\r\n}]", rune(text[n-1]))
	}
	for _, event := range w.events {
		if n -= len(event); n <= 0 {
			break
		}
	}
	return n == 0
}

// eagerKindOf returns the kind of an answer.
func eagerKindOf(tb testing.TB, w *wireStream) string {
	tb.Helper()
	for _, kind := range eagerKinds() {
		if kind.path == w.path && kind.contentType == w.contentType {
			return kind.name
		}
	}
	if w.path != generatePath { // it has no calls
		tb.Fatalf("no eager client reads %s of %s", w.contentType, w.path)
	}
	return "ollama generate"
}

// hasPieces reports whether the input of a call comes in pieces.
func hasPieces(kind string) bool {
	return slices.Contains([]string{"chat", "responses", "messages", "bedrock", "bedrock invoke", "cohere", "mistral", "interactions"}, kind)
}

// FuzzEagerClient cuts any bytes at one place.
func FuzzEagerClient(f *testing.F) {
	kinds := eagerKinds()
	r := rand.New(rand.NewPCG(7, 7))
	for i := range kinds {
		for range 3 {
			w := eagerAnswer(f, &kinds[i], r)
			text := w.text()
			f.Add(uint8(i), []byte(text), uint32(r.IntN(len(text)+1)))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, cut uint32) {
		if len(body) > 16<<10 {
			return
		}
		w := kinds[int(kind)%len(kinds)]
		w.events = []string{string(body)}
		var wrong faults
		c := newCutter()
		for _, end := range eagerEnds {
			c.checkEager(t, &wrong, &w, int(cut)%(len(body)+1), end)
		}
		wrong.report(t)
	})
}
