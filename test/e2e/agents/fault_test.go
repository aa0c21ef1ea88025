//go:build unix

package agents

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// fault is what the server does to the requests of an agent's main loop.
type fault struct {
	name string
	// answer returns the server's reaction to request n, from 0 on. Outputs says whether the
	// request has the output of a tool.
	answer func(s *script, n int, outputs bool) faultyllm.Exchange
	heals  bool // the last request is answered
	once   bool // only the first request fails: it heals if the agent asks again
	// classes and causes are what the verdict on a request that fails may be, and that on the run if it does not heal, or the
	// agent does not ask again. Every one of them is true of what the server did. Without classes nothing fails.
	classes []semconv.Class
	causes  []semconv.Cause
	vague   []semconv.Cause // true, too, and less exact
	shows   bool            // text is visible before it breaks
	races   bool            // whether an agent's tool runs before the agent stops it depends on its speed
	short   bool            // played with -short, too
	gzip    bool            // the answers are compressed, if the agent asks for that
	unasked bool            // or does not: then it cannot read them
	asJSON  bool            // the first answer is a document, although a stream was asked for
	wires   []faultyllm.Wire
	agents  []string // nil: all
	most    int      // requests that it may take; 0: as many as the agent's endless
	stop    *stop    // a signal that the agent gets
	decides bool     // whether the answer is one, or broke, is for the agent to say: by its exit status
}

// stop is a signal that an agent gets while its tool runs, or while text arrives.
type stop struct {
	signal syscall.Signal // SIGINT comes from the terminal, to all of its processes; SIGKILL to all but otelllm itself
	inTool bool
}

// healed reports whether the agent got an answer to its last request, and could read it.
func (f *fault) healed(w went) bool {
	return f.heals && !w.unread && (!f.once || w.main > 1) && (!f.decides || w.exit == 0)
}

// of is the fault as it is seen of an agent. `otelllm proxy` does not see how its client ended: one that was killed has gone,
// and one that was redirected may have found an answer elsewhere.
func (f *fault) of(a *agent) *fault {
	if !a.settings {
		return f
	}
	seen := *f
	switch {
	case f.stop != nil && f.stop.signal == syscall.SIGKILL:
		seen.classes = append(slices.Clone(f.classes), semconv.ClassLocalAbort)
		seen.vague = append(slices.Clone(f.vague), semconv.CauseConsumerClosed, semconv.CauseShutdown)
	case f.name == "redirect":
		seen.decides = true
	}
	return &seen
}

// script is a case in play.
type script struct {
	fault *fault
	agent *agent
	mark  string // a file that the tool's command appends to

	mu      sync.Mutex
	main    int // requests of the main loop
	side    int
	stalled chan struct{} // closed when a stall has begun
	once    sync.Once
	asked   chan struct{} // gets a value when requests have come
	enough  chan struct{} // closed when there were so many that it would go on for ever

	accepted   []string // the Accept-Encoding of the requests of the main loop, each once
	compressed int      // how many of them were answered with a compressed body
}

// toolCommand leaves a line in the file for each time that it runs.
func (s *script) toolCommand() string {
	return "echo canary-output-91c2 >> " + s.mark + "; echo canary-output-91c2"
}

func (s *script) input() string {
	return strings.ReplaceAll(s.agent.input, "COMMAND", s.toolCommand())
}

// longCall is a call of a tool that runs until it is stopped.
func (s *script) longCall() faultyllm.Exchange {
	input := strings.ReplaceAll(s.agent.input, "COMMAND", s.toolCommand()+"; sleep 60")
	return faultyllm.Answer(faultyllm.ToolCall("call_e2e_5Yq8", s.agent.tool, input), faultyllm.Finish(faultyllm.ToolCalls))
}

func (s *script) call() faultyllm.Exchange { return s.callOf("call_e2e_5Yq8") }

func (s *script) callOf(id string) faultyllm.Exchange {
	return faultyllm.Answer(faultyllm.ToolCall(id, s.agent.tool, s.input()), faultyllm.Finish(faultyllm.ToolCalls))
}

func done() faultyllm.Exchange {
	return faultyllm.Answer(faultyllm.Text("canary-answer-22d0 ", "All ", "done."), faultyllm.Finish(faultyllm.Stop))
}

// cut is an answer that breaks in its text. The pause lets clients read what came before.
func cut(steps ...faultyllm.Step) faultyllm.Exchange {
	return faultyllm.Answer(append([]faultyllm.Step{faultyllm.Text("canary-answer-22d0 ", "I will ")}, steps...)...).Unhurried(100 * time.Millisecond)
}

// cutLater is a cut with a longer pause where the client decompresses in another thread, and drops
// what it has not read when the connection breaks.
func cutLater(s *script, fault faultyllm.Step) faultyllm.Exchange {
	if s.agent.bun {
		return cut(faultyllm.Pause(time.Second), fault)
	}
	return cut(fault)
}

// always does the same to every request.
func always(e func(s *script) faultyllm.Exchange) func(*script, int, bool) faultyllm.Exchange {
	return func(s *script, _ int, _ bool) faultyllm.Exchange { return e(s) }
}

// first does it to the first request.
func first(e faultyllm.Exchange) func(*script, int, bool) faultyllm.Exchange {
	return func(_ *script, n int, _ bool) faultyllm.Exchange {
		if n == 0 {
			return e
		}
		return done()
	}
}

func refuse(trouble faultyllm.Trouble) func(*script) faultyllm.Exchange {
	return func(*script) faultyllm.Exchange { return faultyllm.Refuse(faultyllm.Failure{Trouble: trouble}) }
}

func reset() faultyllm.Exchange { return faultyllm.BeforeHeaders(faultyllm.Reset()) }

var (
	interrupted = []semconv.Class{semconv.ClassStreamInterrupted, semconv.ClassConnectionFailed}
	provider    = []semconv.Class{semconv.ClassProviderError}

	// A reset is a connection that closed before the headers where nothing had been received.
	wasReset = []semconv.Cause{semconv.CauseConnectionReset, semconv.CauseClosedBeforeHeaders}
	// A body that just ends was cut short, if its length or its form shows that.
	justEnded = []semconv.Cause{semconv.CauseCleanEOF, semconv.CauseBodyTruncated}
	stopped   = []semconv.Cause{semconv.CauseIdle, semconv.CauseConsumerClosed, semconv.CauseShutdown}
	byPerson  = append([]semconv.Cause{semconv.CauseUser}, stopped...)
	broken    = []semconv.Cause{semconv.CauseServerError}

	// The wire protocols of agents that take any provider.
	open = []faultyllm.Wire{faultyllm.Chat, faultyllm.Responses}
)

var faults = []fault{
	{name: "ok_text", heals: true, answer: always(func(*script) faultyllm.Exchange { return done() })},
	{name: "ok_tool", heals: true, short: true, answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return done()
		}
		return s.call()
	}},
	{name: "reset_headers", classes: interrupted, causes: wasReset, answer: always(func(*script) faultyllm.Exchange { return reset() })},
	{name: "reset_text", classes: interrupted, causes: wasReset, shows: true, answer: always(func(*script) faultyllm.Exchange { return cut(faultyllm.Reset()) })},
	{name: "reset_text_once", heals: true, once: true, classes: interrupted, causes: wasReset, short: true, answer: first(cut(faultyllm.Reset()))},
	{
		name: "reset_tool_input", classes: interrupted, causes: wasReset, wires: []faultyllm.Wire{faultyllm.Chat, faultyllm.Responses, faultyllm.Anthropic},
		answer: always(func(s *script) faultyllm.Exchange {
			return faultyllm.Answer(faultyllm.ToolInput("call_e2e_5Yq8", s.agent.tool, `{"comm`), faultyllm.Reset()).Unhurried(100 * time.Millisecond)
		}),
	},
	{
		// Some clients repair the input, and run the tool with it.
		name: "end_tool_input", heals: true, once: true, classes: interrupted, causes: justEnded, races: true, wires: []faultyllm.Wire{faultyllm.Chat, faultyllm.Responses, faultyllm.Anthropic},
		answer: func(s *script, n int, _ bool) faultyllm.Exchange {
			if n > 0 {
				return done()
			}
			input := s.input()
			return faultyllm.Answer(faultyllm.ToolInput("call_e2e_5Yq8", s.agent.tool, input[:len(input)-2]), faultyllm.CleanEnd()).Unhurried(100 * time.Millisecond)
		},
	},
	{name: "truncated", classes: interrupted, causes: []semconv.Cause{semconv.CauseBodyTruncated}, shows: true, answer: always(func(*script) faultyllm.Exchange { return cut(faultyllm.Truncate()) })},
	{name: "r429_ok", heals: true, once: true, classes: provider, causes: []semconv.Cause{semconv.CauseRateLimited}, answer: first(faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: time.Second}))},
	{name: "r500", classes: provider, causes: broken, answer: always(refuse(faultyllm.ServerError))},
	{name: "overloaded", classes: provider, causes: []semconv.Cause{semconv.CauseOverloaded}, vague: broken, answer: always(refuse(faultyllm.Overloaded))},
	{name: "unauthorized", classes: provider, causes: []semconv.Cause{semconv.CauseAuthentication}, answer: always(refuse(faultyllm.Unauthorized))},
	{name: "inband", classes: provider, causes: broken, shows: true, answer: always(func(*script) faultyllm.Exchange {
		return cut(faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.ServerError}))
	})},
	{name: "done_after_error", classes: provider, causes: broken, shows: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: always(func(*script) faultyllm.Exchange {
		return cut(faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.ServerError}), faultyllm.End())
	})},
	{
		name: "clean_eof", shows: true, answer: always(func(*script) faultyllm.Exchange { return cut(faultyllm.CleanEnd()) }),
		classes: []semconv.Class{semconv.ClassStreamInterrupted, semconv.ClassProtocolViolation, semconv.ClassEmptyCompletion}, causes: justEnded,
	},
	{
		name: "stall", shows: true,
		classes: []semconv.Class{semconv.ClassLocalAbort, semconv.ClassWatchdogTimeout}, causes: stopped,
		answer: always(func(s *script) faultyllm.Exchange { s.stallBegins(); return cut(faultyllm.Stall()) }),
	},
	{name: "call_reset", classes: interrupted, causes: wasReset, races: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: wholeCall(faultyllm.Reset())},
	{name: "call_truncated", classes: interrupted, causes: []semconv.Cause{semconv.CauseBodyTruncated}, races: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: wholeCall(faultyllm.Truncate())},
	{name: "reused_ids", heals: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: func(s *script, n int, _ bool) faultyllm.Exchange {
		if n == 2 {
			return done()
		}
		return s.callOf("functions." + s.agent.tool + ":0") // as some servers number the calls of each answer
	}},
	{name: "gzip_ok", heals: true, gzip: true, wires: open, answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return done().Compressed(faultyllm.Gzip)
		}
		return s.call().Compressed(faultyllm.Gzip)
	}},
	{name: "gzip_truncated", classes: interrupted, causes: []semconv.Cause{semconv.CauseBodyTruncated}, shows: true, gzip: true, wires: open, answer: always(func(s *script) faultyllm.Exchange {
		return cutLater(s, faultyllm.Truncate()).Compressed(faultyllm.Gzip)
	})},
	{name: "gzip_cut", classes: interrupted, causes: justEnded, shows: true, gzip: true, wires: open, answer: always(func(s *script) faultyllm.Exchange {
		return cutLater(s, faultyllm.CutEncoding()).Compressed(faultyllm.Gzip)
	})},
	{name: "gzip_cut_once", heals: true, once: true, classes: interrupted, causes: justEnded, gzip: true, short: true, wires: open, answer: func(s *script, n int, _ bool) faultyllm.Exchange {
		if n == 0 {
			return cutLater(s, faultyllm.CutEncoding()).Compressed(faultyllm.Encodings()...)
		}
		return done().Compressed(faultyllm.Encodings()...)
	}},
	{name: "gzip_call_truncated", classes: interrupted, causes: []semconv.Cause{semconv.CauseBodyTruncated}, races: true, gzip: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: func(s *script, n int, outputs bool) faultyllm.Exchange {
		return wholeCall(faultyllm.Truncate())(s, n, outputs).Compressed(faultyllm.Gzip)
	}},
	{name: "gzip_call_cut", classes: interrupted, causes: justEnded, races: true, gzip: true, wires: []faultyllm.Wire{faultyllm.Chat}, answer: func(s *script, n int, outputs bool) faultyllm.Exchange {
		return wholeCall(faultyllm.CutEncoding())(s, n, outputs).Compressed(faultyllm.Gzip)
	}},
	{name: "gzip_unasked", heals: true, gzip: true, unasked: true, wires: open, answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return done().CompressedAnyway(faultyllm.Gzip)
		}
		return s.call().CompressedAnyway(faultyllm.Gzip)
	}},
	{name: "br_ok", heals: true, gzip: true, wires: open, answer: compressed(faultyllm.Brotli)},
	{name: "zstd_ok", heals: true, gzip: true, wires: open, answer: compressed(faultyllm.Zstd)},
	{
		// To a place that is not there, where the client follows it: what it asks there is no request to a model.
		name: "redirect", classes: append([]semconv.Class{semconv.ClassUnclassified}, provider...), causes: []semconv.Cause{semconv.CauseNotFound},
		answer: always(func(*script) faultyllm.Exchange { return faultyllm.Redirect("/elsewhere") }),
	},
	{name: "json", heals: true, asJSON: true, answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return done()
		}
		return s.call().AsDocument()
	}},
	{name: "reset_after_end", heals: true, decides: true, classes: interrupted, causes: wasReset, shows: true, answer: always(func(*script) faultyllm.Exchange {
		return faultyllm.Answer(faultyllm.Text("canary-answer-22d0 ", "All ", "done."), faultyllm.Finish(faultyllm.Stop), faultyllm.Reset()).Unhurried(100 * time.Millisecond)
	})},
	{name: "drip", heals: true, answer: always(func(*script) faultyllm.Exchange {
		var steps []faultyllm.Step
		for n := range 20 { // some agents stop an answer that repeats itself
			steps = append(steps, faultyllm.Text(strconv.Itoa(n*n*37)+" "), faultyllm.Pause(100*time.Millisecond))
		}
		return faultyllm.Answer(append(steps, faultyllm.Finish(faultyllm.Stop))...)
	})},
	{name: "two_sub_agents", heals: true, agents: []string{"claude", "opencode", "qwen"}, most: maxRequests, answer: func(s *script, n int, outputs bool) faultyllm.Exchange {
		switch of := subAgents[s.agent.name]; {
		case outputs:
			return done()
		case n == 0:
			return faultyllm.Answer(faultyllm.ToolCall(subAgentCall, of.tool, of.input), faultyllm.ToolCall(subAgentCall+"b", of.tool, of.input), faultyllm.Finish(faultyllm.ToolCalls))
		default:
			return s.callOf("call_e2e_" + strconv.Itoa(n))
		}
	}},
	{
		name: "ctrl_c_in_tool", classes: []semconv.Class{semconv.ClassLocalAbort}, causes: byPerson, stop: &stop{syscall.SIGINT, true},
		answer: always((*script).longCall),
	},
	{
		name: "ctrl_c_in_text", classes: []semconv.Class{semconv.ClassLocalAbort}, causes: byPerson, shows: true, stop: &stop{syscall.SIGINT, false},
		answer: always(func(*script) faultyllm.Exchange { return cut(faultyllm.Stall()) }),
	},
	{
		name: "kill_in_tool", classes: []semconv.Class{semconv.ClassRunAbandoned}, causes: []semconv.Cause{semconv.CauseProcessDied}, stop: &stop{syscall.SIGKILL, true},
		answer: always((*script).longCall),
	},
	{
		name: "kill_in_text", classes: []semconv.Class{semconv.ClassRunAbandoned}, causes: []semconv.Cause{semconv.CauseProcessDied}, shows: true, stop: &stop{syscall.SIGKILL, false},
		answer: always(func(*script) faultyllm.Exchange { return cut(faultyllm.Stall()) }),
	},
	{name: "tool_reset", short: true, classes: interrupted, causes: wasReset, answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return reset()
		}
		return s.call()
	}},
}

// compressed are a call and an answer, compressed if the agent asks for that.
func compressed(encoding faultyllm.Encoding) func(*script, int, bool) faultyllm.Exchange {
	return func(s *script, _ int, outputs bool) faultyllm.Exchange {
		if outputs {
			return done().Compressed(encoding)
		}
		return s.call().Compressed(encoding)
	}
}

// wholeCall is an answer that breaks after a call whose arguments are complete, before the
// provider says so. Some agents have executed it by then.
func wholeCall(fault ...faultyllm.Step) func(*script, int, bool) faultyllm.Exchange {
	return func(s *script, _ int, _ bool) faultyllm.Exchange {
		call := []faultyllm.Step{faultyllm.ToolCall("call_e2e_5Yq8", s.agent.tool, s.input()), faultyllm.Pause(500 * time.Millisecond)}
		return faultyllm.Answer(append(call, fault...)...)
	}
}

// concerns reports whether a fault can be played to an agent.
func (f *fault) concerns(a *agent) bool {
	return (len(f.wires) == 0 || slices.Contains(f.wires, a.wire)) && (len(f.agents) == 0 || slices.Contains(f.agents, a.title()))
}

func (s *script) stallBegins() { s.once.Do(func() { close(s.stalled) }) }

// outputs are what a request has where a tool has returned.
var outputs = []string{`"functionResponse"`, `"role":"tool"`, `"type":"function_call_output"`, `"type":"tool_result"`}

// maxRequests is more than any agent makes that gives up.
const maxRequests = 20

// newScript returns a script that nothing has asked for yet.
func newScript(a *agent, f *fault, mark string) *script {
	return &script{
		fault: f, agent: a, mark: mark,
		stalled: make(chan struct{}), asked: make(chan struct{}, 1), enough: make(chan struct{}),
	}
}

// counted counts a request of the main loop, with mu held.
func (s *script) counted() {
	s.main++
	if s.main == cmp.Or(s.fault.most, s.agent.endless, maxRequests) {
		close(s.enough)
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// choose reacts to a request. What has no tools is no part of the main loop: a title, a
// summary. It is answered.
func (s *script) choose(r faultyllm.Request) faultyllm.Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Contains(r.Body, []byte(`"name":"`+s.agent.tool+`"`)) {
		s.side++
		return done()
	}
	n := s.main
	s.counted()
	ran := false
	for _, mark := range outputs {
		ran = ran || bytes.Contains(r.Body, []byte(mark))
	}
	e := s.fault.answer(s, n, ran)
	if accepts := strings.Join(r.Header["Accept-Encoding"], ", "); !slices.Contains(s.accepted, accepts) {
		s.accepted = append(s.accepted, accepts)
	}
	if e.Encoding(r.Header) != "" {
		s.compressed++
	}
	return e
}
