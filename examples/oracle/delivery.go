package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// delivery is what a client gave to its caller.
type delivery struct {
	text, reasoning int // pieces that are not empty
	// Client-executed calls: a piece of one was given; its input was complete, as the
	// protocol has it; the call was handed over, as the protocol has it.
	started, complete, handed int
	// loose: the client reported no error, and the input of a call that the protocol had
	// not completed is JSON: a program that trusts the client executes it.
	loose    bool
	provider int    // provider-executed tools that began
	refused  bool   // a refusal was among the text
	finish   string // the reason that the client gave, "" for none
	finished bool   // the client gave the protocol's end
	err      error
}

// whole: the client gave a whole answer, and no error.
func (d *delivery) whole() bool { return d.finished && d.err == nil }

func (d *delivery) String() string {
	return fmt.Sprintf("text %d, reasoning %d, calls %d begun %d complete %d handed over (loose %t), provider tools %d, finish %q, finished %t, error %T",
		d.text, d.reasoning, d.started, d.complete, d.handed, d.loose, d.provider, d.finish, d.finished, d.err)
}

func (d *delivery) wrote(text string) {
	if text != "" {
		d.text++
	}
}

func (d *delivery) thought(text string) {
	if text != "" {
		d.reasoning++
	}
}

func (d *delivery) denied(text string) {
	if text != "" {
		d.text++
		d.refused = true
	}
}

// calls are the client-executed calls of one answer, by the key that the protocol has for
// what belongs together.
type calls[K comparable] struct {
	*delivery
	open map[K]*openCall
}

type openCall struct {
	input          strings.Builder
	complete, over bool
}

func callsOf[K comparable](d *delivery) calls[K] { return calls[K]{d, map[K]*openCall{}} }

func (c calls[K]) begin(key K) *openCall {
	if known := c.open[key]; known != nil {
		return known
	}
	known := &openCall{}
	c.open[key] = known
	c.started++
	return known
}

func (c calls[K]) piece(key K, input string) { c.begin(key).input.WriteString(input) }

// completed says that a call that began, or any that matches, has its whole input.
func (c calls[K]) completed(match func(K) bool) {
	for key, call := range c.open {
		if !call.complete && match(key) {
			call.complete = true
			c.complete++
		}
	}
}

// handOver says that the calls with a whole input are the application's.
func (c calls[K]) handOver(match func(K) bool) {
	for key, call := range c.open {
		if call.complete && !call.over && match(key) {
			call.over = true
			c.handed++
		}
	}
}

// end closes the books.
func (c calls[K]) end() {
	for _, call := range c.open {
		if c.err == nil && !call.complete && call.input.Len() > 0 && json.Valid([]byte(call.input.String())) {
			c.loose = true
		}
	}
}

func only[K comparable](key K) func(K) bool { return func(k K) bool { return k == key } }

func all[K comparable](K) bool { return true }
