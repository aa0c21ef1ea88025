// Package redact decides what may be recorded of a value that a provider, a gateway, a
// model or a client chose: an error code, an id, the name of a model, a host. Each
// function handles one kind of field. It returns the value unchanged if the value has the
// form of the field and does not look like a credential; see [Credential].
//
// The package is pure. It allocates nothing for a string that may be recorded. A value of
// fewer than 14 bytes is never a credential, so most values need only one pass.
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redacted replaces a value that must not be recorded.
const Redacted = "redacted"

// Maximum lengths of the fields, in bytes.
const (
	MaxCode  = 80
	MaxName  = 64
	MaxID    = 128
	MaxModel = 256
	MaxLabel = 256
	maxHost  = 254 // of a DNS name, with the trailing dot
)

// Code returns an error code or type, a finish reason, or the reason of an abort: at most
// 80 bytes of [A-Za-z0-9_.:-]. It returns [Redacted] for anything else.
func Code[T ~string | ~[]byte](s T) string {
	if !hasShape(s, codeBytes, MaxCode) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Name returns the name or type of a tool: at most 64 bytes of [A-Za-z0-9_.:/-]. It
// returns [Redacted] for anything else.
func Name[T ~string | ~[]byte](s T) string {
	if !hasShape(s, nameBytes, MaxName) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Model returns the name of a model: at most 256 bytes of [A-Za-z0-9], the comma and
// _.:/-@[]()+#~, but not a URL, an e-mail address or a telephone number. It returns
// [Redacted] for anything else. Models are named as org/model@revision, as model[1m], by an
// ARN, or by a path. The digest of a model (@ and 40 hex digits, or a colon and 64) is not a
// credential.
func Model[T ~string | ~[]byte](s T) string {
	if !hasShape(s, modelBytes, MaxModel) || hasScheme(s) || personal(s) || hasToken(s) || looksRandom(s, digests) {
		return Redacted
	}
	return string(s)
}

// ID returns the id of a call, a response or a conversation: at most 128 bytes of
// [A-Za-z0-9_.:/-]. Ids have to stay comparable, so any other id, and any that looks like
// a credential, becomes id- followed by 16 hex digits of its SHA-256, the same wherever it
// appears. See [Opaque] for which ids look like one. An empty id stays empty.
func ID[T ~string | ~[]byte](s T) string {
	if !hasShape(s, nameBytes, MaxID) || !Opaque(s) {
		sum := sha256.Sum256([]byte(s))
		return "id-" + hex.EncodeToString(sum[:8])
	}
	return string(s)
}

// Opaque reports whether s may be an id, that is, whether it does not look like a
// credential and does not name a person. Ids are random. A long random run is therefore a
// credential only if no known prefix (call_, resp_, chatcmpl-, …) says whose id it is, and it
// does not consist of hex digits.
func Opaque[T ~string | ~[]byte](s T) bool {
	return !hasToken(s) && !personal(s) && (hasIDPrefix(s) || !looksRandom(s, hexRuns))
}

// Type returns the name of an error type, in any language: at most 256 bytes of
// [A-Za-z0-9] and _.:/-*$\[]<>#,&(). It returns [Redacted] for anything else: some
// instrumentations write a message there.
func Type[T ~string | ~[]byte](s T) string {
	if !hasShape(s, typeBytes, MaxLabel) || hasScheme(s) || Credential(s) {
		return Redacted
	}
	return string(s)
}

// Host returns the name or address of a host, or the path of a Unix socket: letters,
// digits and _.:-[]%, and also / if the first byte is one. It returns [Redacted] for
// anything else, such as a URL or a host with a user.
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
	// The name of an AWS Lambda function URL consists of 32 random characters.
	if hasToken(s) || looksRandom(s, noExemption) && !strings.HasSuffix(s, ".on.aws") {
		return Redacted
	}
	return s
}

// Label returns a name that the author of an application chose, such as that of an agent
// or a provider: its first 256 bytes, as valid UTF-8. It returns [Redacted] if the name
// looks like a credential.
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

// set is a set of bytes. A table is faster than comparisons, which the CPU mostly
// mispredicts because values are so mixed.
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

// hasScheme reports whether s contains the scheme of a URL.
func hasScheme[T ~string | ~[]byte](s T) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == ':' && s[i+1] == '/' && s[i+2] == '/' {
			return true
		}
	}
	return false
}
