package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	maxSafeID   = 128
	maxSafeName = 64
	maxModel    = 256
	maxCode     = 128
)

// redacted stands for a value that is not what it should be.
const redacted = "redacted"

// SafeID is an id fit to be recorded. Providers, gateways and models write ids,
// so one may hold anything: an id of at most 128 bytes of [A-Za-z0-9_.:/-] is
// itself, any other becomes id- and 16 hex digits of its SHA-256, the same
// wherever it appears. An empty id stays empty.
func SafeID(id string) string {
	if isSafe(id, maxSafeID) {
		return id
	}
	return hashed([]byte(id))
}

// SafeName is a name (of a tool, of a finish reason) fit to be recorded: at most
// 64 bytes of [A-Za-z0-9_.:/-], else "redacted". An empty name stays empty.
func SafeName(name string) string {
	if isSafe(name, maxSafeName) {
		return name
	}
	return redacted
}

// safeID is [SafeID] of bytes that are not retained.
func safeID(id []byte) string {
	if isSafe(id, maxSafeID) {
		return string(id)
	}
	return hashed(id)
}

// safeName is [SafeName] of bytes that are not retained.
func safeName(name []byte) string {
	if isSafe(name, maxSafeName) {
		return string(name)
	}
	return redacted
}

// safeModel is a model's name: at most 256 bytes of visible ASCII, else "redacted".
// Names of models hold more than those of tools: org/model@rev, model[1m], an ARN.
func safeModel(name []byte) string {
	if len(name) > maxModel {
		return redacted
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return redacted
		}
	}
	return string(name)
}

// bounded is b as a string of at most maxCode bytes.
func bounded(b []byte) string {
	return string(b[:min(len(b), maxCode)])
}

func isSafe[T string | []byte](s T, limit int) bool {
	if len(s) > limit {
		return false
	}
	for i := range len(s) {
		if !safeBytes[s[i]] {
			return false
		}
	}
	return true
}

// safeBytes are those of [A-Za-z0-9_.:/-]: ids are so mixed that comparisons one
// after the other are mostly foreseen wrong.
var safeBytes = func() (safe [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-" {
		safe[c] = true
	}
	return safe
}()

func hashed(id []byte) string {
	sum := sha256.Sum256(id)
	return "id-" + hex.EncodeToString(sum[:8])
}
