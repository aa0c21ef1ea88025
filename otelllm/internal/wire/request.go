package wire

import (
	"errors"
	"fmt"
	"slices"
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

// readOtherTools reads a list of offered tools, and adds the types of those that are no
// functions of the application.
func readOtherTools(c *cursor, tools []string) []string {
	for ok := c.array(); ok; ok = c.element() {
		if typ := readType(c); string(typ) != "function" {
			tools = addTool(tools, typ)
		}
	}
	return tools
}

// addTool adds the type of an offered provider-executed tool unless it is in the list.
func addTool(tools []string, name []byte) []string {
	safe := safeName(name)
	if safe == "" || len(tools) == MaxIDs || slices.Contains(tools, safe) {
		return tools
	}
	return append(tools, safe)
}
