package spantest

import "strings"

// Credentials are credentials in the formats in which they are issued. None was ever
// valid.
var Credentials = []string{
	"s" + "k-9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr",
	"s" + "k-ant-api03-bN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7",
	"AIza" + "SyB3fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3Te",
	"ghp_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
	"xoxb" + "-123456789012-fKq2LmZx7Rt4VbN8",
	"fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0",
}

// WithKey returns text with every KEY replaced by key. A random key after the prefix of an
// id is a valid id, so the random one replaces the prefix, too.
func WithKey(text, key string) string {
	if key == Credentials[len(Credentials)-1] {
		text = strings.NewReplacer("call_KEY", "KEY", "resp_KEY", "KEY").Replace(text)
	}
	return strings.ReplaceAll(text, "KEY", key)
}

// Find returns the surroundings of the secret part of key in text, or "" if it is not
// there.
func Find(text, key string) string {
	secret := key[strings.IndexAny(key, "-_.")+1:]
	at := strings.Index(text, secret)
	if at < 0 {
		return ""
	}
	return text[max(0, at-200):min(len(text), at+100)]
}
