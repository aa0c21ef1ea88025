package main

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
)

// shape describes the content of a generated answer, in this order.
type shape struct {
	name      string
	reasoning bool
	text      bool
	calls     int
	refusal   bool
	// whole: text and calls come in one event each, not in pieces.
	whole bool
	// limit: the answer ends at the token limit.
	limit bool
	// fails: an error comes inside the stream, followed by "" for nothing, "text" for
	// text, or "end" for the protocol's end.
	fails bool
	then  string
	// bare: the calls have no input.
	bare bool
	// legacy: the call is a function_call. Interleaved: the calls come in turns. Between: a
	// text comes after each call. All three only in Chat Completions.
	legacy, interleaved, between bool
	// custom: the calls' input is text of any form. Only in Responses.
	custom bool
}

// shapes returns the shapes that are generated for a wire protocol.
func (w wire) shapes() []shape {
	switch all := shapes(); w {
	case chatWire:
		return append(all,
			shape{name: "legacy-call", calls: 1, legacy: true},
			shape{name: "legacy-whole", calls: 1, legacy: true, whole: true},
			shape{name: "interleaved", calls: 2, interleaved: true},
			shape{name: "calls-between", text: true, calls: 2, between: true},
		)
	case responsesWire:
		return append(all, shape{name: "custom", calls: 2, custom: true})
	default:
		return all
	}
}

// shapes returns those that every wire protocol has.
func shapes() []shape {
	return []shape{
		{name: "text", text: true},
		{name: "thought-text", reasoning: true, text: true},
		{name: "call", calls: 1},
		{name: "text-calls", text: true, calls: 2},
		{name: "thought-call", reasoning: true, calls: 1},
		{name: "whole", text: true, calls: 1, whole: true},
		{name: "whole-calls", calls: 2, whole: true},
		{name: "bare-calls", calls: 2, bare: true},
		{name: "refusal", refusal: true},
		{name: "limit", text: true, limit: true},
		{name: "empty"},
		{name: "error", fails: true},
		{name: "text-error", text: true, fails: true},
		{name: "error-text", fails: true, then: "text"},
		{name: "call-error-end", calls: 1, fails: true, then: "end"},
		{name: "thought-error-text", reasoning: true, fails: true, then: "text"},
	}
}

// rich returns the shapes that every framing is applied to.
func rich() []shape {
	return []shape{{name: "thought-text", reasoning: true, text: true}, {name: "text-calls", text: true, calls: 2}}
}

// q returns v, a string or what was JSON before, as JSON.
func q(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these can always be marshaled
	}
	return string(b)
}

// words returns one to three pieces of text, with escapes and non-ASCII characters.
func words(r *rand.Rand) []string {
	pool := []string{"Hello", " world", "é", " \"x\"", "\n", " 世界", "a", " {b}", " data: "}
	n := 1 + r.IntN(3)
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = pool[r.IntN(len(pool))]
	}
	return pieces
}

// input returns the input of a call, in pieces.
func input(r *rand.Rand) []string {
	whole := `{"path":` + q(words(r)[0]) + `,"n":` + strconv.Itoa(r.IntN(100)) + `}`
	at := 1 + r.IntN(len(whole)-1)
	for whole[at]&0xc0 == 0x80 { // not inside a UTF-8 sequence
		at--
	}
	return []string{whole[:at], whole[at:]}
}

// object returns the input of a call where it is not in a string.
func object(pieces []string) string { return cmp.Or(strings.Join(pieces, ""), "{}") }

// content is the content of an answer.
type content struct {
	shape
	thoughts, texts []string
	inputs          [][]string
	late            []string // text after the error
}

func (s shape) content(r *rand.Rand) content {
	c := content{shape: s}
	if s.reasoning {
		c.thoughts = words(r)
	}
	if s.text || s.refusal {
		c.texts = words(r)
	}
	for range s.calls {
		pieces := []string{}
		switch {
		case s.custom:
			pieces = words(r)
		case !s.bare:
			pieces = input(r)
		}
		c.inputs = append(c.inputs, pieces)
	}
	if s.then == "text" {
		c.late = words(r)
	}
	if s.whole {
		c.texts = []string{strings.Join(c.texts, "")}
		for i, pieces := range c.inputs {
			c.inputs[i] = []string{strings.Join(pieces, "")}
		}
	}
	return c
}
