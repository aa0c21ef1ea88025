package wire

// verdict is what a payload was.
type verdict uint8

const (
	malformed verdict = iota
	progress
	keepalive
	misnamed // its members are named in another case: nothing was made of it
	content  // it is a delta, which the caller adds: see tally.content
)

// verdict returns the verdict on a document that c has read to its end.
func (c *cursor) verdict() verdict {
	switch {
	case !c.end():
		return malformed
	case c.misnamed:
		return misnamed
	default:
		return progress
	}
}
