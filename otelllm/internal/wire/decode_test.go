package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	sseType   = "text/event-stream; charset=utf-8"
	jsonType  = "application/json"
	linesType = "application/x-ndjson"
	awsType   = "application/vnd.amazon.eventstream"
)

// decode feeds body in chunks that end at the given offsets, and overwrites each after its
// Write, so that bytes that a decoder retains show.
func decode(p Protocol, contentType, body string, cuts ...int) *State {
	d := p.NewDecoder(contentType)
	at := 0
	for _, cut := range append(cuts, len(body)) {
		chunk := []byte(body[at:cut])
		d.Write(chunk)
		for i := range chunk {
			chunk[i] = '~'
		}
		at = cut
	}
	d.Close()
	return d.State()
}

// decodeCut returns the state of a body that was cut.
func decodeCut(p Protocol, contentType, body string) *State {
	d := p.NewDecoder(contentType)
	d.Write([]byte(body))
	d.Cut(false)
	return d.State()
}

func everyByte(body string) []int {
	cuts := make([]int, len(body))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func randomCuts(r *rand.Rand, n int) []int {
	var cuts []int
	for at := r.IntN(40); at < n; at += r.IntN(40) {
		cuts = append(cuts, at)
	}
	return cuts
}

// started returns the state in which every response begins.
func started() *State {
	return &State{
		Phase:         semconv.PhaseResponseStarted,
		FinishReasons: []string{},
		Usage:         Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1},
	}
}

// decodeTest is a body and the expected state at its end.
type decodeTest struct {
	name string
	ct   string // sseType when empty
	body string
	want func(*State)
}

func runDecodeTests(t *testing.T, p Protocol, tests []decodeTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ct := tt.ct
			if ct == "" {
				ct = sseType
			}
			want := started()
			if tt.want != nil {
				tt.want(want)
			}
			assert.Equal(t, want, decode(p, ct, tt.body), "in one piece")
			assert.Equal(t, want, parsed(p, ct, tt.body), "with every payload parsed")
			assert.Equal(t, want, decode(p, ct, tt.body, everyByte(tt.body)...), "byte by byte")
			r := rand.New(rand.NewPCG(1, uint64(len(tt.body))))
			for range 20 / sample.Every(10) {
				cuts := randomCuts(r, len(tt.body))
				if !assert.Equal(t, want, decode(p, ct, tt.body, cuts...), "cut at %v", cuts) {
					return
				}
			}
		})
	}
}

// data frames payloads without names, as Chat Completions does.
func data(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		fmt.Fprintf(&b, "data: %s\n\n", p)
	}
	return b.String()
}

// named frames payloads with their type as the event name, as Responses and Anthropic do.
func named(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		_, typ, _ := strings.Cut(p, `"type":"`)
		typ, _, _ = strings.Cut(typ, `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", typ, p)
	}
	return b.String()
}

// all combines effects on a state.
func all(effects ...func(*State)) func(*State) {
	return func(s *State) {
		for _, effect := range effects {
			effect(s)
		}
	}
}

func phase(p semconv.Phase) func(*State) { return func(s *State) { s.Phase = p } }
func events(n int) func(*State)          { return func(s *State) { s.Events = n } }
func texts(n int) func(*State)           { return func(s *State) { s.TextChunks = n } }
func thoughts(n int) func(*State)        { return func(s *State) { s.ReasoningChunks = n } }
func keepalives(n int) func(*State)      { return func(s *State) { s.Keepalives = n } }
func providerTools(n int, types ...string) func(*State) {
	return func(s *State) { s.ProviderToolsStarted, s.ProviderTools = n, types }
}
func terminal(s *State) { s.Terminal = true }
func unread(s *State)   { s.Unread = true }
func finished(reasons ...string) func(*State) {
	return func(s *State) { s.FinishReasons = reasons }
}

// ended is the effect of the end of a complete response.
func ended(reasons ...string) func(*State) {
	return all(phase(semconv.PhaseStreamEnd), terminal, finished(reasons...), func(s *State) { s.Complete = true })
}

func response(id, model string) func(*State) {
	return func(s *State) { s.ResponseID, s.Model = id, model }
}

func failed(e Error) func(*State) {
	return func(s *State) { s.Err, s.Terminal = &e, true }
}

// broken are the effects of an object that is not JSON.
func broken(s *State) {
	s.Unread, s.Broken, s.Violation = true, true, semconv.TransportCauseMalformedEvent
}

// spoiled are the effects of another answer within one.
func spoiled(s *State) {
	s.Broken, s.Spliced, s.Violation = true, true, semconv.TransportCauseMalformedEvent
}

func violated(cause semconv.TransportCause) func(*State) {
	return func(s *State) { s.Violation = cause }
}

// calls are the effects of calls in these states: "a" started, "a+" completed, "a!" handed over.
// The name of a call is "f" unless it is given after a slash.
func calls(cs ...string) func(*State) {
	return func(s *State) {
		for _, c := range cs {
			id, name, named := strings.Cut(c, "/")
			if !named {
				name = "f"
				id = strings.TrimRight(c, "+!~")
			}
			made := Call{ID: id, Name: strings.TrimRight(name, "+!~")}
			if strings.Contains(c, "~") {
				s.ToolInputsInvalid++
			}
			s.ToolInputsStarted++
			if strings.ContainsAny(c, "+!") {
				made.Completed = true
				s.ToolInputsCompleted++
			}
			if strings.Contains(c, "!") {
				made.Ready = true
				s.ToolCalls++
			}
			s.Calls = append(s.Calls, made)
		}
	}
}
