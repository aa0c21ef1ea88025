package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxOnce is the maximum number of lines that Once takes.
const maxOnce = 10_000

// Once judges facts on their own, and keeps nothing: one line, or a JSON array of lines, in their
// order. It returns the answer to the last one. A line that is not valid ends it, and the answer is
// the error, with the number of the line from 1 on. It never fails.
func Once(raw []byte) []byte {
	lines, err := splitLines(raw)
	if err != nil {
		return marshal(answerError{nil, err.Error(), 1}, nil, 1)
	}
	j := New(Options{})
	var l line
	var last any
	for i, text := range lines {
		l, err = parseLine(text)
		// Only the last verdict is wanted. To make one costs more than to take a line.
		l.silent = i < len(lines)-1
		if err == nil {
			last, err = j.answer(&l, text)
		}
		if err != nil {
			return marshal(answerError{l.ref, err.Error(), i + 1}, l.ref, i+1)
		}
	}
	return marshal(last, l.ref, len(lines))
}

// splitLines returns the lines of a JSON array, or the only one.
func splitLines(raw []byte) ([]json.RawMessage, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' {
		return []json.RawMessage{raw}, nil
	}
	var lines []json.RawMessage
	switch err := json.Unmarshal(raw, &lines); {
	case err != nil:
		return nil, errors.New("the facts are not valid JSON")
	case len(lines) == 0:
		return nil, errors.New("there are no facts: the array is empty")
	case len(lines) > maxOnce:
		return nil, fmt.Errorf("there are more than %d facts", maxOnce)
	}
	return lines, nil
}
