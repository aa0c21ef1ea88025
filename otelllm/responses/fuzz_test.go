package responses

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// FuzzSession gives frames in any order to a client and to both sides of a gateway. The
// first byte of a line says whose frame it is.
func FuzzSession(f *testing.F) {
	lines := func(frames ...[]byte) []byte {
		var all []string
		for _, frame := range frames {
			all = append(all, "<"+string(frame))
		}
		return []byte(strings.Join(all, "\n"))
	}
	ask := ">" + string(create("", message("user", "a"))) + "\n"
	f.Add(append([]byte(ask), lines(created("r1"), called("c1"), completed("r1"))...))
	f.Add([]byte(">" + string(create(`"generate":false,`, message("user", "a"))) + "\n<" + string(created("r0")) + "\n<" + string(completed("r0")) + "\n>" + string(create(previous("r0"), message("user", "b"))) + "\n!" + string(text("a"))))
	f.Add(append(lines(created("r1"), text("a"), refusal("websocket_connection_limit_reached")), "\n"+ask+"x"...))
	f.Add([]byte(">{\"type\":\"response.steer\"}\n<" + string(created("r1")) + "\n<" + string(created("r2"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := spantest.New(t)
		with := otelllm.New(otelllm.WithTracerProvider(r.TracerProvider))
		client := NewSession(context.Background(), Config{Instrumentation: with})
		agent := NewSession(context.Background(), Config{Serving: true, Instrumentation: with})
		upstream := NewSession(context.Background(), Config{Upstream: agent, Instrumentation: with})
		for line := range strings.SplitSeq(string(data), "\n") {
			if line == "" {
				continue
			}
			frame := []byte(line[1:])
			switch line[0] {
			case '>':
				client.RecordSent(frame)
				agent.RecordReceived(frame)
				upstream.RecordSent(frame)
			case '<':
				client.RecordReceived(frame)
				upstream.RecordReceived(frame)
				agent.RecordSent(frame)
			case '!':
				client.RecordSendFailure(frame, reset)
				agent.RecordSendFailure(frame, reset)
			}
		}
		client.Close(reset)
		upstream.Close(nil)
		agent.Close(nil)
		_ = with.Shutdown(context.Background())
		assert.Len(t, r.Spans.Ended(), len(r.Spans.Started()), "every span has ended")
	})
}
