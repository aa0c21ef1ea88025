package turn

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/semconv"
)

// told is a sink that writes down what it is given, in short.
type told []string

func (s *told) Request(_ Place, r *Request) {
	*s = append(*s, fmt.Sprintf("request %s %s%s", r.Phase, r.Failure.End, ErrorType(&r.Failure, r.Status)))
}
func (s *told) Tool(_ Place, t *Tool) { *s = append(*s, "tool "+t.Outcome.String()) }
func (s *told) Run(_ Place, r *Run) {
	*s = append(*s, fmt.Sprintf("run %s %d %s", r.EndedBy, r.Requests, r.ErrorType))
}

// tell hands events to a machine, one a time unit.
func tell(m *Machine, from pcommon.Timestamp, events ...agentlog.Event) (s told, taken int) {
	for i, e := range events {
		e.Agent, e.Time, e.Start = m.Agent, from+pcommon.Timestamp(i), from+pcommon.Timestamp(i)
		if m.Handle(&e, &s) {
			taken++
		}
	}
	return s, taken
}

func of(kind agentlog.Kind) agentlog.Event { return agentlog.Event{Kind: kind} }

func part(p agentlog.Part) agentlog.Event { return agentlog.Event{Kind: agentlog.Progress, Part: p} }

func approved(call string) agentlog.Event {
	return agentlog.Event{Kind: agentlog.Decision, CallID: call, ToolName: "sh"}
}

func ran(call string) agentlog.Event {
	return agentlog.Event{Kind: agentlog.Tool, CallID: call, ToolName: "sh", Outcome: semconv.ToolOutcomeSucceeded}
}

var (
	alone  = agentlog.Event{Kind: agentlog.Session, Unattended: true}
	denied = agentlog.Event{Kind: agentlog.Decision, CallID: "d", ToolName: "sh", Rejected: true}
	prompt = of(agentlog.Prompt)
	began  = of(agentlog.Began)
	done   = of(agentlog.Done)
	broken = agentlog.Event{Kind: agentlog.Done, Failure: agentlog.Failure{Failed: true, End: semconv.StreamEndEOF}}
	cut    = agentlog.Event{Kind: agentlog.Cut, Failure: agentlog.Failure{Failed: true, Type: "NO_FINISH_REASON"}}
	worked = agentlog.Event{Kind: agentlog.Tool, Outcome: semconv.ToolOutcomeSucceeded}
)

// What the agent that reports the ends of its requests at once, Codex, leaves to say.
func TestWaitsAndSilence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []agentlog.Event
		told   told
		waits  Waits
		silent told
		stop   string // by what the run is over if the Collector stops
	}{
		{"nothing", nil, nil, ForNothing, nil, ""},
		{"a prompt", []agentlog.Event{prompt}, nil, ForWork, nil, ""},
		{"a request is open", []agentlog.Event{prompt, began, part(agentlog.Text)}, nil, ForWork, told{"request text ", "run unclear 1 "}, "evicted"},
		{"answered", []agentlog.Event{prompt, began, part(agentlog.Text), done}, told{"request stream_end terminal_event"}, ForWork, told{"run unclear 1 "}, "evicted"},
		{
			"answered, and no person is there",
			[]agentlog.Event{alone, prompt, began, part(agentlog.Text), done},
			told{"request stream_end terminal_event"},
			ForAttempt,
			told{"run answer 1 "},
			"answer",
		},
		{
			"a response of which nothing is known may ask for a tool",
			[]agentlog.Event{alone, prompt, began, done},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"text, then an item of which nothing is known",
			[]agentlog.Event{alone, prompt, began, part(agentlog.ItemBegan), part(agentlog.Text), part(agentlog.ItemEnded), part(agentlog.ItemEnded), done},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"items before the text",
			[]agentlog.Event{
				alone, prompt, began, part(agentlog.ItemBegan), part(agentlog.Reasoning), part(agentlog.ItemEnded),
				part(agentlog.ItemBegan), part(agentlog.Text), part(agentlog.ItemEnded), done,
			},
			told{"request stream_end terminal_event"},
			ForAttempt,
			told{"run answer 1 "},
			"answer",
		},
		{
			"a tool runs",
			[]agentlog.Event{alone, prompt, began, done, approved("a")},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"a tool runs that began before the response ended",
			[]agentlog.Event{alone, prompt, began, part(agentlog.Text), approved("a"), done},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"a tool ended before the response did",
			[]agentlog.Event{alone, prompt, began, part(agentlog.Text), approved("a"), ran("a"), done},
			told{"tool succeeded", "request stream_end terminal_event"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"a call was denied",
			[]agentlog.Event{alone, prompt, began, part(agentlog.Text), done, denied},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"tool rejected", "run unclear 1 "},
			"evicted",
		},
		{
			"a tool of a response that broke runs",
			[]agentlog.Event{alone, prompt, began, approved("a"), broken},
			told{"request unknown eofeof"},
			ForWork,
			told{"run unclear 1 "},
			"evicted",
		},
		{
			"the next request has the outputs of all tools",
			[]agentlog.Event{alone, prompt, began, approved("a"), approved("a"), approved("b"), done, ran("a"), began, part(agentlog.Text), done},
			told{"request stream_end terminal_event", "tool succeeded", "request stream_end terminal_event"},
			ForAttempt,
			told{"run answer 2 "},
			"answer",
		},
		{"calls", []agentlog.Event{prompt, began, part(agentlog.InputCompleted), done}, told{"request stream_end terminal_event"}, ForWork, told{"run unclear 1 "}, "evicted"},
		{
			"calls, and no person is there",
			[]agentlog.Event{alone, prompt, began, part(agentlog.InputCompleted), done},
			told{"request stream_end terminal_event"},
			ForWork,
			told{"run idle 1 "},
			"evicted",
		},
		{"broken", []agentlog.Event{prompt, began, broken}, told{"request unknown eofeof"}, ForAttempt, told{"run failure 1 eof"}, "evicted"},
		{"given up", []agentlog.Event{prompt, began, broken, of(agentlog.GaveUp)}, told{"request unknown eofeof"}, ForNothingMore, told{"run failure 1 eof"}, "failure"},
		{
			"an attempt after a failed one has no end",
			[]agentlog.Event{alone, prompt, began, broken, began, part(agentlog.Text)},
			told{"request unknown eofeof"},
			ForWork,
			told{"request text ", "run idle 2 "},
			"evicted",
		},
		{
			"a person may have stopped it",
			[]agentlog.Event{prompt, began, broken, began, part(agentlog.Text)},
			told{"request unknown eofeof"},
			ForWork,
			told{"request text ", "run unclear 2 "},
			"evicted",
		},
		{
			"the attempt before the last one was well",
			[]agentlog.Event{alone, prompt, began, broken, began, done, began},
			told{"request unknown eofeof", "request stream_end terminal_event"},
			ForWork,
			told{"request unknown ", "run unclear 3 "},
			"evicted",
		},
		{"a tool", []agentlog.Event{prompt, began, done, worked}, told{"request stream_end terminal_event", "tool succeeded"}, ForWork, told{"run unclear 1 "}, "evicted"},
		{
			"broken within the input of a call",
			[]agentlog.Event{prompt, began, part(agentlog.InputBegan), broken},
			told{"request tool_input eofeof"},
			ForAttempt,
			told{"run failure 1 eof"},
			"evicted",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Machine{Agent: agentlog.Codex}
			got, _ := tell(&m, 1, tt.events...)
			assert.Equal(t, tt.told, got)
			assert.Equal(t, tt.waits, m.Waits())
			var silent told
			m.Silent(&silent)
			assert.Equal(t, tt.silent, silent)
			assert.Equal(t, ForNothing, m.Waits())

			stopped := Machine{Agent: agentlog.Codex}
			tell(&stopped, 1, tt.events...)
			var last told
			stopped.Stop(semconv.RunEndEvicted, &last)
			if tt.stop == "" {
				assert.Empty(t, last)
			} else {
				assert.Contains(t, last[len(last)-1], "run "+tt.stop+" ")
			}
		})
	}
}

// Gemini CLI says after the end of a request that its answer was not complete.
func TestCutRevokes(t *testing.T) {
	m := Machine{Agent: agentlog.GeminiCLI}
	got, _ := tell(&m, 1, prompt, began, done, cut, began, done)
	assert.Equal(t, told{"request unknown NO_FINISH_REASON"}, got, "the last one may still be revoked")
	got, _ = tell(&m, 10, of(agentlog.Ended))
	assert.Empty(t, got)
	assert.Equal(t, ForNothingMore, m.Waits())
	m.Silent(&got)
	assert.Equal(t, told{"request stream_end terminal_event", "run answer 2 "}, got)
}

// The records of Gemini CLI do not show whether a response asks for a tool, nor that one
// runs. What follows shows that the response was the answer.
func TestWholeResponses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		agent  agentlog.Agent
		later  pcommon.Timestamp // than the response
		events []agentlog.Event
		waits  Waits
		end    string
	}{
		{"silence", agentlog.GeminiCLI, 0, nil, ForWork, "unclear"},
		{"the agent ends", agentlog.GeminiCLI, maxExit, []agentlog.Event{of(agentlog.Ended)}, ForNothingMore, "answer"},
		{"it is stopped, and may have run a tool", agentlog.GeminiCLI, maxExit + 1, []agentlog.Event{of(agentlog.Ended)}, ForNothingMore, "unclear"},
		{"it changes the mode of approval", agentlog.GeminiCLI, 1, []agentlog.Event{of(agentlog.Ended), of(agentlog.GoesOn)}, ForWork, "unclear"},
		{"it ends after a tool", agentlog.GeminiCLI, 1, []agentlog.Event{ran(""), of(agentlog.Ended)}, ForNothingMore, "unclear"},
		{"it goes on", agentlog.GeminiCLI, 1, []agentlog.Event{of(agentlog.Ended), began}, ForWork, "unclear"},
		{"the next prompt", agentlog.GeminiCLI, 1, []agentlog.Event{prompt}, ForWork, "answer"},
		{"the next prompt of Claude Code", agentlog.ClaudeCode, 1, []agentlog.Event{prompt}, ForWork, "answer"},
		{"the next prompt, while a tool runs", agentlog.ClaudeCode, 1, []agentlog.Event{approved("a"), prompt}, ForWork, "unclear"},
		{"Codex takes prompts while a tool runs", agentlog.Codex, 1, []agentlog.Event{prompt}, ForWork, "unclear"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Machine{Agent: tt.agent}
			tell(&m, 1, alone, prompt, began, done)
			got, _ := tell(&m, 4+tt.later, tt.events...)
			assert.Equal(t, tt.waits, m.Waits())
			m.Silent(&got)
			assert.Contains(t, got, fmt.Sprintf("run %s %d ", tt.end, 1+strings.Count(fmt.Sprint(got), "request unknown")))
		})
	}
}

// Of more calls than are remembered nothing is claimed.
func TestManyCalls(t *testing.T) {
	m := Machine{Agent: agentlog.ClaudeCode}
	tell(&m, 1, prompt, began, done)
	before := m.Bytes()
	var events []agentlog.Event
	for i := range maxCalls + 1 {
		events = append(events, approved(strconv.Itoa(i)))
	}
	tell(&m, 10, events...)
	assert.Greater(t, m.Bytes(), before+32*maxCalls)
	assert.Less(t, m.Bytes(), before+100*maxCalls)
	events = nil
	for i := range maxCalls {
		events = append(events, ran(strconv.Itoa(i)))
	}
	tell(&m, 100, events...)
	got, _ := tell(&m, 200, done, prompt)
	assert.Equal(t, "run evicted 2 ", got[len(got)-1])
}

// A turn that went on after it had ended: its parts are of the same run, which is not
// reported again.
func TestGoesOn(t *testing.T) {
	m := Machine{Agent: agentlog.Codex}
	tell(&m, 1, prompt, began, broken)
	var silent told
	m.Silent(&silent)
	got, taken := tell(&m, 10, began, part(agentlog.Text), done)
	assert.Equal(t, 3, taken)
	assert.Equal(t, told{"request stream_end terminal_event"}, got)
	silent = nil
	m.Silent(&silent)
	assert.Empty(t, silent)
	got, _ = tell(&m, 20, prompt, began, part(agentlog.Text), done, prompt)
	assert.Equal(t, told{"request stream_end terminal_event", "run answer 1 "}, got)
}

func TestLost(t *testing.T) {
	m := Machine{Agent: agentlog.Codex}
	tell(&m, 1, prompt, began, broken)
	m.Lost()
	var s told
	m.Silent(&s)
	assert.Equal(t, told{"run evicted 1 "}, s)
}

func TestOfNoTurn(t *testing.T) {
	m := Machine{Agent: agentlog.GeminiCLI}
	_, taken := tell(&m, 1, began, done)
	assert.Zero(t, taken)
	other := done
	other.Turn = "another"
	_, taken = tell(&m, 5, agentlog.Event{Kind: agentlog.Prompt, Turn: "one"}, other)
	assert.Equal(t, 1, taken)
}
