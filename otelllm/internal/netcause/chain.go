package netcause

import (
	"context"
	"reflect"
	"slices"
	"strings"
)

const (
	// maxDepth bounds the number of errors in a chain that are examined.
	maxDepth = 16
	// maxChain bounds the number of type names that are reported.
	maxChain = 5
	// maxTypeName bounds one type name, in bytes.
	maxTypeName = 256
)

// links returns the errors of a chain from outermost to root. If an error wraps several
// errors, only the first of them is followed.
func links(err error) []error { return linksBy(err, func(error) bool { return false }) }

// linksBy is links that follows an error which is to be skipped only if no other is wrapped
// beside it.
func linksBy(err error, skip func(error) bool) []error {
	chain := make([]error, 0, 4)
	for err != nil && len(chain) < maxDepth {
		chain = append(chain, err)
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			err = firstOf(e.Unwrap(), skip)
		default:
			err = nil
		}
	}
	return chain
}

func firstOf(errs []error, skip func(error) bool) (first error) {
	for _, e := range errs {
		if e == nil {
			continue
		}
		if !skip(e) {
			return e
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// isCancellation reports whether err is the error of a context itself.
func isCancellation(err error) bool {
	return identical(err, context.Canceled) || identical(err, context.DeadlineExceeded)
}

// Chain returns the type names of err's chain, in the form of [Failure.Chain].
func Chain(err error) []string {
	if err == nil {
		return nil
	}
	return typeChain(err)
}

func typeChain(err error) (names []string) {
	defer func() {
		_ = recover() // an Unwrap method panicked: keep the names so far
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

// TypeName returns the name of an error's type, at most 256 bytes.
func TypeName(err error) string {
	name := reflect.TypeOf(err).String()
	if len(name) > maxTypeName {
		name = strings.ToValidUTF8(name[:maxTypeName], "")
	}
	return name
}

// codeIn returns the name of the errno that an error carries, or "".
func codeIn(err error) string {
	for _, e := range links(err) {
		if code, ok := errnoName(e); ok {
			return code
		}
	}
	return ""
}

// RootType returns the most specific type name of an error: that of the innermost error of
// its chain that is not a plain wrapper or text. The error of a context is not followed if
// another one is joined to it.
func RootType(err error) (name string) {
	defer func() {
		_ = recover() // an Unwrap method panicked: keep the name so far
	}()
	name = TypeName(err)
	chain := linksBy(err, isCancellation)
	for _, e := range slices.Backward(chain) {
		switch n := TypeName(e); n {
		case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*otelllm.beforeEffectError":
		default:
			return n
		}
	}
	return TypeName(chain[len(chain)-1])
}
