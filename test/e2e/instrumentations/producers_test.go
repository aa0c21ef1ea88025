package instrumentations

import (
	"slices"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// producer is one column of the matrix: an instrumentation over one API.
type producer struct {
	file   string // in examples/node/producers; in Python the client
	title  string
	wire   faultyllm.Wire
	facts  bool   // it records the vocabulary's facts: its verdicts have to be complete as well as true
	http   bool   // with OpenTelemetry's instrumentation of undici
	client string // what the agents of one helper differ in, or ""
}

// api returns the agents' name for a wire protocol.
func api(w faultyllm.Wire) string {
	if w == faultyllm.Anthropic {
		return "messages"
	}
	return w.String()
}

func (p *producer) key() string {
	key := p.file + "-" + api(p.wire)
	if p.http {
		key += "-http"
	}
	return key
}

// has reports whether the fault applies to this producer.
func (p *producer) has(f *fault) bool {
	if f.declared && !p.facts || slices.Contains(f.without, p.file) {
		return false
	}
	return (f.only == "" || f.only == p.file) && (f.tool || p.file != "mcp")
}

// label names a producer among those of its file.
func (p *producer) label() string {
	label := map[faultyllm.Wire]string{
		faultyllm.Chat: "Chat Completions", faultyllm.Responses: "Responses", faultyllm.Anthropic: "Messages",
	}[p.wire]
	if p.http {
		label += ", with undici's spans"
	}
	if p.client != "" {
		label += ", " + p.client
	}
	return label
}

// eagerProducer executes a call before its answer says that it is complete.
const eagerProducer = "vercel-compatible"

// producers returns the columns. Those of one file, with and without HTTP spans, run in one process
// each.
func producers() []producer {
	var all []producer
	add := func(file, title string, wires ...faultyllm.Wire) {
		p := producer{file: file, title: title, facts: file == "facts"}
		for _, w := range wires {
			p.wire = w
			all = append(all, p)
		}
		p.wire, p.http = wires[0], true
		all = append(all, p)
	}
	chat, responses, messages := faultyllm.Chat, faultyllm.Responses, faultyllm.Anthropic
	add("facts", "`otelllm-facts.mjs`", chat, responses, messages)
	all = append(all, producer{file: "mcp", title: "`otelllm-facts.mjs` and a tool over MCP", wire: chat, facts: true})
	add("vercel-7", "Vercel AI SDK 7", chat, responses)
	add("vercel-6", "Vercel AI SDK 6", chat)
	all = append(all, producer{file: eagerProducer, title: "Vercel AI SDK 6, openai-compatible", wire: chat})
	add("otel-openai", "OpenTelemetry's `openai`", chat, responses)
	add("openllmetry", "OpenLLMetry", chat, responses, messages)
	add("openinference", "OpenInference", chat, responses, messages)
	add("anthropic-sdk", "Anthropic's SDK itself", messages)
	return all
}
