package instrumentations

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// fault is one fault that an agent meets, and the truth about it.
type fault struct {
	key, title string
	script     []faultyllm.Exchange    // nil for no model server
	at         func(*world) string     // base URL if there is no server
	task       func(t *nodeagent.Task) // sets what the agent does
	run        truth                   // the truth about the run as a whole
	tool       bool                    // the fault is about tools and also applies to those of an MCP server
	only       string                  // the only producer's file that it applies to, or "" for all
	without    []string                // producers' files that it does not apply to
	ran        bool                    // the tool has to have run
	declared   bool                    // the application declares it, by a helper
	also       []truth                 // what is also true, if less is known
	parts      []truth                 // what is true of requests and tools, in addition to run
	outcomes   []semconv.RunOutcome    // the correct outcomes; incomplete is correct, too, if something failed
	goesOn     *fault                  // the truth if the agent used the whole script
}

// truth is what is true of a run or one of its parts. The zero value means that nothing failed.
type truth struct {
	class  semconv.Class
	causes []semconv.Cause // each of them is correct
	origin semconv.Origin
	least  semconv.RetrySafety // a level that allows more is wrong
}

var (
	call    = faultyllm.ToolCall("call_1", "apply_patch", `{"path":`, `"main.go"}`)
	half    = faultyllm.ToolInput("call_1", "apply_patch", `{"path":`)
	words   = faultyllm.Text("The bug ", "is in ", "main.go. ")
	called  = faultyllm.Answer(call, faultyllm.Finish(faultyllm.ToolCalls))
	answers = faultyllm.Answer(words, faultyllm.Finish(faultyllm.Stop))
)

// broke returns the truth of a stream that the transport broke.
func broke(least semconv.RetrySafety, causes ...semconv.Cause) truth {
	return truth{semconv.ClassStreamInterrupted, causes, semconv.OriginTransport, least}
}

func unconnected(cause semconv.Cause) truth {
	return truth{semconv.ClassConnectionFailed, []semconv.Cause{cause}, semconv.OriginTransport, classify.SafeAutoRetry}
}

func refused(least semconv.RetrySafety, causes ...semconv.Cause) truth {
	return truth{semconv.ClassProviderError, causes, semconv.OriginProvider, least}
}

// aborted returns the truth of a run that this side ended; a verdict need not name who did.
func aborted(least semconv.RetrySafety, cause semconv.Cause) truth {
	return truth{semconv.ClassLocalAbort, []semconv.Cause{cause, semconv.CauseUnknown}, semconv.OriginLocal, least}
}

// toolFailed returns the truth of a failed tool. It may have had effects.
func toolFailed(causes ...semconv.Cause) truth {
	return truth{semconv.ClassToolFailed, causes, semconv.OriginTool, classify.UserConfirmedRetry}
}

func failedRun() []semconv.RunOutcome { return []semconv.RunOutcome{semconv.RunOutcomeFailed} }

func abortedRun() []semconv.RunOutcome { return []semconv.RunOutcome{semconv.RunOutcomeAborted} }

func wholeRun() []semconv.RunOutcome { return []semconv.RunOutcome{semconv.RunOutcomeSucceeded} }

// recoveredRun returns the outcomes of a recovered run: a producer that saw no failure may report success.
func recoveredRun() []semconv.RunOutcome {
	return []semconv.RunOutcome{semconv.RunOutcomeRecovered, semconv.RunOutcomeSucceeded}
}

// faults returns all faults, in the order of the page.
func faults() []fault {
	// Long enough for a busy machine to read in that time what the server has sent: undici drops unread data when the
	// connection breaks, and a client that has not read the headers within its timeout says so.
	const reads, timeout = 500 * time.Millisecond, 1500 // timeout in ms
	ask, free := classify.UserConfirmedRetry, classify.SafeAutoRetry
	answer := func(said, then faultyllm.Step) []faultyllm.Exchange {
		return []faultyllm.Exchange{faultyllm.Answer(said, faultyllm.Pause(reads), then)}
	}
	return []fault{
		{key: "answer", title: "nothing: an answer", script: []faultyllm.Exchange{answers}, outcomes: wholeRun()},
		{key: "tool", tool: true, title: "nothing: a tool, then an answer", script: []faultyllm.Exchange{called, answers}, outcomes: wholeRun()},

		{
			key: "refused", title: "connection refused", at: func(w *world) string { return w.refusing.Addr() },
			run: unconnected(semconv.CauseConnectRefused), outcomes: failedRun(),
		},
		{
			key: "connect-timeout", title: "connect timeout", at: func(w *world) string { return w.full.Addr() },
			task: func(t *nodeagent.Task) { t.Timeouts = &nodeagent.Timeouts{Connect: timeout} },
			run:  unconnected(semconv.CauseConnectTimeout), outcomes: failedRun(),
		},
		{
			key: "reset-before-headers", title: "reset before the headers",
			script: []faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Reset())},
			run:    broke(free, semconv.CauseClosedBeforeHeaders, semconv.CauseConnectionReset), outcomes: failedRun(),
		},
		{
			key: "headers-timeout", title: "headers timeout",
			script: []faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Stall())},
			task:   func(t *nodeagent.Task) { t.Timeouts = &nodeagent.Timeouts{Headers: timeout} },
			run:    broke(free, semconv.CauseHeaderTimeout), outcomes: failedRun(),
		},
		{
			key: "reset", title: "reset in a text", script: answer(words, faultyllm.Reset()),
			run: broke(ask, semconv.CauseConnectionReset), outcomes: failedRun(),
		},
		{
			key: "closed", title: "other side closed in a text", script: answer(words, faultyllm.Truncate()),
			run: broke(ask, semconv.CauseBodyTruncated, semconv.CauseConnectionReset), outcomes: failedRun(),
		},
		{
			key: "body-timeout", title: "body timeout in a text", script: answer(words, faultyllm.Stall()),
			task: func(t *nodeagent.Task) { t.Timeouts = &nodeagent.Timeouts{Body: timeout} },
			run:  truth{semconv.ClassWatchdogTimeout, []semconv.Cause{semconv.CauseIdle}, semconv.OriginWatchdog, ask},
			// The timeout is the transport's: without its code the stream was interrupted for an unknown
			// reason.
			also:     []truth{broke(ask)},
			outcomes: failedRun(),
		},
		{
			key: "clean-eof", title: "clean end in a text, without a terminal event", script: answer(words, faultyllm.CleanEnd()),
			run: broke(ask, semconv.CauseCleanEOF), outcomes: failedRun(),
		},
		{
			key: "tool-input", title: "reset within a tool call's input", script: answer(half, faultyllm.Reset()),
			run: broke(free, semconv.CauseConnectionReset), outcomes: failedRun(),
		},
		{
			key: "tool-input-eof", title: "clean end within a tool call's input",
			script: []faultyllm.Exchange{faultyllm.Answer(half, faultyllm.CleanEnd()), answers},
			run:    broke(free, semconv.CauseCleanEOF), outcomes: failedRun(),
			// An agent that takes the partial input for complete fails on it, reports that to the model,
			// and gets an answer.
			goesOn: &fault{outcomes: recoveredRun(), parts: []truth{
				broke(free, semconv.CauseCleanEOF), toolFailed(semconv.CauseExecutionError, semconv.CauseInvalidInput, semconv.CauseIncompleteInput),
			}},
		},
		{
			key: "call-unfinished", only: eagerProducer, title: "reset after a whole tool call, before the finish reason",
			// The tool needs the time to begin.
			script: []faultyllm.Exchange{faultyllm.Answer(call, faultyllm.Pause(2*time.Second), faultyllm.Reset())},
			run:    broke(ask, semconv.CauseConnectionReset), outcomes: failedRun(), ran: true,
		},
		{
			key: "after-tool", tool: true, title: "a tool ran, then a reset before the next answer",
			script: []faultyllm.Exchange{called, faultyllm.Answer(faultyllm.Begin(), faultyllm.Pause(reads), faultyllm.Reset())},
			run:    broke(ask, semconv.CauseConnectionReset), outcomes: failedRun(),
			parts: []truth{broke(free, semconv.CauseConnectionReset)},
		},
		{
			key: "rate-limited", title: "HTTP 429", script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited})},
			run: refused(free, semconv.CauseRateLimited), outcomes: failedRun(),
		},
		{
			key: "overloaded", title: "HTTP 529 (OpenAI: 503)", script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Overloaded})},
			run: refused(free, semconv.CauseOverloaded, semconv.CauseServerError), outcomes: failedRun(),
		},
		{
			key: "recovered", title: "HTTP 429, then an answer",
			script: []faultyllm.Exchange{
				faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: 10 * time.Millisecond}), answers,
			},
			task:  func(t *nodeagent.Task) { t.MaxRetries = 1 },
			parts: []truth{refused(free, semconv.CauseRateLimited)}, outcomes: recoveredRun(),
		},
		{
			key: "quota", title: "HTTP 429, the quota is used up (Anthropic: 402)", script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.QuotaExhausted})},
			// The status alone does not distinguish it from a rate limit.
			run: refused(classify.NoRetry, semconv.CauseQuotaExhausted, semconv.CauseRateLimited), outcomes: failedRun(),
		},
		{
			key: "in-band", title: "an error in the stream after a text", script: answer(words, faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded})),
			run: refused(ask, semconv.CauseOverloaded), outcomes: failedRun(),
		},
		{
			key: "length", title: "the answer hits the token limit", script: answer(words, faultyllm.Finish(faultyllm.Length)),
			run:      truth{semconv.ClassOutputLimited, []semconv.Cause{semconv.CauseMaxOutputTokens}, semconv.OriginProvider, classify.NoRetry},
			outcomes: []semconv.RunOutcome{semconv.RunOutcomeLimited},
		},
		{
			key: "stop", title: "a person presses stop in a text", script: answer(words, faultyllm.Stall()),
			task: func(t *nodeagent.Task) { t.AbortOn = "text" },
			run:  aborted(classify.NoRetry, semconv.CauseUser), outcomes: abortedRun(),
		},
		{
			key: "deadline", title: "`AbortSignal.timeout` (Python: `asyncio.wait_for`) in a text", script: answer(words, faultyllm.Stall()),
			without: []string{"httpx-sync"}, // nothing interrupts a thread that reads
			task:    func(t *nodeagent.Task) { t.Deadline = 100 },
			run:     aborted(ask, semconv.CauseDeadline), outcomes: abortedRun(),
		},
		{
			key: "watchdog", declared: true, title: "the application's own watchdog in a text", script: answer(words, faultyllm.Stall()),
			task: func(t *nodeagent.Task) { t.AbortOn = "watchdog" },
			run:  truth{semconv.ClassWatchdogTimeout, []semconv.Cause{semconv.CauseIdle}, semconv.OriginWatchdog, ask}, outcomes: failedRun(),
		},
		{
			key: "watchdog-attempt", declared: true, title: "the application's own watchdog for one attempt; the next one answers",
			script:  []faultyllm.Exchange{faultyllm.Answer(words, faultyllm.Pause(100*time.Millisecond), faultyllm.Stall()), answers},
			without: []string{"httpx-sync"},
			task:    func(t *nodeagent.Task) { t.AbortOn = "attempt" },
			parts:   []truth{{semconv.ClassWatchdogTimeout, []semconv.Cause{semconv.CauseIdle}, semconv.OriginWatchdog, ask}}, outcomes: recoveredRun(),
		},
		{
			key: "stop-reading", title: "the consumer stops reading", script: answer(words, faultyllm.Stall()),
			task: func(t *nodeagent.Task) { t.StopReading = true },
			run:  aborted(classify.NoRetry, semconv.CauseConsumerClosed), outcomes: abortedRun(),
		},
		{
			key: "tool-throws", tool: true, title: "a tool throws, the model answers", script: []faultyllm.Exchange{called, answers},
			task:  func(t *nodeagent.Task) { t.Tool = "throws" },
			parts: []truth{toolFailed(semconv.CauseExecutionError)}, outcomes: recoveredRun(),
		},
		{
			key: "tool-throws-end", tool: true, title: "a tool throws, the run ends", script: []faultyllm.Exchange{called},
			task: func(t *nodeagent.Task) { t.Tool, t.EndOnToolFailure = "throws", true },
			run:  toolFailed(semconv.CauseExecutionError), outcomes: failedRun(),
		},
		{
			key: "tool-aborted", tool: true, title: "a person presses stop while a tool runs", script: []faultyllm.Exchange{called},
			task: func(t *nodeagent.Task) { t.Tool, t.AbortOn = "waits", "tool" },
			run:  aborted(classify.NoRetry, semconv.CauseUser), outcomes: abortedRun(),
			parts: []truth{toolFailed(semconv.CauseInterrupted)},
		},
		{
			key: "output-unsent", declared: true, title: "a tool's output is sent beside the requests, and that fails", script: []faultyllm.Exchange{called},
			task: func(t *nodeagent.Task) { t.Tool = "unsent" },
			run:  truth{semconv.ClassToolOutputLost, []semconv.Cause{semconv.CauseDeliveryFailed}, semconv.OriginApplication, ask}, outcomes: failedRun(),
		},
		{
			key: "output-resent", declared: true, title: "the same fails, and succeeds when it is tried again", script: []faultyllm.Exchange{called, answers},
			task:     func(t *nodeagent.Task) { t.Tool = "sent" },
			outcomes: recoveredRun(),
		},
		{
			key: "mcp-lost", tool: true, only: "mcp", title: "the MCP server dies in a call, the run ends", script: []faultyllm.Exchange{called},
			task: func(t *nodeagent.Task) { t.Tool, t.EndOnToolFailure = "lost", true },
			run:  toolFailed(semconv.CauseExecutionError), outcomes: failedRun(),
		},
	}
}
