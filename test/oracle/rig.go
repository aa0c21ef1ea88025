package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

// hang is the timeout of a case, far longer than any case needs.
const hang = 30 * time.Second

// rig runs the cases of one worker: it has a server, and the clients over a transport
// that records.
type rig struct {
	server *server
	below  *counted
	plain  *http.Transport
	spans  chan recording
	asks   map[string]ask
}

func newRig(clients []client) (*rig, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	plain := &http.Transport{DisableCompression: true}
	r := &rig{server: s, plain: plain, below: &counted{base: plain}, spans: make(chan recording, 64), asks: map[string]ask{}}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder(r.spans)))
	hc := &http.Client{Transport: otelllm.NewTransport(r.below, otelllm.WithTracerProvider(provider), otelllm.WithVerdicts(), otelllm.WithoutInferredRuns())}
	for _, c := range clients {
		if r.asks[c.name], err = c.open(s.url(), hc); err != nil {
			r.close()
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return r, nil
}

func (r *rig) close() {
	r.server.close()
	r.plain.CloseIdleConnections()
}

// recorder passes on the attributes of the spans.
type recorder chan recording

func (recorder) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (recorder) Shutdown(context.Context) error                  { return nil }
func (recorder) ForceFlush(context.Context) error                { return nil }

func (c recorder) OnEnd(s sdktrace.ReadOnlySpan) {
	r := make(recording, len(s.Attributes()))
	for _, kv := range s.Attributes() {
		r[kv.Key] = kv.Value
	}
	c <- r
}

// testCase is one stream, cut, and read by one client.
type testCase struct {
	client string
	stream *stream
	cut    int
	end    end
}

func (c *testCase) String() string {
	return fmt.Sprintf("%s %s@%d/%s", c.client, c.stream.name, c.cut, c.end)
}

// result is the result of a case.
type result struct {
	delivery  delivery
	recording recording // nil without a span
	truth     truth
	findings  []finding
	hung      bool // the rig may still receive data of this case
}

// run plays the case and judges it. It does not stop at the end of ctx, because a case
// that is cut short is a different case.
func (r *rig) run(ctx context.Context, c *testCase) (res result) {
	g := newGate(c.cut)
	x := &exchange{gate: g}
	r.below.now.Store(x)
	r.server.next.Store(&play{
		contentType: c.stream.wire.contentType(), body: c.stream.body[:c.cut], due: len(c.stream.body) + 16, end: c.end,
		chunked: c.cut%2 == 0, gate: g,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(hang, func() { g.open(); cancel() })
	res.delivery = r.asks[c.client](ctx)
	g.open()
	begun := int(x.begun.Load())
	for range begun {
		select {
		case res.recording = <-r.spans:
		case <-ctx.Done():
		}
	}
	res.hung = !timer.Stop()
	cancel()
	for range begun {
		<-r.server.served
	}
	if strings.Contains(c.stream.name, "/case-") {
		// A client that reads keys exactly misses an input under another key, and executes the
		// call without one.
		res.delivery.ran -= res.delivery.bare
	}
	res.truth = truth{
		final: c.stream.final(c.cut), failed: c.stream.failed(c.cut),
		refused: strings.Contains(c.stream.name, "refusal"),
		broken:  c.end != endClean && (c.cut < len(c.stream.body) || !c.stream.ended()),
		spliced: bytes.Count(c.stream.body[:c.cut], []byte(`"type":"message_start"`)) > 1,
	}
	switch {
	case res.hung || res.recording == nil:
		res.findings = append(res.findings, finding{noSpan, fmt.Sprintf("requests %d, hung %t, error %v", begun, res.hung, res.delivery.err)})
	case begun != 1:
		res.findings = append(res.findings, finding{moreSpans, fmt.Sprintf("requests %d", begun)})
	default:
		res.findings = judge(&res.delivery, res.recording, res.truth)
	}
	return res
}
