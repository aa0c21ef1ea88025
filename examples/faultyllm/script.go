package faultyllm

import "time"

// Step is one thing that the model says, or one thing that breaks.
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
	stepError
	stepBegin
	stepToolCall // expanded: input, done
	stepFinish   // expanded: reason, end

	// Faults and timing: the server's doing, not the protocol's.
	stepReset
	stepTruncate
	stepCleanEnd
	stepStall
	stepPause
)

func (k stepKind) fault() bool { return k >= stepReset }

// Reason is why the model stopped, in the words of Chat Completions; the other
// wires get what they call the same.
type Reason string

// The reasons.
const (
	Stop          Reason = "stop"
	ToolCalls     Reason = "tool_calls"
	Length        Reason = "length"
	ContentFilter Reason = "content_filter" // on Anthropic: refusal, which is its filter's word; on Gemini: SAFETY
	Refused       Reason = "refusal"        // Chat and Responses: a normal end after a refusal text; on Gemini: SAFETY
)

// Begin is how a stream opens before the model has said anything: the role chunk,
// response.created, message_start; on Gemini nothing. Every answer begins with it by
// itself; it is a step of its own where a fault comes right after it.
func Begin() Step { return Step{kind: stepBegin} }

// Text is visible text, one delta a chunk.
func Text(chunks ...string) Step { return Step{kind: stepText, chunks: chunks} }

// Reasoning is reasoning that precedes the answer, one delta a chunk: DeepSeek's
// reasoning_content on Chat, a summary on Responses, thinking on Anthropic, thoughts
// on Gemini.
func Reasoning(chunks ...string) Step { return Step{kind: stepReasoning, chunks: chunks} }

// Refusal is the text of a refusal, one delta a chunk. On Anthropic and Gemini it is
// plain text: only the reason tells.
func Refusal(chunks ...string) Step { return Step{kind: stepRefusal, chunks: chunks} }

// ToolInput begins a tool call and writes its arguments, one delta a fragment,
// but does not complete them. Gemini sends calls whole: of this one nothing, until
// it is complete. Vertex sends argument by argument, those that are there.
func ToolInput(id, name string, fragments ...string) Step {
	return Step{kind: stepToolInput, id: id, name: name, chunks: fragments}
}

// ToolInputDone completes the tool call begun before. Chat has no event for it.
func ToolInputDone() Step { return Step{kind: stepToolInputDone} }

// ToolCall is a whole tool call: [ToolInput], then [ToolInputDone].
func ToolCall(id, name string, fragments ...string) Step {
	return Step{kind: stepToolCall, id: id, name: name, chunks: fragments}
}

// Ping is a keepalive: a comment, on Anthropic a ping event. Gemini sends none, but
// a proxy may; its Go SDK takes a comment for an error.
func Ping() Step { return Step{kind: stepPing} }

// Finish ends the answer as it should end: the reason, the usage and the
// terminal event.
func Finish(r Reason) Step { return Step{kind: stepFinish, reason: r} }

// FinishReason gives the reason without the terminal event. On Responses, where
// only the terminal event has a reason, it closes the open item. On Gemini it is all
// of [Finish]: the reason is the end.
func FinishReason(r Reason) Step { return Step{kind: stepFinishReason, reason: r} }

// End is the terminal event alone: `[DONE]`, response.completed, message_stop; on
// Gemini nothing.
func End() Step { return Step{kind: stepEnd} }

// InBand is the provider's error inside the stream, under a status of 200.
func InBand(f Failure) Step { return Step{kind: stepError, failure: f} }

// Reset breaks the connection with a TCP reset.
func Reset() Step { return Step{kind: stepReset} }

// Truncate closes the connection inside the body: a FIN before the last chunk, or
// before Content-Length bytes.
func Truncate() Step { return Step{kind: stepTruncate} }

// CleanEnd ends the HTTP body as if all were well.
func CleanEnd() Step { return Step{kind: stepCleanEnd} }

// Stall says nothing more until the client goes away or the server is closed.
func Stall() Step { return Step{kind: stepStall} }

// Pause makes the model think for d.
func Pause(d time.Duration) Step { return Step{kind: stepPause, pause: d} }

// expand replaces the composite steps by what they stand for.
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
