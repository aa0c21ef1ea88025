package faultyllm

import "time"

// Step is one thing that the model writes, or one thing that breaks.
type Step struct {
	kind     stepKind
	chunks   []string
	id, name string
	reason   Reason
	failure  Failure
	pause    time.Duration
}

type stepKind uint8

const (
	stepText stepKind = iota + 1
	stepReasoning
	stepRefusal
	stepToolInput
	stepToolInputDone
	stepPing
	stepFinishReason
	stepEnd
	stepDone
	stepError
	stepBegin
	stepToolCall // expands to input, done
	stepFinish   // expands to reason, end

	// Faults and timing, which the server causes, not the protocol.
	stepReset
	stepTruncate
	stepCleanEnd
	stepCutEncoding
	stepStall
	stepPause
)

func (k stepKind) fault() bool { return k >= stepReset }

// ends reports whether the step is a fault after which nothing is sent.
func (s *Step) ends() bool { return s.kind.fault() && s.kind != stepPause }

// Reason is why the model stopped, as Chat Completions names it. The other wire
// protocols get their own equivalents.
type Reason string

// The reasons.
const (
	Stop          Reason = "stop"
	ToolCalls     Reason = "tool_calls"
	Length        Reason = "length"
	ContentFilter Reason = "content_filter" // on Anthropic: refusal, the name that its filter uses; on Gemini: SAFETY
	Refused       Reason = "refusal"        // Chat and Responses: a normal end after a refusal text; on Gemini: SAFETY
)

// Begin opens a stream before the model has written anything: the role chunk,
// response.created, message_start; on Gemini nothing. Every answer begins with it
// automatically. It is a step of its own so that a fault can come directly after it.
func Begin() Step { return Step{kind: stepBegin} }

// Text writes visible text, one delta per chunk.
func Text(chunks ...string) Step { return Step{kind: stepText, chunks: chunks} }

// Reasoning writes reasoning that precedes the answer, one delta per chunk: DeepSeek's
// reasoning_content on Chat, a summary on Responses, thinking on Anthropic, thoughts on
// Gemini.
func Reasoning(chunks ...string) Step { return Step{kind: stepReasoning, chunks: chunks} }

// Refusal writes the text of a refusal, one delta per chunk. On Anthropic and Gemini it
// is plain text, and only the reason shows that it is a refusal.
func Refusal(chunks ...string) Step { return Step{kind: stepRefusal, chunks: chunks} }

// ToolInput begins a tool call and writes its arguments, one delta per fragment, but
// does not complete them. Gemini sends only complete calls, so it sends nothing for
// this step. Vertex sends argument by argument, as far as they are complete.
func ToolInput(id, name string, fragments ...string) Step {
	return Step{kind: stepToolInput, id: id, name: name, chunks: fragments}
}

// ToolInputDone completes the tool call that was begun before. Chat has no event for
// it.
func ToolInputDone() Step { return Step{kind: stepToolInputDone} }

// ToolCall writes a complete tool call: [ToolInput], then [ToolInputDone].
func ToolCall(id, name string, fragments ...string) Step {
	return Step{kind: stepToolCall, id: id, name: name, chunks: fragments}
}

// Ping writes a keepalive: a comment, on Anthropic a ping event. Gemini sends none, but
// a proxy may; its Go SDK treats a comment as an error.
func Ping() Step { return Step{kind: stepPing} }

// Finish ends the answer normally: with the reason, the usage and the terminal event.
func Finish(r Reason) Step { return Step{kind: stepFinish, reason: r} }

// FinishReason writes the reason without the terminal event. On Responses, where only
// the terminal event has a reason, it closes the open item. On Gemini it is the same as
// [Finish]: the reason is the end.
func FinishReason(r Reason) Step { return Step{kind: stepFinishReason, reason: r} }

// End writes only the terminal event: `[DONE]`, response.completed, message_stop; on
// Gemini nothing.
func End() Step { return Step{kind: stepEnd} }

// Done writes `[DONE]` and nothing else, on any wire: gateways that serve several end their streams
// with it, also where the upstream's stream did not end well.
func Done() Step { return Step{kind: stepDone} }

// InBand writes the provider's error inside the stream, under a status of 200.
func InBand(f Failure) Step { return Step{kind: stepError, failure: f} }

// Reset breaks the connection with a TCP reset.
func Reset() Step { return Step{kind: stepReset} }

// Truncate closes the connection inside the body: a FIN before the last chunk, or
// before Content-Length bytes.
func Truncate() Step { return Step{kind: stepTruncate} }

// CleanEnd ends the HTTP body normally, wherever the answer is, and its compression with it.
func CleanEnd() Step { return Step{kind: stepCleanEnd} }

// CutEncoding ends the HTTP body normally where its compression has not ended: nothing but the
// decompressor shows that something is missing. Without compression it is [CleanEnd].
func CutEncoding() Step { return Step{kind: stepCutEncoding} }

// Stall sends nothing more until the client disconnects or the server is closed.
func Stall() Step { return Step{kind: stepStall} }

// Pause sends nothing for d, as if the model were thinking.
func Pause(d time.Duration) Step { return Step{kind: stepPause, pause: d} }

// expand replaces composite steps by the steps that they consist of.
func expand(steps []Step) []Step {
	all := make([]Step, 0, len(steps)+2)
	for _, s := range steps {
		switch s.kind {
		case stepToolCall:
			all = append(all, ToolInput(s.id, s.name, s.chunks...), ToolInputDone())
		case stepFinish:
			all = append(all, FinishReason(s.reason), End())
		default:
			all = append(all, s)
		}
	}
	return all
}
