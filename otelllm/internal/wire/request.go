package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// errEmptyBody and the other errors about request bodies contain offsets, never bytes of
// the body.
var errEmptyBody = errors.New("wire: the request body is empty")

// requestError describes what is wrong with a request body that c has read.
func requestError(c *cursor, isObject bool) error {
	switch {
	case len(c.b) == 0:
		return errEmptyBody
	case !isObject:
		return errors.New("wire: the request body is not a JSON object")
	case !c.end():
		if !c.bad {
			c.badAt = c.i
		}
		return fmt.Errorf("wire: the request body is not valid JSON at byte %d of %d", c.badAt, len(c.b))
	default:
		return nil
	}
}

// readStream reads a stream member that is not defined by the protocol. unknown: it is
// neither true nor false.
func readStream(c *cursor) (stream, unknown bool) {
	b := c.peek()
	stream = c.boolean()
	return stream, b != 't' && b != 'f'
}

// limit records a bound on the tokens of the answer. The smallest one counts; a negative n
// is not a bound.
func (r *Request) limit(n int) {
	if n >= 0 && (!r.MaxTokens.Observed() || n < r.MaxTokens.N()) {
		r.MaxTokens = classify.Counted(n)
	}
}

// newestIDs keeps the newest MaxIDs ids, in order. They point into the body.
type newestIDs struct {
	ring [MaxIDs][]byte
	n    int // number of ids that were added
}

func (r *newestIDs) add(id []byte) {
	if len(id) > 0 {
		r.ring[r.n%MaxIDs] = id
		r.n++
	}
}

// safe returns a copy of the ids, the oldest first. It is never nil.
func (r *newestIDs) safe() []string {
	ids := make([]string, 0, min(r.n, MaxIDs))
	for i := max(0, r.n-MaxIDs); i < r.n; i++ {
		ids = append(ids, safeID(r.ring[i%MaxIDs]))
	}
	return ids
}

// readTypeAndIDs reads the type of a part of the history, and the members of these names: the
// id of a call, and that of the call which an output is for.
func readTypeAndIDs(c *cursor, call, output string) (typ, callID, outputID []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case call:
			callID = c.str()
		case output:
			outputID = c.str()
		default:
			c.skip()
		}
	}
	return typ, callID, outputID
}

// offeredTools are the provider-executed tools that a request offers.
type offeredTools struct {
	names  []string
	hidden bool // there may be others, which the request does not show
}

// array enters the list of tools of a request.
func (o *offeredTools) array(c *cursor) bool {
	b := c.peek()
	o.hidden = o.hidden || b != '[' && b != 'n'
	return c.array()
}

// add adds a tool, unless it is among them. One without a name may be any.
func (o *offeredTools) add(name []byte) {
	safe := safeName(name)
	switch {
	case safe == "":
		o.hidden = true
	case len(o.names) < MaxIDs && !slices.Contains(o.names, safe):
		o.names = append(o.names, safe)
	}
}

// addUnlessFunction reads a list of tools, and adds those that are no functions of the
// application.
func (o *offeredTools) addUnlessFunction(c *cursor) {
	for ok := o.array(c); ok; ok = c.element() {
		if typ := readToolType(c); string(typ) != "function" {
			o.add(typ)
		}
	}
}

// readToolType reads the type of a tool of Chat Completions and the like. Many servers take
// functions without one.
func readToolType(c *cursor) (typ []byte) {
	function := false
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case "function":
			function = c.peek() == '{'
			c.skip()
		default:
			c.skipUnknown(key)
		}
	}
	if len(typ) == 0 && function {
		typ = []byte("function")
	}
	return typ
}

// types returns the value of [Request.ProviderTools].
func (o *offeredTools) types() []string {
	switch {
	case o.hidden:
		return nil
	case o.names == nil:
		return []string{}
	default:
		return o.names
	}
}
