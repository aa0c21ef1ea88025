package catalogue

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// QuotedNames returns the first known code and the first known type that a message quotes as
// members of an object, in JSON or in Python's notation, however deep: gateways put the error
// of a provider into their own message as text. Other words of the message are never names. ""
// means none.
func QuotedNames(message []byte) (code, typ string) {
	text := normalMessage(message)
	for {
		key, value, rest, ok := nextQuoted(text)
		if !ok {
			return code, typ
		}
		text = rest
		switch key {
		case "code", "reason", "error_code":
			if code == "" && KnownName(value) {
				code = value
			}
		case "type", "status", "__type", "error_type":
			if typ == "" && KnownName(value) {
				typ = value
			}
		case "quotaId":
			if strings.Contains(strings.ToLower(value), perDay) && len(value) <= maxName {
				code = value // the status beside it is that of any limit
			}
		}
	}
}

// nextQuoted returns the next member of a text whose value is a string without quotes in it,
// and the text from the value on.
func nextQuoted(text string) (key, value, rest string, ok bool) {
	for {
		colon := strings.IndexByte(text, ':')
		if colon < 0 {
			return "", "", "", false
		}
		before := strings.TrimRight(text[:colon], " ")
		text = text[colon+1:]
		if before == "" || !isQuote(before[len(before)-1]) {
			continue
		}
		before = before[:len(before)-1]
		key = before[strings.LastIndexAny(before, `"'`)+1:]
		after := strings.TrimLeft(text, " ")
		if after == "" || !isQuote(after[0]) {
			continue
		}
		end := strings.IndexByte(after[1:], after[0])
		if end < 0 {
			continue
		}
		return key, after[1 : 1+end], text, true
	}
}

func isQuote(b byte) bool { return b == '"' || b == '\'' }

// quotedStatus returns a pattern that finds an HTTP error status that a message quotes: as a member of an object, in
// JSON or in Python's notation, or in words such as "Error code: 400", "HTTP 400" and "returned 400"; a status with its
// reason phrase, such as "400 Bad Request"; or the exception that LiteLLM, and the SDKs that it calls, have for one. No
// package variable compiles it, so that a program that reads no message is linked without regular expressions.
func quotedStatus() *regexp.Regexp {
	quotedStatusOnce.Do(func() {
		quotedStatusPattern = regexp.MustCompile(`\b(?:code|status|status_code|statuscode|http_status|http|returned)["']?\s*(?:[:=]\s*|of\s+)?["'(]?([45]\d\d)\b|` +
			`\b(4\d\d) (?:bad request|unauthorized|payment required|forbidden|not found|unprocessable entity|too many requests)\b|` +
			`\blitellm\.(badrequest|unprocessableentity|authentication|permissiondenied|notfound|ratelimit)error\b`)
	})
	return quotedStatusPattern
}

var (
	quotedStatusOnce    sync.Once
	quotedStatusPattern *regexp.Regexp
)

// exceptions are the statuses of LiteLLM's exceptions.
// https://docs.litellm.ai/docs/exception_mapping
var exceptions = map[string]int{
	"badrequest": 400, "unprocessableentity": 422, "authentication": 401, "permissiondenied": 403, "notfound": 404, "ratelimit": 429,
}

// maxQuoted bounds the statuses of a message that are compared.
const maxQuoted = 16

// QuotedStatus returns the status, of 400 to 499, of the error that a message quotes. Several
// statuses, such as those of all the providers that a gateway has tried, say nothing together:
// 0. Those of 500 and more are mostly the gateway's own, and do not count. What went wrong with a
// fallback says nothing about the request.
func QuotedStatus(message []byte) int {
	text, _, _ := strings.Cut(strings.ToLower(normalMessage(message)), "error doing the fallback")
	status := 0
	for _, found := range quotedStatus().FindAllStringSubmatch(text, maxQuoted) {
		n, ok := exceptions[found[3]]
		if !ok {
			n, _ = strconv.Atoi(found[1] + found[2]) // one of them
		}
		switch {
		case n >= 500 || n == status:
		case status != 0:
			return 0
		default:
			status = n
		}
	}
	return status
}
