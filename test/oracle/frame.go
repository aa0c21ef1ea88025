package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// stream is a complete response body.
type stream struct {
	name  string
	wire  wire
	body  []byte
	marks []mark // one per event, in order
}

// mark is the position of an event in the body: of its data, and of the whole event.
type mark struct {
	data, dataEnd, end int
	final, failed      bool
	shape              string // equal for events that differ only in text, "" if unknown
}

// ended reports whether the last event is terminated, as server-sent events have to be.
func (s *stream) ended() bool {
	if s.wire.contentType() != "text/event-stream" {
		return true
	}
	body := bytes.ReplaceAll(bytes.ReplaceAll(s.body, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	return bytes.HasSuffix(body, []byte("\n\n"))
}

// final reports whether a body that is cut at cut contains the protocol's end.
func (s *stream) final(cut int) bool {
	for _, m := range s.marks {
		if m.final && cut >= m.dataEnd {
			return true
		}
	}
	return false
}

// failed reports whether a body that is cut at cut may report an error.
func (s *stream) failed(cut int) bool {
	for _, m := range s.marks {
		if m.failed && cut > m.data {
			return true
		}
	}
	return false
}

// framing is one way of framing events, in most cases a sloppy one.
type framing struct {
	name  string
	frame func(b *builder, events []event)
}

// builder builds a stream.
type builder struct {
	stream
	r   *rand.Rand
	out bytes.Buffer
}

// event appends an event to the body and marks its position.
func (b *builder) event(e event, before, data, after string) {
	b.out.WriteString(before)
	m := mark{data: b.out.Len()}
	b.out.WriteString(data)
	m.dataEnd = b.out.Len()
	b.out.WriteString(after)
	m.end = b.out.Len()
	m.final, m.failed = b.wire.meaning(e)
	b.marks = append(b.marks, m)
}

func (w wire) build(name string, f framing, events []event, r *rand.Rand) stream {
	b := &builder{stream: stream{name: name + "/" + f.name, wire: w}, r: r}
	f.frame(b, events)
	b.body = b.out.Bytes()
	return b.stream
}

// framings returns the framings of a wire protocol, the correct one first.
func (w wire) framings() []framing {
	switch w {
	case ollamaWire:
		return append(lineFramings(), cased(lines, "message", "content", "tool_calls", "function", "arguments", "done")...)
	case bedrockWire:
		return messageFramings()
	case chatWire:
		return append(sseFramings(), cased(sse, "choices", "delta", "content", "tool_calls", "arguments", "finish_reason", "index")...)
	case responsesWire:
		return append(sseFramings(), cased(sse, "type", "delta", "item", "response", "text", "arguments")...)
	case anthropicWire:
		return append(sseFramings(), cased(sse, "type", "delta", "text", "content_block", "partial_json", "stop_reason")...)
	default:
		return append(sseFramings(), cased(sse, "candidates", "content", "parts", "text", "functionCall", "finishReason")...)
	}
}

// sse frames an event as the specification requires.
func sse(b *builder, e event) { b.event(e, named(e, "\n")+"data: ", e.data, "\n\n") }

// named returns the line that names an event.
func named(e event, newline string) string {
	if e.name == "" {
		return ""
	}
	return "event: " + e.name + newline
}

// each frames the events one by one.
func each(write func(b *builder, e event)) func(b *builder, events []event) {
	return func(b *builder, events []event) {
		for _, e := range events {
			write(b, e)
		}
	}
}

// between frames the events correctly, and calls extra before each.
func between(write func(b *builder, e event), extra func(b *builder, at int)) func(b *builder, events []event) {
	return func(b *builder, events []event) {
		for i, e := range events {
			extra(b, i)
			write(b, e)
		}
	}
}

// allButLast frames the last event differently from the others.
func allButLast(write, last func(b *builder, e event)) func(b *builder, events []event) {
	return func(b *builder, events []event) {
		for i, e := range events {
			if i == len(events)-1 {
				last(b, e)
			} else {
				write(b, e)
			}
		}
	}
}

// junk is text that follows the JSON of an event.
var junk = []string{" ", "}", " x", `{"a":1}`, ","}

func sseFramings() []framing {
	ending := func(newline string) func(b *builder, e event) {
		return func(b *builder, e event) { b.event(e, named(e, newline)+"data: ", e.data, newline+newline) }
	}
	return []framing{
		{"plain", each(sse)},
		{"crlf", each(ending("\r\n"))},
		{"cr", each(ending("\r"))},
		{"nospace", each(func(b *builder, e event) { b.event(e, named(e, "\n")+"data:", e.data, "\n\n") })},
		{"spaces", each(func(b *builder, e event) { b.event(e, named(e, "\n")+"data:   ", e.data, "  \n\n") })},
		{"indented", each(func(b *builder, e event) { b.event(e, named(e, "\n")+" data: ", e.data, "\n\n") })},
		{"one-newline", each(func(b *builder, e event) { b.event(e, named(e, "\n")+"data: ", e.data, "\n") })},
		{"one-newline-once", func(b *builder, events []event) {
			once := b.r.IntN(len(events))
			for i, e := range events {
				after := "\n\n"
				if i == once {
					after = "\n"
				}
				b.event(e, named(e, "\n")+"data: ", e.data, after)
			}
		}},
		{"blank-lines", between(sse, func(b *builder, _ int) { b.out.WriteString("\n\n") })},
		{"multi-line", each(func(b *builder, e event) { b.event(e, named(e, "\n")+"data: ", inLines(e.data), "\n\n") })},
		{"trailing", each(func(b *builder, e event) {
			b.event(e, named(e, "\n")+"data: ", e.data, junk[b.r.IntN(len(junk))]+"\n\n")
		})},
		{"no-json", between(sse, func(b *builder, _ int) { b.out.WriteString("data: ping\n\n") })},
		{"no-json-once", func(b *builder, events []event) {
			between(sse, func(once int) func(*builder, int) {
				return func(b *builder, at int) {
					if at == once {
						b.out.WriteString("data: ping\n\n")
					}
				}
			}(b.r.IntN(len(events))))(b, events)
		}},
		{"no-field", between(sse, func(b *builder, _ int) { b.out.WriteString("garbage\n\n") })},
		{"other-fields", each(func(b *builder, e event) {
			b.event(e, "id: 7\nretry: 10\n"+named(e, "\n")+"data: ", e.data, "\n\n")
		})},
		{"no-event-names", each(func(b *builder, e event) { b.event(e, "data: ", e.data, "\n\n") })},
		{"keepalives", each(func(b *builder, e event) {
			b.event(e, ": keepalive\n\n:\n"+named(e, "\n")+": keepalive\ndata: ", e.data, "\n: keepalive\n\n")
		})},
		{"no-final-blank", allButLast(sse, func(b *builder, e event) { b.event(e, named(e, "\n")+"data: ", e.data, "\n") })},
		{"no-final-newline", allButLast(sse, func(b *builder, e event) { b.event(e, named(e, "\n")+"data: ", e.data, "") })},
		{"bom", between(sse, func(b *builder, at int) {
			if at == 0 {
				b.out.WriteString("\xef\xbb\xbf")
			}
		})},
		{"empty-data", between(sse, func(b *builder, _ int) { b.out.WriteString("data:\n\n") })},
		{"unknown-events", between(sse, func(b *builder, _ int) {
			b.out.WriteString("event: x-unknown\ndata: {\"type\":\"x-unknown\"}\n\n")
		})},
		{"more-after-end", func(b *builder, events []event) {
			each(sse)(b, events)
			sse(b, event{data: `{"x":1}`})
		}},
	}
}

// inLines splits data into two lines of an event, at a place where JSON allows a
// newline.
func inLines(data string) string {
	if at := strings.LastIndex(data, `,"`); at > 0 && json.Valid([]byte(data)) && json.Valid([]byte(data[:at+1]+"\n"+data[at+1:])) {
		return data[:at+1] + "\ndata: " + data[at+1:]
	}
	return data
}

// lines frames an event as NDJSON.
func lines(b *builder, e event) { b.event(e, "", e.data, "\n") }

func lineFramings() []framing {
	return []framing{
		{"plain", each(lines)},
		{"crlf", each(func(b *builder, e event) { b.event(e, "", e.data, "\r\n") })},
		{"spaces", each(func(b *builder, e event) { b.event(e, "  ", e.data, "  \n") })},
		{"blank-lines", between(lines, func(b *builder, _ int) { b.out.WriteString("\n") })},
		{"trailing", each(func(b *builder, e event) { b.event(e, "", e.data, junk[b.r.IntN(len(junk))]+"\n") })},
		{"no-json", between(lines, func(b *builder, _ int) { b.out.WriteString("ping\n") })},
		{"no-final-newline", allButLast(lines, func(b *builder, e event) { b.event(e, "", e.data, "") })},
		{"one-line", each(func(b *builder, e event) { b.event(e, "", e.data, "") })},
		{"in-two-lines", each(func(b *builder, e event) {
			b.event(e, "", strings.Replace(inLines(e.data), "\ndata: ", "\n", 1), "\n")
		})},
		{"unknown-events", between(lines, func(b *builder, _ int) { b.out.WriteString("{\"x\":1}\n") })},
		{"more-after-end", func(b *builder, events []event) {
			each(lines)(b, events)
			lines(b, event{data: `{"x":1}`})
		}},
	}
}

// cased returns correct framings with one key in a different case, which encoding/json
// accepts.
func cased(write func(b *builder, e event), keys ...string) (framings []framing) {
	for _, key := range keys {
		other := strings.ToUpper(key[:1]) + key[1:]
		framings = append(framings, framing{"case-" + key, each(func(b *builder, e event) {
			at := len(b.marks)
			proper := e
			e.data = strings.ReplaceAll(e.data, `"`+key+`":`, `"`+other+`":`)
			write(b, e)
			b.marks[at].final, b.marks[at].failed = b.wire.meaning(proper)
		})})
	}
	return framings
}

// message frames an event with AWS' own encoder.
func message(e event, more ...eventstream.Header) string {
	kind, header := "event", ":event-type"
	if e.exception {
		kind, header = "exception", ":exception-type"
	}
	headers := eventstream.Headers{
		{Name: ":message-type", Value: eventstream.StringValue(kind)},
		{Name: header, Value: eventstream.StringValue(e.name)},
		{Name: ":content-type", Value: eventstream.StringValue("application/json")},
	}
	var out bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&out, eventstream.Message{Headers: append(headers, more...), Payload: []byte(e.data)}); err != nil {
		panic(err) // cannot fail: known headers, written to memory
	}
	return out.String()
}

func messages(b *builder, e event) { b.event(e, "", message(e), "") }

func messageFramings() []framing {
	broken := func(at int) func(b *builder, events []event) {
		return func(b *builder, events []event) {
			once := b.r.IntN(len(events))
			for i, e := range events {
				raw := []byte(message(e))
				if i == once {
					raw[(at+len(raw))%len(raw)] ^= 1
				}
				b.event(e, "", string(raw), "")
			}
		}
	}
	framings := []framing{
		{"plain", each(messages)},
		{"more-headers", each(func(b *builder, e event) {
			b.event(e, "", message(e, eventstream.Header{Name: "x", Value: eventstream.Int32Value(7)}), "")
		})},
		{"unknown-events", between(messages, func(b *builder, _ int) { b.out.WriteString(message(event{name: "xUnknown", data: "{}"})) })},
		{"no-json", func(b *builder, events []event) {
			between(messages, func(once int) func(*builder, int) {
				return func(b *builder, at int) {
					if at == once {
						b.out.WriteString(message(event{name: "contentBlockDelta", data: "ping"}))
					}
				}
			}(b.r.IntN(len(events))))(b, events)
		}},
		{"trailing", each(func(b *builder, e event) {
			e.data += junk[b.r.IntN(len(junk))]
			messages(b, e)
		})},
		{"bad-prelude-checksum", broken(8)},
		{"bad-checksum", broken(-1)},
		{"more-after-end", func(b *builder, events []event) {
			each(messages)(b, events)
			messages(b, event{name: "xUnknown", data: "{}"})
		}},
	}
	return append(framings, cased(messages, "delta", "text", "toolUse", "input", "contentBlockIndex", "stopReason")...)
}
