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
	// ran is the number of calls that an eager program has executed: as soon as their input
	// was one JSON value, or where they were complete without one. An error that came later
	// does not undo it.
	ran      int
	bare     int    // those among them that ran without an input
	provider int    // number of provider-executed tools that began
	refused  bool   // a refusal was among the text
	finish   string // the finish reason that the client reported, "" for none
	finished bool   // the client reported the protocol's end
	err      error
}

// whole reports whether the client delivered a complete answer and no error.
func (d *delivery) whole() bool { return d.finished && d.err == nil }

func (d *delivery) String() string {
	return fmt.Sprintf("text %d, reasoning %d, calls %d begun %d complete %d handed over (%d ran), provider tools %d, finish %q, finished %t, error %T",
		d.text, d.reasoning, d.started, d.complete, d.handed, d.ran, d.provider, d.finish, d.finished, d.err)
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
	input          string
	free           bool // the input is text of any form
	complete, over bool
	ran            bool
}

// empty reports whether the call has no input so far. Programs take it for no arguments.
func (c *openCall) empty() bool { return strings.TrimSpace(c.input) == "" }

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

// piece adds a part of the input of a call.
func (c calls[K]) piece(key K, input string) { c.input(key, c.begin(key).input+input) }

// input sets the input of a call so far.
func (c calls[K]) input(key K, input string) {
	call := c.begin(key)
	if call.input = input; !call.free && json.Valid([]byte(input)) {
		c.run(call)
	}
}

// run executes a call, once.
func (c calls[K]) run(call *openCall) {
	if call.ran {
		return
	}
	call.ran = true
	if c.ran++; !call.free && call.empty() {
		c.bare++
	}
}

// runs executes a call that the client has said to be complete. Without a JSON value as its
// input it fails before it does anything.
func (c calls[K]) runs(call *openCall) {
	if call.free || call.empty() {
		c.run(call)
	}
}

// completed marks the matching open calls as having complete input.
func (c calls[K]) completed(match func(K) bool) {
	for key, call := range c.open {
		if !call.complete && match(key) {
			call.complete = true
			c.complete++
			c.runs(call)
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

// end ends the tracking. Where the client reports no error, a program takes the calls for
// complete.
func (c calls[K]) end() {
	if c.err != nil {
		return
	}
	for _, call := range c.open {
		c.runs(call)
	}
}

func only[K comparable](key K) func(K) bool { return func(k K) bool { return k == key } }

func all[K comparable](K) bool { return true }
