package wire

import "bytes"

// envelope is how an object shows that it is of a protocol: by a member, of which every payload
// has one. A type that is not known may be a new one, unless it is that of another protocol. Gateways and servers answer on the
// path of one protocol in the form of another, or in one of their own. Nothing is known of
// how such an answer ends, so it is unread, and not a failure.
type envelope struct {
	members []string
	typed   bool     // the member type is one
	foreign []string // prefixes of types of other protocols
}

var (
	chatEnvelope      = &envelope{members: []string{"choices", "error", "request_id", "x_groq"}}
	responsesEnvelope = &envelope{members: []string{"output", "error"}, typed: true, foreign: []string{"message_", "content_block_"}}
	messagesEnvelope  = &envelope{members: []string{"error"}, typed: true, foreign: []string{"response."}}
	geminiEnvelope    = &envelope{members: []string{"candidates", "promptFeedback", "usageMetadata", "response", "error"}}
)

// form is what the payloads of a body have shown of its form.
type form uint8

const (
	formUnknown form = iota // there was none that shows it
	formForeign             // all have been of another form
	formOwn                 // one was of the protocol
)

// of returns what an object shows. One without members shows nothing.
func (e *envelope) of(data []byte) form {
	f := formUnknown
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		f = max(f, formForeign)
		if e.typed && string(key) == "type" {
			if name := c.str(); len(name) > 0 && !e.isForeign(name) {
				return formOwn
			}
			continue
		}
		for _, member := range e.members {
			if equalFold(key, member) {
				return formOwn
			}
		}
		c.skip()
	}
	return f
}

func (e *envelope) isForeign(name []byte) bool {
	for _, prefix := range e.foreign {
		if bytes.HasPrefix(name, []byte(prefix)) {
			return true
		}
	}
	return false
}

func equalFold(key []byte, member string) bool {
	return len(key) == len(member) && bytes.EqualFold(key, []byte(member))
}

// sawForm records the form of a payload that was read, until one was of the protocol.
func (d *bodyDecoder) sawForm(data []byte) {
	if d.envelope == nil || d.form == formOwn {
		return
	}
	d.form = max(d.form, d.envelope.of(data))
}

// judgeForm gives the body up if it is of another form: if nothing of the protocol was in it.
// An error that was read in it counts, and so does what was read of an answer. Events
// that say nothing are nothing to be read.
func (d *bodyDecoder) judgeForm() {
	st := d.state
	answered := st.TextChunks+st.ReasoningChunks+st.ToolInputsStarted+st.ToolCalls+st.ProviderToolsStarted+len(st.FinishReasons) > 0 || st.ResponseID != ""
	if d.form != formForeign || st.Err != nil || st.Complete || answered || !st.Unread && d.mode != whole {
		return
	}
	st.Unread, st.GaveUp = true, true
}
