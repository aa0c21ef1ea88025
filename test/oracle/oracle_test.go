package main

import (
	"bytes"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // genai logs what ends a stream
	os.Exit(m.Run())
}

// TestSample runs a sample of the cases of `make oracle`: every client over every stream, cut
// at the most important places and at some others.
func TestSample(t *testing.T) {
	requireNothingFound(t, sample(generated(1), 4))
}

func TestSampleOfRecordedStreams(t *testing.T) {
	dir := os.Getenv("OTELLLM_FIXTURES")
	if dir == "" {
		t.Skip("OTELLLM_FIXTURES names no folder of recorded streams")
	}
	streams, err := recorded(dir)
	require.NoError(t, err)
	requireNothingFound(t, sample(streams, 4))
}

func requireNothingFound(t *testing.T, cases []testCase) {
	t.Helper()
	rep := newReport(3)
	require.NoError(t, runAll(t.Context(), cases, 2*runtime.GOMAXPROCS(0), rep.add))
	if rep.failed() {
		var out strings.Builder
		rep.print(&out)
		t.Error("\n" + out.String())
	}
}

// sample returns n cases of each stream and client, always the same. Half of the cuts are
// directly after the data of an event, where clients differ.
func sample(streams []stream, n int) (cases []testCase) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range streams {
		s := &streams[i]
		for _, c := range clients() {
			if !c.reads(s) {
				continue
			}
			for j := range n {
				cut := r.IntN(len(s.body) + 1)
				if j%2 == 0 {
					cut = min(len(s.body), s.marks[r.IntN(len(s.marks))].dataEnd+r.IntN(3))
				}
				cases = append(cases, testCase{c.name, s, cut, end(r.IntN(int(ends)))})
			}
		}
	}
	return cases
}

// plain returns the stream of a shape, framed correctly.
func plain(w wire, s shape) *stream {
	r := rand.New(rand.NewPCG(1, 1))
	made := w.build(w.String()+"/"+s.name, w.framings()[0], w.generate(s, r), r)
	return &made
}

func openRig(tb testing.TB) *rig {
	tb.Helper()
	r, err := newRig(clients())
	require.NoError(tb, err)
	tb.Cleanup(r.close)
	return r
}

// An oracle that misses what a client delivers would find nothing.
func TestCompleteAnswers(t *testing.T) {
	r := openRig(t)
	for _, c := range clients() {
		for _, s := range c.wire.shapes() {
			whole := plain(c.wire, s)
			if s.fails || s.refusal || !c.reads(whole) {
				continue
			}
			t.Run(c.name+"/"+s.name, func(t *testing.T) {
				require.True(t, whole.final(len(whole.body)))
				require.False(t, whole.final(len(whole.body)/3))
				for e := range ends {
					res := r.run(t.Context(), &testCase{c.name, whole, len(whole.body), e})
					d := &res.delivery
					assert.Equal(t, s.text, d.text > 0, "%s: %s", e, d)
					assert.Equal(t, s.reasoning, d.reasoning > 0, "%s: %s", e, d)
					if c.name == "langchaingo" && d.err != nil {
						continue // of a failed answer it delivers calls only as text
					}
					if c.name == "eino" && s.legacy {
						continue // it does not know them
					}
					assert.Equal(t, s.calls, d.started, "%s: %s", e, d)
					assert.Equal(t, s.calls, d.complete, "%s: %s", e, d)
					assert.Equal(t, s.calls, d.handed, "%s: %s", e, d)
					if c.name != "langchaingo" || !s.interleaved { // it mixes their inputs up
						assert.Equal(t, s.calls, d.ran, "%s: %s", e, d)
					}
					if d.err == nil {
						assert.True(t, d.finished, "%s: %s", e, d)
					}
					assert.NotEmpty(t, d.finish, "%s: %s", e, d)
				}
			})
		}
		t.Run(c.name+"/error", func(t *testing.T) {
			broken := plain(c.wire, shape{name: "error", text: true, fails: true})
			require.True(t, broken.failed(len(broken.body)))
			require.False(t, broken.failed(broken.marks[0].end))
			res := r.run(t.Context(), &testCase{c.name, broken, len(broken.body), endClean})
			assert.False(t, res.delivery.whole(), "%s", &res.delivery)
			assert.True(t, res.truth.failed)
		})
	}
}

// A reset comes after the client has read everything that was sent: it delivers at least as
// much as after a FIN.
func TestResetDeliversAsMuchAsFIN(t *testing.T) {
	r := openRig(t)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			s := plain(c.wire, shape{name: "all", reasoning: true, text: true, calls: 2})
			for cut := 0; cut <= len(s.body); cut += 29 {
				fin := r.run(t.Context(), &testCase{c.name, s, cut, endFIN})
				rst := r.run(t.Context(), &testCase{c.name, s, cut, endRST})
				a, b := fin.delivery, rst.delivery
				if (a.err == nil) != (b.err == nil) { // Bedrock's client treats the end of the connection as the end of the answer
					a.ran, b.ran, a.bare, b.bare = 0, 0, 0, 0
				}
				a.err, b.err = nil, nil
				assert.Equal(t, a, b, "cut at %d", cut)
				if cut < len(s.body)/2 && c.name != "ollama" { // ollama ignores read errors
					assert.Error(t, rst.delivery.err, "cut at %d", cut)
				}
			}
		})
	}
}

// A wrong fact or verdict is found, with every client.
func TestWrongFactsAreFound(t *testing.T) {
	all := shape{name: "all", reasoning: true, text: true, calls: 1}
	safe := func(r recording) {
		r[semconv.FailureClassKey] = attribute.StringValue(semconv.ClassStreamInterrupted.String())
		r[semconv.RetrySafetyKey] = attribute.StringValue(semconv.RetrySafetySafeAutoRetry.String())
	}
	zero := func(key attribute.Key) func(recording) {
		return func(r recording) { r[key] = attribute.Int64Value(0) }
	}
	class := func(class semconv.Class) func(recording) {
		return func(r recording) { r[semconv.FailureClassKey] = attribute.StringValue(class.String()) }
	}
	whole := func(s *stream) int { return len(s.body) }
	// Between the end of the first event and the end of the second, nothing is complete.
	early := func(s *stream) int { return s.marks[0].end + 1 }
	// After the event that has all of a call's input.
	called := func(s *stream) int {
		at := slices.IndexFunc(s.marks, func(m mark) bool { return bytes.Contains(s.body[m.data:m.dataEnd], []byte("path")) })
		return s.marks[at].end
	}
	rig := openRig(t)
	for _, tt := range []struct {
		name  string
		shape shape
		cut   func(s *stream) int
		lie   func(recording)
		want  kind
	}{
		{"no text", all, whole, zero(semconv.StreamTextChunksKey), noText},
		{"no reasoning", all, whole, zero(semconv.StreamReasoningChunksKey), noReasoning},
		{"no tool input", all, whole, zero(semconv.StreamToolInputsStartedKey), noInput},
		{"no input complete", all, whole, zero(semconv.StreamToolInputsCompletedKey), noComplete},
		{"no call", all, whole, zero(semconv.StreamToolCallsKey), noCall},
		{"safe after text", shape{name: "text", text: true}, whole, safe, unsafeRetry},
		{"safe after a call", shape{name: "call", calls: 1}, whole, safe, unsafeRetry},
		{"safe after a call that a program executes before its end", shape{name: "call", calls: 1, whole: true}, called, safe, unsafeRetry},
		{"no such call", shape{name: "call", calls: 1, whole: true}, called, zero(semconv.StreamToolInputsCompletedKey), noComplete},
		{"a whole answer interrupted", all, whole, class(semconv.ClassStreamInterrupted), falseAlarm},
		{"a whole answer no protocol", all, whole, class(semconv.ClassProtocolViolation), falseAlarm},
		{"a whole answer aborted", all, whole, class(semconv.ClassLocalAbort), falseAlarm},
		{"a whole answer empty", all, whole, class(semconv.ClassEmptyCompletion), falseAlarm},
		{"a whole answer refused by the provider", all, whole, class(semconv.ClassProviderError), falseAlarm},
		{"a whole answer at a limit", all, whole, class(semconv.ClassOutputLimited), falseAlarm},
		{"a cut answer whole", all, early, func(r recording) {
			delete(r, semconv.FailureClassKey)
			delete(r, semconv.RetrySafetyKey)
			r[semconv.StreamEndKey] = attribute.StringValue(semconv.StreamEndTerminalEvent.String())
		}, falseSuccess},
	} {
		for _, c := range clients() {
			t.Run(tt.name+"/"+c.name, func(t *testing.T) {
				s := plain(c.wire, tt.shape)
				res := rig.run(t.Context(), &testCase{c.name, s, tt.cut(s), endClean})
				require.Empty(t, res.findings, "%s", &res.delivery)
				tt.lie(res.recording)
				assert.Contains(t, kindsOf(judge(&res.delivery, res.recording, res.truth)), tt.want, "%s", &res.delivery)
			})
		}
	}
}

func kindsOf(found []finding) (kinds []kind) {
	for _, f := range found {
		kinds = append(kinds, f.kind)
	}
	return kinds
}

// A missing fact was not observed and denies nothing.
func TestAbsentFactsDenyNothing(t *testing.T) {
	d := &delivery{text: 1, reasoning: 1, started: 1, complete: 1, handed: 1, ran: 1, provider: 1, finish: "stop", finished: true}
	assert.Empty(t, judge(d, recording{}, truth{final: true}))
}

// A fault of the client alone is a note and does not fail a run.
func TestNotesDoNotFail(t *testing.T) {
	c := &testCase{"genai", &stream{name: "s"}, 0, endClean}
	rep := newReport(1)
	rep.add(c, &result{findings: []finding{{unheardEnd, ""}}})
	assert.False(t, rep.failed())
	rep.add(c, &result{findings: []finding{{noText, ""}}})
	assert.True(t, rep.failed())
	assert.Equal(t, []kind{noText, unheardEnd}, rep.kinds(), "failures first")
	assert.Equal(t, 2, rep.total())
}

// A long stream is cut at every byte of its new parts, and a short one at every byte.
func TestUsefulCuts(t *testing.T) {
	short := plain(chatWire, shape{name: "text", text: true})
	assert.Equal(t, short.every(), short.usefulCuts())
	long := &builder{stream: stream{wire: chatWire}}
	for range 100 {
		sse(long, event{data: `{"choices":[{"index":0,"delta":{"content":"abcdefghijklmnopqrstuvwxyz"},"finish_reason":null}]}`})
		long.marks[len(long.marks)-1].shape = "text"
	}
	long.body = long.out.Bytes()
	cuts := long.usefulCuts()
	assert.Less(t, len(cuts), len(long.body)/10)
	for _, at := range long.every()[:long.marks[alike-1].end] {
		assert.Contains(t, cuts, at)
	}
	assert.Contains(t, cuts, len(long.body))
}
