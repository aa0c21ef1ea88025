package catalogue

import "strings"

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
