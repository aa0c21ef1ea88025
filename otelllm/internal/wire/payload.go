package wire

// payloadKind is what a payload was.
type payloadKind uint8

const (
	malformed payloadKind = iota
	progress
	keepalive
	misnamed // its members are named in another case: nothing was made of it
	content  // it is a delta, which the caller adds: see tally.content
)

// payloadKind returns what a document is that c has read to its end.
func (c *cursor) payloadKind() payloadKind {
	switch {
	case !c.end():
		return malformed
	case c.misnamed:
		return misnamed
	default:
		return progress
	}
}
