package event

import "encoding/json"

// Blocks is the content of a message as a list of blocks. Content of another form, such as a prompt
// that is a text, has none.
type Blocks[T any] []T

// UnmarshalJSON implements [json.Unmarshaler]. It never fails.
func (b *Blocks[T]) UnmarshalJSON(raw []byte) error {
	var blocks []T
	if json.Unmarshal(raw, &blocks) == nil {
		*b = blocks
	}
	return nil
}
