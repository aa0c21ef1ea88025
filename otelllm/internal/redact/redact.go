// Package redact decides what may be recorded of a value that a provider, a gateway,
// a model or a client chose: an error's code, an id, a model's name, a host. Each
// function is one kind of field. A value is itself where it has the shape of its
// field and does not look like a credential; see [Credential] for what does.
//
// The package is pure and allocates nothing for a string that is fit to be recorded.
// Values of fewer than 14 bytes are never a credential, so most are not looked at twice.
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redacted is recorded instead of a value that is not fit to be.
const Redacted = "redacted"

// Bounds of the fields, in bytes.
const (
	MaxCode  = 80
	MaxName  = 64
	MaxID    = 128
	MaxModel = 256
	MaxLabel = 256
	maxHost  = 254 // of a name in the DNS, and the dot at its end
)

// Code is an error's code or type, a finish reason, or the reason of an abort: at
// most 80 bytes of [A-Za-z0-9_.:-]. Anything else is [Redacted].
func Code[T ~string | ~[]byte](s T) string {
	if !hasShape(s, codeBytes, MaxCode) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Name is the name of a tool or the type of one: at most 64 bytes of
// [A-Za-z0-9_.:/-]. Anything else is [Redacted].
func Name[T ~string | ~[]byte](s T) string {
	if !hasShape(s, nameBytes, MaxName) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Model is the name of a model: at most 256 bytes of [A-Za-z0-9] and
// _.:/-@[]()+#~, and no URL. Anything else is [Redacted]. Models are named as
// org/model@revision, model[1m], by an ARN, or by a path. The digest of a model
// (@ and 40 hex digits, a colon and 64) is no credential.
func Model[T ~string | ~[]byte](s T) string {
	if !hasShape(s, modelBytes, MaxModel) || hasScheme(s) || hasToken(s) || looksRandom(s, digests) {
		return Redacted
	}
	return string(s)
}

// ID is an id of a call, a response or a conversation, which has to be comparable: at
// most 128 bytes of [A-Za-z0-9_.:/-]. Any other becomes id- and 16 hex digits of its
// SHA-256, the same wherever it appears, and so does one that looks like a
// credential. See [Opaque] for how ids differ. An empty id stays empty.
func ID[T ~string | ~[]byte](s T) string {
	if !hasShape(s, nameBytes, MaxID) || !Opaque(s) {
		sum := sha256.Sum256([]byte(s))
		return "id-" + hex.EncodeToString(sum[:8])
	}
	return string(s)
}

// Opaque reports whether s may be an id: it does not look like a credential. Ids are
// random, so a long random run is one only where no prefix says whose id it is
// (call_, resp_, chatcmpl-, …) and it is not wholly of hex digits.
func Opaque[T ~string | ~[]byte](s T) bool {
	return !hasToken(s) && (hasIDPrefix(s) || !looksRandom(s, hexRuns))
}

// Type is the name of an error's type in any language: at most 256 bytes of
// [A-Za-z0-9] and _.:/-*$\[]<>#,&(). Anything else is [Redacted]: some
// instrumentations write a message there.
func Type[T ~string | ~[]byte](s T) string {
	if !hasShape(s, typeBytes, MaxLabel) || hasScheme(s) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Host is the name or the address of a host, or the path of a Unix socket: letters,
// digits and _.:-[]%, or / as the first byte and after it. Anything else, a URL and a
// host with a user before it among it, is [Redacted].
func Host(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > maxHost || hasScheme(s) {
		return Redacted
	}
	for _, c := range s {
		switch {
		case c < utf8.RuneSelf && hostBytes[c], c == '/' && s[0] == '/', c >= utf8.RuneSelf && unicode.IsLetter(c):
		default:
			return Redacted
		}
	}
	// The name of an AWS Lambda function URL is 32 random characters.
	if hasToken(s) || looksRandom(s, noExemption) && !strings.HasSuffix(s, ".on.aws") {
		return Redacted
	}
	return s
}

// Label is a name that an application's author chose, of an agent or a provider: the
// first 256 bytes of it, as valid UTF-8; [Redacted] where it looks like a credential.
func Label(s string) string {
	if len(s) > MaxLabel {
		s = s[:MaxLabel]
	}
	s = strings.ToValidUTF8(s, "")
	if Credential(s) {
		return Redacted
	}
	return s
}

// set is a set of bytes. Values are so mixed that comparisons one after the other
// are mostly foreseen wrong.
type set [256]bool

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

var (
	codeBytes  = setOf(alphanumeric + "_.:-")
	nameBytes  = setOf(alphanumeric + "_.:/-")
	modelBytes = setOf(alphanumeric + "_.:/-@[]()+#~,")
	typeBytes  = setOf(alphanumeric + `_.:/-*$\[]<>#,&()`)
	hostBytes  = setOf(alphanumeric + "_.:-[]%")
	wordBytes  = setOf(alphanumeric)
)

func setOf(bytes string) *set {
	s := &set{}
	for _, c := range []byte(bytes) {
		s[c] = true
	}
	return s
}

func hasShape[T ~string | ~[]byte](s T, of *set, limit int) bool {
	if len(s) > limit {
		return false
	}
	for i := range len(s) {
		if !of[s[i]] {
			return false
		}
	}
	return true
}

// scheme: s holds a URL's.
func hasScheme[T ~string | ~[]byte](s T) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == ':' && s[i+1] == '/' && s[i+2] == '/' {
			return true
		}
	}
	return false
}
