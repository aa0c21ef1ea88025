package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// delivery is what a client delivered to its caller.
type delivery struct {
	text, reasoning int // number of non-empty pieces
	// Client-executed calls: a piece of the call was delivered; its input was complete
	// according to the protocol; the call was handed over according to the protocol.
	started, complete, handed int
	// loose: the client reported no error, and the input of a call that the protocol had
	// not completed is valid JSON, so that a program that trusts the client executes the
	// call.
	loose    bool
	provider int    // number of provider-executed tools that began
	refused  bool   // a refusal was among the text
	finish   string // the finish reason that the client reported, "" for none
	finished bool   // the client reported the protocol's end
	err      error
}

// whole reports whether the client delivered a complete answer and no error.
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

// calls tracks the client-executed calls of one answer, by the key with which the
// protocol identifies a call.
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

// completed marks the matching open calls as having complete input.
func (c calls[K]) completed(match func(K) bool) {
	for key, call := range c.open {
		if !call.complete && match(key) {
			call.complete = true
			c.complete++
		}
	}
}

// handOver marks the matching calls with complete input as delivered to the application.
func (c calls[K]) handOver(match func(K) bool) {
	for key, call := range c.open {
		if call.complete && !call.over && match(key) {
			call.over = true
			c.handed++
		}
	}
}

// end ends the tracking.
func (c calls[K]) end() {
	for _, call := range c.open {
		if c.err == nil && !call.complete && call.input.Len() > 0 && json.Valid([]byte(call.input.String())) {
			c.loose = true
		}
	}
}

func only[K comparable](key K) func(K) bool { return func(k K) bool { return k == key } }

func all[K comparable](K) bool { return true }
