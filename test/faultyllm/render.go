package faultyllm

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
)

// renderer writes steps in one wire protocol. It keeps the state that the protocol
// needs: open items, indexes, sequence numbers.
type renderer interface {
	begin(b *builder)
	step(b *builder, s Step)
}

// frame is one SSE event and what it counts as sent, or one fault.
type frame struct {
	data  []byte
	sent  Sent
	fault Step
}

// builder collects frames.
type builder struct{ frames []frame }

// event appends one SSE event. With an empty name it writes no event line.
func (b *builder) event(name, data string, sent Sent) {
	var text string
	if name != "" {
		text = "event: " + name + "\n"
	}
	text += "data: " + data + "\n\n"
	b.raw(text, sent)
}

func (b *builder) comment(text string) { b.raw(": "+text+"\n\n", Sent{Keepalives: 1}) }

func (b *builder) raw(text string, sent Sent) {
	sent.Bytes = len(text)
	if sent.Keepalives == 0 {
		sent.Events = 1
	}
	b.frames = append(b.frames, frame{data: []byte(text), sent: sent})
}

// q returns s as a JSON string.
func q(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string can always be marshaled
		panic(err)
	}
	return string(b)
}

// created is the fixed creation time of every response: the same script gives the same
// bytes.
const created = 1770933892

// ids creates the identifiers of one exchange. They depend only on the case and the
// index of the exchange in it.
type ids struct {
	seed  string
	model string
}

// id returns prefix followed by 24 letters and digits.
func (i ids) id(prefix string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", i.seed, prefix, n))
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// message is the content of all of an answer's steps: the content of a response that is
// not a stream.
type message struct {
	text, reasoning, refusal string
	calls                    []call
	reason                   Reason
	failure                  *Failure
}

type call struct{ id, name, arguments string }

func gather(steps []Step) message {
	var m message
	for _, s := range steps {
		switch s.kind {
		case stepText:
			m.text += strings.Join(s.chunks, "")
		case stepReasoning:
			m.reasoning += strings.Join(s.chunks, "")
		case stepRefusal:
			m.refusal += strings.Join(s.chunks, "")
		case stepToolInput:
			m.calls = append(m.calls, call{s.id, s.name, strings.Join(s.chunks, "")})
		case stepFinishReason:
			m.reason = s.reason
		case stepError:
			m.failure = &s.failure
		}
	}
	return m
}

// inputTokens is the count for every prompt: the server does not read prompts.
const inputTokens = 42

// outputTokens returns an estimate of four bytes per token.
func (m message) outputTokens() int {
	n := len(m.text) + len(m.reasoning) + len(m.refusal)
	for _, c := range m.calls {
		n += len(c.arguments)
	}
	return n/4 + 1
}
