package wire

import (
	"bytes"
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// fault is the part of an error object that is read. Its slices point into the payload.
type fault struct {
	seen      bool
	typ, code []byte
	reason    []byte // Google's code; its code is a status
	quota     []byte // Google's name of a quota that is exhausted
	eventID   []byte // of the Realtime API: the client's event that caused it
	status    int
	after     time.Duration
}

// read reads the value of an `error` member: an object, or a text, which may not be
// recorded. null, "" and {} are not an error.
func (f *fault) read(c *cursor) {
	if c.peek() != '{' {
		f.seen = c.filled() || f.seen
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		f.seen = true
		f.member(c, key)
	}
}

// member reads one member of an error object.
func (f *fault) member(c *cursor, key []byte) {
	switch string(key) {
	case "type":
		f.typ = c.text()
	case "code":
		f.code = c.text()
		f.setStatus(f.code)
	case "status", "status_code", "statusCode", "http_status":
		// A number, or a name in Google's errors (RESOURCE_EXHAUSTED).
		status := c.text()
		if !f.setStatus(status) && len(f.typ) == 0 {
			f.typ = status
		}
	case "message":
		if c.peek() != '"' {
			c.skip()
			return
		}
		if message, _, ok := c.rawString(); ok && f.after == 0 {
			f.after = hintedDelay(message)
		}
	case "event_id":
		f.eventID = c.str()
	case "retry_after", "retry_after_seconds":
		f.setAfter(c.text(), time.Second)
	case "retry_after_ms":
		f.setAfter(c.text(), time.Millisecond)
	case "resets_in_seconds": // of ChatGPT's plans, beside resets_at
		f.setAfter(c.text(), time.Second)
	case "resets_at":
		f.setReset(c.text())
	case "metadata", "details":
		if c.peek() == '[' {
			for ok := c.array(); ok; ok = c.element() {
				f.detail(c)
			}
		} else {
			f.detail(c)
		}
	default:
		c.skip()
	}
}

// detail reads additional data of an error: OpenRouter's metadata, or one of Google's
// details, of which RetryInfo has the delay and ErrorInfo the meaning of the status.
func (f *fault) detail(c *cursor) {
	if c.peek() != '{' {
		c.skip() // a text about the error is not content
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "retry_after", "retry_after_seconds", "retry_after_ms":
			f.member(c, key)
		case "retryDelay":
			if after := readDelay(c.str()); after > 0 {
				f.after = after
			}
		case "reason":
			f.reason = c.str()
		case "violations":
			for ok := c.array(); ok; ok = c.element() {
				f.violation(c)
			}
		default:
			c.skip()
		}
	}
}

// violation reads one violation of Google's QuotaFailure. Only the name of the quota
// distinguishes one that is exhausted for the day (…PerDay…) from a limit per minute: the
// status and the reason of both are the same.
// https://ai.google.dev/gemini-api/docs/rate-limits
func (f *fault) violation(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "quotaId" {
			c.skip()
			continue
		}
		if id := c.str(); bytes.Contains(id, []byte("PerDay")) {
			f.quota = id
		}
	}
}

// setStatus sets the status if b is the HTTP status of a failure.
func (f *fault) setStatus(b []byte) bool {
	if len(b) != 3 || b[0] != '4' && b[0] != '5' {
		return false
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return false
	}
	f.status = n
	return true
}

func (f *fault) setAfter(b []byte, unit time.Duration) {
	if n, err := strconv.ParseFloat(string(b), 64); err == nil {
		f.after = delay(n, unit)
	}
}

// setReset sets the delay to the time until b, in seconds since 1970, unless a delay is
// known.
func (f *fault) setReset(b []byte) {
	at, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f.after > 0 {
		return
	}
	f.after = delay(at-float64(now().UnixMilli())/1000, time.Second)
}

// now is the time, which tests set.
var now = time.Now

// asError copies what was read.
func (f *fault) asError() *Error {
	return &Error{Type: bounded(f.typ), Code: bounded(f.named()), Status: f.status, RetryAfter: f.after}
}

// named returns the code, or its name if the code is only a status.
func (f *fault) named() []byte {
	if len(f.quota) > 0 {
		return f.quota
	}
	if len(f.reason) > 0 && (f.status != 0 || len(f.code) == 0) {
		return f.reason
	}
	return f.code
}

// fill sets the fields of e that are empty.
func (f *fault) fill(e *Error) {
	if e.Type == "" {
		e.Type = bounded(f.typ)
	}
	if e.Code == "" {
		e.Code = bounded(f.named())
	}
	if e.Status == 0 {
		e.Status = f.status
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = f.after
	}
}

// faultOf reads a document that may be an error in the form of any provider:
//
//	{"error":{"type","code",…}}                  OpenAI, Azure
//	{"type":"error","error":{"type"}}            Anthropic
//	{"object":"error","type","code"}             vLLM
//	{"type":"error","code","message"}            OpenAI Responses
//	{"error":{"code":503,"status","details"}}    Google
//	{"__type":"ThrottlingException","message"}   AWS
//	{"error":"text"}                             Ollama, others
//
// ok: the document is well-formed. Of a document that was cut, the readable part is
// returned.
func faultOf(data []byte) (f fault, ok bool) {
	c := cursor{b: data}
	var nested, flat fault
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "error":
			nested.read(&c)
		case "object":
			flat.seen = string(c.str()) == "error" || flat.seen
		case "type":
			if typ := c.str(); string(typ) == "error" {
				flat.seen = true
			} else {
				flat.typ = typ
			}
		case "__type":
			if typ := c.str(); len(flat.typ) == 0 {
				// It may be preceded by the namespace of the service.
				flat.typ = shapeName(typ)
			}
		default:
			flat.member(&c, key)
		}
	}
	if !nested.seen {
		return flat, c.end()
	}
	if nested.after == 0 {
		nested.after = flat.after
	}
	if nested.status == 0 {
		nested.status = flat.status
	}
	return nested, c.end()
}

// shapeName returns the name of an AWS error without the namespace before it and the
// address after it: com.amazon.coral.service#ThrottlingException,
// ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/.
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
func shapeName(name []byte) []byte {
	name, _, _ = bytes.Cut(name, []byte(":"))
	return name[bytes.LastIndexByte(name, '#')+1:]
}

// CompleteError adds to the error of an HTTP response body (ReadError) what its headers
// contain: AWS has the name of an exception only in x-amzn-errortype. Only known names
// are used: no header except request ids is recorded as it is. header is http.Header.Get
// or a similar function.
func CompleteError(e Error, header func(name string) string) Error {
	if e.Type == "" {
		if name := bounded(shapeName([]byte(header("x-amzn-errortype")))); classify.KnownProviderCode(name) {
			e.Type = name
		}
	}
	return e
}

// readError is ReadError for every protocol: they share the forms of errors.
func readError(body []byte) Error {
	f, _ := faultOf(bytes.TrimPrefix(body, []byte(byteOrderMark)))
	// Under an error status every flat object is an error: gateways answer
	// {"code":…,"message":…} and {"statusCode":…,"message":…}.
	return *f.asError()
}

const (
	// maxAfter bounds the delay that a provider asks for.
	maxAfter = 24 * time.Hour
	// maxMessage bounds the part of a message that is searched for a delay, in bytes.
	maxMessage = 4 << 10
)

// hintedDelay returns the delay that the message of a rate limit asks for: "Please try
// again in 1m3.5s.", "Please retry after 20 seconds." There is no other field for it, and
// an error inside a stream has no headers. 0: no delay was found.
func hintedDelay(message []byte) time.Duration {
	message = message[:min(len(message), maxMessage)]
	for _, words := range [...]string{"ry again in ", "etry after ", "etry in "} {
		if i := bytes.Index(message, []byte(words)); i >= 0 {
			return readDelay(message[i+len(words):])
		}
	}
	return 0
}

// readDelay reads a sequence of durations: 6m0s, 20ms, 1.5 seconds.
func readDelay(b []byte) time.Duration {
	var sum time.Duration
	for {
		n := 0
		for n < len(b) && n < 12 && (b[n]-'0' <= 9 || b[n] == '.') {
			n++
		}
		// The dot that ends a sentence is not part of the number.
		value, err := strconv.ParseFloat(string(b[:n]), 64)
		if err != nil {
			return sum
		}
		b = bytes.TrimLeft(b[n:], " ")
		word := 0
		for word < len(b) && (b[word]|0x20)-'a' < 26 {
			word++
		}
		unit, ok := units[string(b[:word])]
		if !ok {
			return sum
		}
		sum = min(sum+delay(value, unit), maxAfter)
		b = b[word:]
	}
}

// delay returns n units, bounded to 0 and maxAfter.
func delay(n float64, unit time.Duration) time.Duration {
	ns := n * float64(unit)
	switch {
	case !(ns > 0): // NaN as well
		return 0
	case ns > float64(maxAfter):
		return maxAfter
	default:
		return time.Duration(ns)
	}
}

var units = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
}
