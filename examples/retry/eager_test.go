package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/retry"
)

// schedulesEnv names the variable for the number of schedules, by default few.
const schedulesEnv = "OTELLLM_RETRY_SCHEDULES"

// An agent that pays as soon as the arguments of a call are JSON, or as openai-go's accumulator
// says that a call has finished, and that repeats whatever its diagnosis calls safe, never pays
// twice: whether it records its tools or not, and wherever its answers break.
func TestEagerAgentPaysOnce(t *testing.T) {
	schedules := 300
	if s := os.Getenv(schedulesEnv); s != "" {
		var err error
		schedules, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	var paid, repeated, asked, doubled int
	for seed := range schedules {
		a := newEagerAgent(uint64(seed))
		err := a.work(t.Context())
		if a.paid > 1 {
			doubled++
			t.Errorf("schedule %d (declared %t, accumulator %t) pays %d times: %v\n%s", seed, a.declared, a.accumulator, a.paid, err, strings.Join(a.model.log, "\n"))
		}
		paid, repeated, asked = paid+a.paid, repeated+a.repeated, asked+a.asked
	}
	t.Logf("%d schedules: %d payments, %d doubled, %d safe repetitions, %d questions", schedules, paid, doubled, repeated, asked)
	assert.Greater(t, paid, schedules/4)
	assert.Greater(t, repeated, schedules/4)
	assert.Greater(t, asked, schedules/4)
}

// eagerAgent is an agent that executes calls while their answer still arrives.
type eagerAgent struct {
	model       *brokenModel
	declared    bool // its tools are recorded
	accumulator bool // it waits for openai-go's accumulator

	paid, repeated, asked int
}

func newEagerAgent(seed uint64) *eagerAgent {
	r := rand.New(rand.NewPCG(seed, 11))
	return &eagerAgent{model: &brokenModel{r: r, legacy: r.IntN(5) == 0}, declared: r.IntN(2) == 0, accumulator: r.IntN(2) == 0}
}

// work runs the agent, and again if the diagnosis of the run says that this is safe.
func (a *eagerAgent) work(ctx context.Context) error {
	for try := 1; ; try++ {
		d, err := a.run(ctx)
		if err == nil || try == 4 || d.Retry.Safety != classify.SafeAutoRetry {
			return err
		}
		a.repeated++
	}
}

func (a *eagerAgent) run(ctx context.Context) (d classify.Diagnosis, err error) {
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(a.model)}),
		option.WithBaseURL("http://model/v1/"), option.WithAPIKey("k"), option.WithMaxRetries(0))
	var opts []otelllm.RunOption
	if a.declared {
		opts = append(opts, otelllm.WithToolsRecorded())
	}
	ctx, run := otelllm.StartRun(ctx, "eager", opts...)
	defer func() { d = run.Diagnosis() }()
	defer run.Done(&err)
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Pay.")}}
	for range 2 {
		outputs, err := a.ask(ctx, &client, params)
		if err != nil || outputs == nil {
			return d, err
		}
		params.Messages = append(params.Messages, outputs...)
	}
	return d, nil
}

// ask repeats a request while that is safe. What the answer's calls returned before it broke is
// lost.
func (a *eagerAgent) ask(ctx context.Context, client *openai.Client, params openai.ChatCompletionNewParams) (outputs []openai.ChatCompletionMessageParamUnion, err error) {
	tries := 0
	err = retry.Do(ctx, atOnce(func(context.Context, retry.Question) bool {
		a.asked++
		return false // the user says no
	}), func(ctx context.Context) (err error) {
		tries++
		outputs, err = a.stream(ctx, client, params)
		return err
	})
	a.repeated += tries - 1
	return outputs, err
}

func (a *eagerAgent) stream(ctx context.Context, client *openai.Client, params openai.ChatCompletionNewParams) (history []openai.ChatCompletionMessageParamUnion, err error) {
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	ran := map[int]bool{}
	var legacy []byte // the arguments of a function_call
	execute := func(index int, id string) {
		if !ran[index] {
			ran[index] = true
			a.pay(ctx, id)
			history = append(history, openai.ToolMessage("paid", id))
		}
	}
	for stream.Next() {
		chunk := stream.Current()
		all.AddChunk(chunk)
		if call, ok := all.JustFinishedToolCall(); ok && a.accumulator && json.Valid([]byte(call.Arguments)) {
			execute(call.Index, call.ID)
		}
		for i := range chunk.Choices {
			legacy = append(legacy, chunk.Choices[i].Delta.FunctionCall.Arguments...) //nolint:staticcheck // some servers send it
		}
		if json.Valid(legacy) {
			execute(-1, "call_f")
		}
		if !a.accumulator && len(all.Choices) > 0 {
			a.closed(&all, execute)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if len(all.Choices) == 0 {
		return nil, errors.New("the answer has no choices")
	}
	a.closed(&all, execute)
	return history, nil
}

// closed executes the calls whose arguments are JSON.
func (*eagerAgent) closed(all *openai.ChatCompletionAccumulator, execute func(int, string)) {
	calls := all.Choices[0].Message.ToolCalls
	for i := range calls {
		if json.Valid([]byte(calls[i].Function.Arguments)) {
			execute(i, calls[i].ID)
		}
	}
}

func (a *eagerAgent) pay(ctx context.Context, id string) {
	if a.declared {
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: id, Name: "pay", Effect: otelllm.EffectNonIdempotent})
		defer tool.End(nil)
	}
	a.paid++
}

// brokenModel is a model that calls a tool once, and says so once it has its output. Most of its
// answers break, each in another way.
type brokenModel struct {
	r      *rand.Rand
	legacy bool // it calls by function_call
	log    []string
}

// RoundTrip implements http.RoundTripper.
func (m *brokenModel) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req}
	answer := m.answer(strings.Contains(string(body), `"role":"tool"`))
	end := io.EOF
	switch m.r.IntN(9) {
	case 0, 1: // nothing breaks
	case 2:
		resp.StatusCode, answer = http.StatusServiceUnavailable, `{"error":{"message":"x","type":"server_error","code":"server_is_overloaded"}}`
		resp.Header.Set("Content-Type", "application/json")
	case 3:
		events := strings.SplitAfter(answer, "\n\n")
		answer = strings.Join(events[:m.r.IntN(len(events))], "") + "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":null}}\n\n"
	default:
		ends := []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}}
		end = ends[m.r.IntN(len(ends))]
		answer = answer[:m.r.IntN(len(answer)+1)]
	}
	m.log = append(m.log, fmt.Sprintf("%d %v: %q", resp.StatusCode, end, answer))
	resp.Body = &brokenBody{left: answer, end: end, r: m.r}
	return resp, nil
}

// answer is a text, or a call whose arguments come in any pieces, with a text before or after it
// at times.
func (m *brokenModel) answer(paid bool) string {
	var out strings.Builder
	chunk := func(delta, finish string) {
		_, _ = fmt.Fprintf(&out, "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	text := func(one int) {
		if m.r.IntN(one) == 0 {
			chunk(`{"content":"It is paid. "}`, "null")
		}
	}
	if paid {
		text(1)
		chunk(`{}`, `"stop"`)
		return out.String() + "data: [DONE]\n\n"
	}
	text(6)
	left := `{"invoice":"17 }\" ","to":{"a":[1,2]}}`
	for first := true; left != "" || first; first = false {
		n := min(len(left), m.r.IntN([]int{2, 9, 99}[m.r.IntN(3)]))
		if !first {
			n = max(n, 1)
		}
		piece, _ := json.Marshal(left[:n])
		left = left[n:]
		switch head := ""; {
		case m.legacy:
			chunk(fmt.Sprintf(`{"function_call":{"name":"pay","arguments":%s}}`, piece), "null")
		default:
			if first {
				head = `"id":"call_1","type":"function",`
			}
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":0,%s"function":{"name":"pay","arguments":%s}}]}`, head, piece), "null")
		}
	}
	text(6)
	chunk(`{}`, `"tool_calls"`)
	return out.String() + "data: [DONE]\n\n"
}

// brokenBody returns some bytes, in pieces, and an error.
type brokenBody struct {
	left string
	end  error
	r    *rand.Rand
}

// Read implements io.Reader.
func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == "" {
		return 0, b.end
	}
	n := copy(p, b.left[:min(len(b.left), 1+b.r.IntN(400))])
	b.left = b.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (*brokenBody) Close() error { return nil }
