package netcause

import (
	"reflect"
	"slices"
	"strings"
)

const (
	// maxDepth bounds how many errors of a chain are looked at.
	maxDepth = 16
	// maxChain bounds the chain of type names that is reported.
	maxChain = 5
	// maxTypeName bounds one type name, in bytes.
	maxTypeName = 256
)

// links lists the errors of a chain from outermost to root. Of an error that
// wraps several the first is followed.
func links(err error) []error {
	chain := make([]error, 0, 4)
	for err != nil && len(chain) < maxDepth {
		chain = append(chain, err)
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			err = nil
			for _, inner := range e.Unwrap() {
				if inner != nil {
					err = inner
					break
				}
			}
		default:
			err = nil
		}
	}
	return chain
}

// Chain holds the names of the types of err's chain, as [Failure] has them.
func Chain(err error) []string {
	if err == nil {
		return nil
	}
	return typeChain(err)
}

func typeChain(err error) (names []string) {
	defer func() {
		_ = recover() // an Unwrap panicked: the names so far stand
	}()
	chain := links(err)
	if len(chain) > maxChain {
		chain[maxChain-1] = chain[len(chain)-1]
		chain = chain[:maxChain]
	}
	names = make([]string, 0, len(chain))
	for _, e := range chain {
		names = append(names, TypeName(e))
	}
	return names
}

// TypeName is the name of an error's type, at most 256 bytes.
func TypeName(err error) string {
	name := reflect.TypeOf(err).String()
	if len(name) > maxTypeName {
		name = strings.ToValidUTF8(name[:maxTypeName], "")
	}
	return name
}

// codeIn is the name of the errno that an error carries, or "".
func codeIn(err error) string {
	for _, e := range links(err) {
		if code, ok := errnoName(e); ok {
			return code
		}
	}
	return ""
}

// RootType is the name of the type that says most about an error: the innermost
// of its chain that is no mere wrapping or text.
func RootType(err error) (name string) {
	defer func() {
		_ = recover() // an Unwrap panicked: the name so far stands
	}()
	name = TypeName(err)
	chain := links(err)
	for _, e := range slices.Backward(chain) {
		switch n := TypeName(e); n {
		case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*agentrun.beforeEffectError":
		default:
			return n
		}
	}
	return TypeName(chain[len(chain)-1])
}
