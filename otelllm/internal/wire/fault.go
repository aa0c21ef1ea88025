package wire

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
)

// fault is the part of an error object that is read. Its slices point into the payload.
type fault struct {
	seen      bool
	listed    bool // it is one of a list
	beside    bool // there are objects or lists in it that are not read
	failed    bool // it says that it is no success
	typ, code []byte
	reason    []byte // Google's code, whose code is a status, or Anthropic's, which has none
	quota     []byte // Google's name of a quota that is exhausted
	eventID   []byte // of the Realtime API: the client's event that caused it
	status    int
	after     time.Duration

	messages [maxMessages][]byte // what it says in words: searched in memory and never kept
	said     uint8               // how many of them there are
}

// maxMessages bounds the texts of one error that are searched.
const maxMessages = 4

// say keeps a text of the error until [fault.asError].
func (f *fault) say(text []byte) {
	if len(text) == 0 || int(f.said) == maxMessages {
		return
	}
	f.messages[f.said] = text
	f.said++
}

// wait returns the delay that the error asks for, in a member of its own or in words.
func (f *fault) wait() time.Duration {
	after := f.after
	for i := 0; after == 0 && i < int(f.said); i++ {
		after = hintedDelay(f.messages[i])
	}
	return after
}

// read reads the value of an `error` member: an object, a text, which may not be recorded,
// or a list of them, as Cloudflare's AI Gateway has it. null, "", {} and [] are not an error.
func (f *fault) read(c *cursor) {
	switch c.peek() {
	case '{':
	case '[':
		f.words(c, 0)
		f.listed = f.said > 0 || len(f.code) > 0
		f.seen = f.seen || f.listed
		return
	default:
		text := c.str()
		f.say(text)
		f.seen = f.seen || len(text) > 0
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		f.seen = true
		f.member(c, key)
	}
}

// uncapital returns a key without the capital that the services of Amazon and Tencent Cloud begin it with: Message, Code.
func uncapital(key []byte) []byte {
	if len(key) > 0 && key[0] >= 'A' && key[0] <= 'Z' {
		key = bytes.Clone(key)
		key[0] += 'a' - 'A'
	}
	return key
}

// member reads one member of an error object.
func (f *fault) member(c *cursor, key []byte) {
	switch string(uncapital(key)) {
	case "type":
		f.typ = c.text()
	case "code":
		f.code = c.text()
		f.setStatus(f.code)
	case "status", "status_code", "statusCode", "http_status", "http_status_code", "http_code":
		// A number, or a name in Google's errors (RESOURCE_EXHAUSTED).
		status := c.text()
		if !f.setStatus(status) && len(f.typ) == 0 {
			f.typ = status
		}
	case "message", "msg", "detail", "title", "error_message", "error_description", "description":
		f.words(c, 0)
	case "innererror", "upstream_error", "errors": // Azure, relays, Google and Cloudflare
		f.words(c, 0)
	case "value": // of Vercel's gateway: the chunk of a provider that it did not know (vercel/ai#18303)
		if c.peek() == '{' {
			f.words(c, 0)
		} else {
			c.skip()
		}
	case "base_resp":
		f.readBase(c)
	case "reason": // of Amazon's services, beside a message
		if reason := c.str(); catalogue.KnownName(string(reason)) {
			f.reason = reason
		}
	case "success":
		f.failed = c.peek() == 'f'
		c.skip()
	case "event_id":
		f.eventID = c.str()
	case "retry_after", "retry_after_seconds":
		f.setAfter(c.text(), time.Second)
	case "retry_after_ms":
		f.setAfter(c.text(), time.Millisecond)
	case "resets_in_seconds", "reset_seconds": // of ChatGPT's plans, beside resets_at; of CLIProxyAPI
		f.setAfter(c.text(), time.Second)
	case "resets_at", "reset_at", "reset_time":
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
		f.beside = f.beside || c.peek() == '{' || c.peek() == '['
		c.skip()
	}
}

// addSiblings adds what the members beside an error say that is a text alone, such as those of
// {"error":"text","status":400,"details":"text"}. data is the payload that has them.
func (f *fault) addSiblings(data []byte) {
	if !f.seen || f.status != 0 || len(f.typ) > 0 || len(f.named()) > 0 {
		return
	}
	if whole, ok := faultOf(data); ok && whole.seen {
		*f = whole
	}
}

// words reads a text about the error, or what has one: an object, or a list of them. The
// names in it count if the error has no other.
func (f *fault) words(c *cursor, depth int) {
	switch {
	case depth > maxWordsDepth:
		c.skip()
	case c.peek() == '"':
		f.say(c.str())
	case c.peek() == '[':
		for ok := c.array(); ok; ok = c.element() {
			f.words(c, depth+1)
		}
	case c.peek() == '{':
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "code", "reason":
				if code := c.text(); len(f.code) == 0 {
					f.code = code
				}
			case "type":
				if typ := c.str(); len(f.typ) == 0 || string(f.typ) == "error" {
					f.typ = typ
				}
			case "message", "msg", "detail", "error", "innererror", "error_message":
				f.words(c, depth+1)
			default:
				c.skip()
			}
		}
	default:
		c.skip()
	}
}

// maxWordsDepth bounds how deep the texts of an error are nested.
const maxWordsDepth = 4

// readBase reads MiniMax's status of an answer, which comes with every answer: 0 is success.
func (f *fault) readBase(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "status_code":
			if n := c.number(); len(n) > 0 && string(n) != "0" {
				f.seen = true
				f.code = append([]byte("base_resp."), n...)
			}
		case "status_msg":
			f.say(c.str())
		default:
			c.skip()
		}
	}
}

// detail reads additional data of an error: OpenRouter's metadata, or one of Google's
// details, of which RetryInfo has the delay and ErrorInfo the meaning of the status.
func (f *fault) detail(c *cursor) {
	if c.peek() == '"' {
		f.say(c.str())
		return
	}
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "retry_after", "retry_after_seconds", "retry_after_ms":
			f.member(c, key)
		case "headers": // of the limit that was hit, as OpenRouter sends them
			for name, ok := c.object(); ok; name, ok = c.key() {
				if strings.EqualFold(string(name), "X-RateLimit-Reset") {
					f.setReset(c.text())
				} else {
					c.skip()
				}
			}
		case "retryDelay":
			if after := readDelay(c.str()); after > 0 {
				f.after = after
			}
		case "reason", "error_code": // error_code: of Anthropic, beside a type that says less
			f.reason = c.str()
		case "error_type":
			if typ := c.str(); len(f.typ) == 0 {
				f.typ = typ
			}
		case "raw", "limit_source", "detail": // of OpenRouter; raw is the provider's own error
			f.words(c, 0)
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

// setReset sets the delay to the time until the moment b, unless a delay is known.
func (f *fault) setReset(b []byte) {
	if f.after == 0 {
		f.after = readMoment(b)
	}
}

// now is the time, which tests set.
var now = time.Now

// asError copies what was read. Of the texts it keeps which phrases and which names of the
// catalogue are in them.
func (f *fault) asError() *Error {
	e := &Error{Type: bounded(f.typ), Code: bounded(f.named()), Status: f.status, RetryAfter: f.wait()}
	for _, text := range f.messages[:f.said] {
		e.Phrases = catalogue.FindPhrases(e.Phrases, text)
		if e.Quoted == 0 {
			e.Quoted = catalogue.QuotedStatus(text)
		}
		if !general(e.Code) && !general(e.Type) {
			continue
		}
		code, typ := catalogue.QuotedNames(text)
		if general(e.Code) && code != "" {
			e.Code = code
		}
		if general(e.Type) && typ != "" {
			e.Type = typ
		}
	}
	return e
}

// general reports whether a name says so little that one quoted in a message says more: it is
// missing, or an HTTP status, or in the catalogue as the name of a family.
func general(name string) bool { return name == "" || !catalogue.SpecificName(name) }

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
	also := f.asError()
	if e.Type == "" {
		e.Type = also.Type
	}
	if e.Code == "" {
		e.Code = also.Code
	}
	if e.Status == 0 {
		e.Status = f.status
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = also.RetryAfter
	}
	if e.Quoted == 0 {
		e.Quoted = also.Quoted
	}
	e.Phrases = e.Phrases.Join(also.Phrases)
}

// known reports whether an object is an error by what it says, although it does not have the
// form of one: it has an error status, or a name or a phrase of the catalogue, or nothing but words beside
// a number as code that is not that of success, or beside success: false.
func (f *fault) known() bool {
	if f.status != 0 || catalogue.KnownName(string(f.named())) || f.said > 0 && catalogue.KnownName(string(f.typ)) {
		return true // a type alone may be the state of a job: cancelled
	}
	for _, text := range f.messages[:f.said] {
		if catalogue.FindPhrases(nil, text).Known() {
			return true
		}
	}
	n, err := strconv.Atoi(string(f.code))
	return (f.failed || err == nil && (n < 0 || n >= 400)) && f.said > 0 && !f.beside
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
//	{"code":"…","error":"text"}                  xAI
//	{"base_resp":{"status_code":1008}}           MiniMax
//	{"error_code":50001,"text":"text"}           FastChat
//	{"error_code":336003,"error_msg":"text"}     Qianfan
//	{"Response":{"Error":{"Code","Message"}}}    Tencent Cloud
//	{"code":11200,"message":"text"}              Spark
//	{"detail":"text"}, problem+json              gateways, FastAPI
//
// ok: the document is well-formed. Of a document that was cut, the readable part is
// returned.
func faultOf(data []byte) (f fault, ok bool) {
	c := cursor{b: data}
	var nested, flat fault
	var words []byte
	text := false
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "error":
			text = c.peek() == '"'
			nested.read(&c)
		case "OriginalStatusCode": // of SageMaker: what the model answered
			flat.setStatus(c.text())
		case "Response", "response":
			nested.readWithin(&c)
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
		case "error_code": // 0 is success
			if code := c.text(); len(code) > 0 && string(code) != "0" {
				flat.seen, flat.code = true, code
			}
		case "text":
			words = c.str()
		case "error_msg":
			flat.words(&c, 0)
		default:
			flat.member(&c, key)
		}
	}
	if flat.seen {
		flat.say(words)
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
	if text { // the members beside it are those of the error
		nested.typ, nested.code = flat.typ, flat.code
	}
	for _, said := range flat.messages[:flat.said] {
		nested.say(said)
	}
	return nested, c.end()
}

// strayError returns the error in an event of a type, if gateways have sent it without the type of an
// error, or in another form than that of the protocol.
func strayError(typ, data []byte) (f fault, ok bool) {
	if len(typ) > 0 && string(typ) != "error" {
		return fault{}, false
	}
	f, _ = faultOf(data)
	f.seen = f.seen || f.known() || len(typ) > 0
	return f, f.seen
}

// readWithin reads the error in an object of Tencent Cloud, which wraps an answer, too.
func (f *fault) readWithin(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(uncapital(key)) == "error" {
			f.read(c)
		} else {
			c.skip()
		}
	}
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
// or a similar function. Amazon API Gateway has such names, too, for errors of its own.
func CompleteError(e Error, header func(name string) string) Error {
	if e.Type == "" {
		if name := bounded(shapeName([]byte(header("x-amzn-errortype")))); catalogue.KnownName(name) {
			e.Type, e.Foreign = name, e.Foreign && header("x-amz-apigw-id") != ""
		}
	}
	return e
}

// readError is ReadError for every protocol: they share the forms of errors. A body that is
// not a JSON object may be one in a list (Google), an event stream with an error, or a text
// or a page, whose words count.
func readError(body []byte) Error {
	body = bytes.TrimPrefix(body, []byte(byteOrderMark))
	f, _ := faultOf(body)
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		if i := bytes.IndexByte(body[:min(len(body), maxMessage)], '{'); i >= 0 && start[0] != '<' {
			f, _ = faultOf(body[i:])
		}
		if !f.shaped() && f.said == 0 {
			f.say(body)
		}
	}
	// Under an error status every flat object is an error: gateways answer
	// {"code":…,"message":…} and {"statusCode":…,"message":…}.
	e := f.asError()
	e.Foreign = !f.shaped()
	return *e
}

// shaped reports whether the error has the form of a provider's: an error object or text, or
// a flat object with a code or a type, but no list. An address as type is that of problem+json.
func (f *fault) shaped() bool {
	return !f.listed && (f.seen || len(f.named()) > 0 || len(f.typ) > 0 && !bytes.Contains(f.typ, []byte("://")) && !bytes.HasPrefix(f.typ, []byte("about:")))
}
