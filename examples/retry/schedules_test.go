package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/retry"
)

// TestSchedules plays random schedules of faults to agents on the SDKs of OpenAI and Anthropic,
// over real connections: answers that break at any byte, refused connections, refusals with
// waits. The agents execute calls when an answer is complete, or while it still arrives; with
// their tools declared or not; around each model call or around the turn. The person that they
// ask knows what really happened. Nothing is paid twice, the budget is kept, and so are waits.
//
// Two oracles count the questions. One knows what really happened. The other knows what the wire and
// the hooks show: of a tool that is not recorded it cannot know whether it ran, once the client has
// a call that could be executed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	schedules := 10_000 / sample.Every(40)
	m := startModel(t)
	base := &http.Transport{DisableKeepAlives: true}
	asked := map[string]*asks{}
	var all, recorded asks
	for seed := range schedules {
		a := newSchedule(m, base, seed)
		err := a.work(t.Context())
		for invoice, times := range a.paid {
			assert.LessOrEqual(t, times, 1, "schedule %d pays invoice %d %d times (%s): %v\n%s", seed, invoice, times, a.kind(), err, strings.Join(a.play.log, "\n"))
		}
		assert.Zero(t, a.unasked, "schedule %d did not ask (%s)\n%s", seed, a.kind(), strings.Join(a.play.log, "\n"))
		assert.Zero(t, a.play.early, "schedule %d did not wait\n%s", seed, strings.Join(a.play.log, "\n"))
		assert.LessOrEqual(t, a.most, a.policy.Attempts, "schedule %d", seed)
		if asked[a.kind()] == nil {
			asked[a.kind()] = &asks{}
		}
		for _, sum := range []*asks{asked[a.kind()], &all} {
			sum.add(&a.asks, err)
		}
		if a.declared {
			recorded.add(&a.asks, err)
		}
		if t.Failed() {
			break
		}
	}
	for kind, sum := range asked {
		t.Logf("%-40s %v", kind, sum)
	}
	t.Logf("%-40s %v", "all", &all)
	t.Logf("%-40s %v", "all, recorded", &recorded)
	assert.Greater(t, all.succeeded, schedules/3)
	assert.Greater(t, all.attempts, schedules)
	if !sample.Only() { // few schedules may have more
		assert.LessOrEqual(t, float64(recorded.asked), 1.05*float64(recorded.due), "questions where tools are recorded")
		assert.LessOrEqual(t, float64(all.asked-recorded.asked), 1.05*float64(all.due-recorded.due+all.unknown), "questions where they are not")
	}
}

// asks counts what schedules ended in, and the questions that were asked. Due were those after
// which something would have been repeated, and unknown those of which the client cannot know that.
type asks struct{ schedules, succeeded, attempts, asked, due, unknown, unasked int }

func (a *asks) add(o *asks, err error) {
	a.schedules++
	if err == nil {
		a.succeeded++
	}
	a.attempts, a.asked, a.due, a.unknown, a.unasked = a.attempts+o.attempts, a.asked+o.asked, a.due+o.due, a.unknown+o.unknown, a.unasked+o.unasked
}

func (a *asks) String() string {
	return fmt.Sprintf("%d schedules, %d succeeded, %d attempts, %d questions, %d due, %d not known, %d not asked", a.schedules, a.succeeded, a.attempts, a.asked, a.due, a.unknown, a.unasked)
}

// schedule is an agent with what it really did.
type schedule struct {
	play     *play
	url      string
	http     *http.Client
	policy   retry.Policy
	eager    bool // it executes a call as soon as its arguments are JSON
	declared bool // its tools are recorded
	effect   otelllm.Effect
	turns    bool // it repeats turns, not model calls
	sdk      int  // retries of the SDK
	store    *store

	history []step
	paid    map[int]int // by invoice
	most    int         // the most requests of one model call
	asks

	// Of the attempt that is going on:
	shown   bool // it has shown text
	dropped bool // it executed a call, and lost its output
	ready   bool // it has a call that a client could execute
	open    bool // the attempt before did one of these, and no one was asked
}

// step is a call with its output.
type step struct{ id, arguments string }

func newSchedule(m *model, base http.RoundTripper, seed int) *schedule {
	r := rand.New(rand.NewPCG(uint64(seed), 5))
	p := &play{
		r: r, anthropic: r.IntN(2) == 0, texts: r.IntN(2) == 0, faults: r.IntN(7), payments: r.IntN(4), ids: r.IntN(3), now: time.Unix(1_800_000_000, 0),
	}
	a := &schedule{play: p, eager: r.IntN(3) == 0, declared: r.IntN(2) == 0, turns: r.IntN(2) == 0, paid: map[int]int{}}
	if !a.turns && r.IntN(5) == 0 {
		a.sdk, p.quick = 2, true
	}
	if r.IntN(2) == 0 {
		a.effect = otelllm.EffectNonIdempotent
	}
	a.url = m.add(fmt.Sprint("s", seed), p)
	a.http = &http.Client{Transport: otelllm.NewTransport(&client{m, p, base})}
	a.policy = retry.Policy{
		Attempts: 2 + r.IntN(4), Elapsed: time.Minute, Budget: new(retry.Budget), Random: r.Float64,
		Now: func() time.Time { return p.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			p.now = p.now.Add(d)
			return ctx.Err()
		},
		Ask: a.ask,
	}
	return a
}

func (a *schedule) kind() string {
	kinds := []string{"calls"}
	if a.turns {
		kinds[0] = "turns"
	}
	if a.eager {
		kinds = append(kinds, "eager")
	}
	if a.declared {
		kinds = append(kinds, "recorded")
	}
	if a.sdk > 0 {
		kinds = append(kinds, "SDK retries")
	}
	return strings.Join(kinds, ", ")
}

// ask is the person: nothing is paid twice, and text may be shown again.
func (a *schedule) ask(context.Context, retry.Question) bool {
	a.asked++
	switch {
	case a.unsafe():
		a.due++
	case a.ready && !a.declared:
		a.unknown++
	}
	a.open = false
	return !a.dropped
}

// unsafe reports whether another attempt would repeat something, as far as the oracle knows.
func (a *schedule) unsafe() bool { return a.shown || a.dropped }

func (a *schedule) work(ctx context.Context) (err error) {
	if a.declared {
		var run *otelllm.Run
		ctx, run = otelllm.StartRun(ctx, "schedule", otelllm.WithToolsRecorded())
		defer run.Done(&err)
	}
	if a.turns {
		turns := 0
		return retry.Run(ctx, a.policy, func(ctx context.Context) error {
			turns++
			a.most = max(a.most, turns)
			return a.turn(ctx, func(ctx context.Context, call func(context.Context) error) error { return call(ctx) })
		})
	}
	return a.turn(ctx, func(ctx context.Context, call func(context.Context) error) error {
		sent := a.play.sent
		err := retry.Do(ctx, a.policy, call)
		a.most = max(a.most, a.play.sent-sent)
		return err
	})
}

// turn makes model calls and executes what they ask for, until the model has nothing to ask for.
func (a *schedule) turn(ctx context.Context, do func(context.Context, func(context.Context) error) error) error {
	for range 2 * (a.play.payments + 1) {
		var calls []step
		err := do(ctx, func(ctx context.Context) (err error) {
			a.begin()
			calls, err = a.stream(ctx)
			a.end()
			return err
		})
		if err != nil {
			return err
		}
		a.open, a.dropped = false, false // the calls are in the history from now on
		if len(calls) == 0 {
			return nil
		}
		for _, call := range calls {
			a.execute(ctx, call)
			a.history = append(a.history, call)
		}
	}
	return errors.New("too many steps")
}

// begin begins an attempt.
func (a *schedule) begin() {
	if a.open {
		a.unasked++
	}
	a.shown, a.dropped, a.ready, a.open = false, false, false, false
}

// end ends an attempt. Whatever comes next has to be asked for if it would repeat something.
func (a *schedule) end() {
	a.open = a.unsafe()
	a.attempts++
}

// execute pays, unless that was done while the answer arrived.
func (a *schedule) execute(ctx context.Context, call step) {
	if a.eager {
		return
	}
	a.pay(ctx, call)
}

func (a *schedule) pay(ctx context.Context, call step) {
	invoice := invoiceOf(call.arguments)
	if a.declared {
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.id, Name: "pay", Effect: a.effect})
		defer tool.End(nil)
	}
	a.paid[invoice]++
	if a.store != nil {
		a.store.pay(call, invoice)
	}
}

func invoiceOf(arguments string) int {
	var said struct{ Invoice int }
	_ = json.Unmarshal([]byte(arguments), &said)
	return said.Invoice
}

// stream makes one model call. An eager agent executes the calls on the way; what they returned is
// lost if the answer breaks.
func (a *schedule) stream(ctx context.Context) ([]step, error) {
	var calls []*step
	done := map[int]bool{}
	piece := func(index int, id, arguments string) {
		for len(calls) <= index {
			calls = append(calls, &step{})
		}
		c := calls[index]
		c.id, c.arguments = c.id+id, c.arguments+arguments
		if done[index] || !json.Valid([]byte(c.arguments)) {
			return
		}
		done[index], a.ready = true, true
		if a.eager {
			a.dropped = true
			a.pay(ctx, *c)
		}
	}
	read := a.readChat
	if a.play.anthropic {
		read = a.readMessages
	}
	if err := read(ctx, piece); err != nil {
		return nil, err
	}
	var complete []step
	for _, c := range calls {
		if !json.Valid([]byte(c.arguments)) {
			return nil, errors.New("the arguments are not JSON")
		}
		complete = append(complete, *c)
	}
	return complete, nil
}

func (a *schedule) readChat(ctx context.Context, piece func(index int, id, arguments string)) error {
	client := openai.NewClient(option.WithBaseURL(a.url+"/v1/"), option.WithAPIKey("k"), option.WithHTTPClient(a.http), option.WithMaxRetries(a.sdk))
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Pay.")}}
	for _, s := range a.history {
		params.Messages = append(params.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
			ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: s.id, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "pay", Arguments: s.arguments},
			}}},
		}}, openai.ToolMessage("paid", s.id))
	}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			a.shown = a.shown || choice.Delta.Content != ""
			for _, call := range choice.Delta.ToolCalls {
				piece(int(call.Index), call.ID, call.Function.Arguments)
			}
		}
	}
	return stream.Err()
}

func (a *schedule) readMessages(ctx context.Context, piece func(index int, id, arguments string)) error {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(a.url), anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(a.http), anthropicoption.WithMaxRetries(a.sdk))
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 99, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Pay."))}}
	for _, s := range a.history {
		params.Messages = append(params.Messages,
			anthropic.NewAssistantMessage(anthropic.NewToolUseBlock(s.id, json.RawMessage(s.arguments), "pay")),
			anthropic.NewUserMessage(anthropic.NewToolResultBlock(s.id, "paid", false)))
	}
	stream := client.Messages.NewStreaming(ctx, params)
	defer stream.Close()
	var message anthropic.Message
	for stream.Next() {
		_ = message.Accumulate(stream.Current())
		switch e := stream.Current().AsAny().(type) {
		case anthropic.ContentBlockStartEvent:
			if e.ContentBlock.Type == "tool_use" {
				piece(0, e.ContentBlock.ID, "")
			}
		case anthropic.ContentBlockDeltaEvent:
			a.shown = a.shown || e.Delta.Text != ""
			if e.Delta.PartialJSON != "" {
				piece(0, "", e.Delta.PartialJSON)
			}
		}
	}
	for i := range message.Content { // without an error the SDK has it for complete
		block := &message.Content[i]
		a.ready = a.ready || stream.Err() == nil && block.Type == "tool_use" && json.Valid(block.Input)
	}
	return stream.Err()
}
