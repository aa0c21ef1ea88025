package responses

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// modelRequest is a request as the model of the server knows it. Its model names it, and so does the
// id of the response.
type modelRequest struct {
	n         int
	stream    string
	previous  string
	texts     int // that were delivered
	began     bool
	completed bool
	failed    bool
}

func (a *modelRequest) id() string    { return fmt.Sprintf("r%d", a.n) }
func (a *modelRequest) model() string { return fmt.Sprintf("m%d", a.n) }

func (a *modelRequest) frame() []byte {
	return fmt.Appendf(nil, `{"type":"response.create"%s,"model":%q,%s"input":[]}`, inStream(a.stream), a.model(), a.previous)
}

func inStream(name string) string {
	if name == "" {
		return ""
	}
	return `,"stream_id":"` + name + `"`
}

// server is a model of a server and its client: it knows which frame is of which request,
// which the session has to find out.
type server struct {
	s       *Session
	all     []*modelRequest
	queue   map[string][]*modelRequest // by stream; the first one may have begun
	written []*modelRequest            // that have not been reported
	log     []string                   // what was reported
	unclear bool                       // an error did not show which frame it refused
}

func (v *server) sent(frame []byte) {
	v.log = append(v.log, "> "+string(frame))
	v.s.RecordSent(frame)
}

func (v *server) received(frame string) {
	v.log = append(v.log, "< "+frame)
	v.s.RecordReceived([]byte(frame))
}

func (v *server) send(a *modelRequest, typ, more string) {
	v.received(`{"type":"` + typ + `"` + inStream(a.stream) + more + `}`)
}

func (v *server) response(a *modelRequest, typ, more string) {
	v.send(a, typ, `,"response":{"id":"`+a.id()+`"`+more+`}`)
}

func (v *server) report(n int) {
	for _, a := range v.written[:n] {
		v.sent(a.frame())
	}
	v.written = slices.Delete(v.written, 0, n)
}

func (v *server) refuse(a *modelRequest, code byte) {
	a.failed = true
	for _, queue := range v.queue {
		v.unclear = v.unclear || slices.ContainsFunc(queue, func(other *modelRequest) bool { return other != a })
	}
	v.send(a, "error", fmt.Sprintf(`,"error":{"code":"%s"}`, [...]string{"rate_limit_exceeded", "server_error", "previous_response_not_found"}[code%3]))
}

// step does what two bytes say: one of the things that a server or a client may do now.
func (v *server) step(what, which byte) {
	stream := [...]string{"", "", "", "a"}[which>>6]
	queue := v.queue[stream]
	switch what % 16 {
	case 0, 1, 2: // a request, which is reported later
		a := &modelRequest{n: len(v.all), stream: stream}
		if i := slices.IndexFunc(v.all, func(a *modelRequest) bool { return a.completed && a.stream == stream }); i >= 0 && which%4 == 0 {
			a.previous = `"previous_response_id":"` + v.all[i].id() + `",`
		}
		v.all, v.written = append(v.all, a), append(v.written, a)
		v.queue[stream] = append(queue, a)
		if which%2 == 0 {
			v.report(len(v.written))
		}
	case 3:
		v.report(min(len(v.written), int(which%3)))
	case 4: // the newest one is refused at once, which the client learns when it has written it
		v.report(len(v.written))
		if queue = v.queue[stream]; len(queue) > 1 {
			v.refuse(queue[len(queue)-1], which)
			v.queue[stream] = queue[:len(queue)-1]
		}
	case 5:
		v.received(`{"type":"codex.rate_limits"}`)
	case 6: // another frame, which the server refuses or not
		v.unclear = true
		v.sent([]byte(`{"type":"response.cancel"}`))
		if which%2 == 0 && len(v.written) == 0 && stream == "" {
			v.received(`{"type":"error","error":{"code":"unknown_type"}}`)
		}
	default:
		if len(queue) > 0 {
			v.answer(queue[0], what, which)
		}
	}
}

// answer goes on with the answer to the first request of a stream.
func (v *server) answer(a *modelRequest, what, which byte) {
	done := true
	switch {
	case !a.began && which%8 == 0: // refused
		v.refuse(a, which)
		if which%16 == 0 {
			v.response(a, "response.failed", `,"status":"failed"`)
		}
	case !a.began:
		a.began, done = true, false
		v.response(a, "response.created", "")
	case what%16 < 12:
		a.texts++
		done = false
		v.send(a, "response.output_text.delta", `,"output_index":0,"delta":"x"`)
	case which%4 == 0:
		v.report(len(v.written)) // see RecordSent
		a.failed = true
		v.refuse(a, which)
		if which%8 == 0 {
			v.response(a, "response.failed", `,"status":"failed"`)
		}
	case which%4 == 1:
		a.failed = true
		v.response(a, "response.failed", `,"status":"failed","error":{"code":"server_error"}`)
	default:
		a.completed = true
		v.response(a, "response.completed", `,"status":"completed","output":[]`)
	}
	if done {
		v.queue[a.stream] = v.queue[a.stream][1:]
	}
}

// play plays a script, and returns where what was recorded contradicts the model.
func play(t *testing.T, script []byte) (wrong, log []string) {
	t.Helper()
	r := spantest.New(t)
	with := otelllm.New(otelllm.WithTracerProvider(r.TracerProvider), otelllm.WithVerdicts(), otelllm.WithoutInferredRuns())
	v := &server{s: NewSession(context.Background(), Config{Instrumentation: with}), queue: map[string][]*modelRequest{}}
	for i := 0; i+1 < len(script); i += 2 {
		v.step(script[i], script[i+1])
	}
	v.report(len(v.written))
	v.s.Close(reset)
	require.NoError(t, with.Shutdown(context.Background()))
	require.Len(t, r.Spans.Ended(), len(r.Spans.Started()), "every span has ended")
	byModel := map[string]tracetest.SpanStub{}
	for _, span := range r.Spans.Ended() {
		if strings.HasPrefix(span.Name(), "chat m") {
			byModel[strings.TrimPrefix(span.Name(), "chat ")] = tracetest.SpanStubFromReadOnlySpan(span)
		}
	}
	require.Len(t, byModel, len(v.all))
	for _, a := range v.all {
		span := byModel[a.model()]
		if !v.unclear && len(v.all) <= maxWaiting && get(span, "llm.stream.unread") != nil {
			wrong = append(wrong, a.model()+": everything was to be seen")
		}
		if w := a.contradiction(span); w != "" {
			wrong = append(wrong, a.model()+": "+w)
		}
	}
	return wrong, v.log
}

// contradiction returns what the span of a request claims wrongly; "": nothing. Of an answer
// that was not observed in whole, nothing more is claimed than what was seen.
func (a *modelRequest) contradiction(span tracetest.SpanStub) string {
	texts, id, failed := get(span, "llm.stream.text_chunks"), get(span, "gen_ai.response.id"), get(span, "error.type")
	switch {
	case a.texts > 0 && texts == int64(0):
		return "it delivered text"
	case a.texts > 0 && get(span, "llm.retry.safety") == "safe_auto_retry":
		return "it delivered text, and may be repeated"
	case get(span, "llm.stream.unread") == true:
		return ""
	case id != nil && id != a.id():
		return fmt.Sprintf("it has the answer %v", id)
	case texts != nil && texts != int64(a.texts):
		return fmt.Sprintf("it has %v texts, not %d", texts, a.texts)
	case a.completed != (failed == nil):
		return fmt.Sprintf("completed %t, error.type %v", a.completed, failed)
	default:
		return ""
	}
}

// TestInterleavings plays generated sequences of what servers and clients do.
func TestInterleavings(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it has to be the same each time
		script := make([]byte, 2*(1+random.IntN(60)))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		wrong, log := play(t, script)
		for i := 0; i < len(script) && len(wrong) > 0; { // make it shorter
			shorter := slices.Concat(script[:i], script[i+2:])
			if w, l := play(t, shorter); len(w) > 0 {
				script, wrong, log = shorter, w, l
			} else {
				i += 2
			}
		}
		require.Empty(t, wrong, "seed %d, script %v\n%s", seed, script, strings.Join(log, "\n"))
	}
}

func FuzzInterleaving(f *testing.F) {
	f.Add([]byte{0, 0, 7, 1, 0, 0, 4, 0, 8, 1, 12, 2}) // a refusal while another answer is open
	f.Add([]byte{0, 1, 7, 1, 8, 1, 3, 1, 12, 3})       // an answer before its request is reported
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 400)]
		wrong, log := play(t, script)
		require.Empty(t, wrong, strings.Join(log, "\n"))
	})
}
