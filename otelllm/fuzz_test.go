package otelllm

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/semconv"
)

// FuzzBody answers with any bytes under any status and content type, in pieces of
// any size. Every Read of the consumer returns what it would return without the
// transport, and the span ends with a phase.
func FuzzBody(f *testing.F) {
	for _, w := range wireStreams() {
		f.Add(w.path, w.contentType, w.text(), w.request, uint16(200), uint8(7))
		f.Add(w.path, w.contentType, w.text()[:len(w.text())/2], w.request, uint16(200), uint8(66))
		f.Add(w.path, "application/json", w.text(), w.request, uint16(429), uint8(1))
	}
	f.Add(chatPath, "text/html", "<html>", "{", uint16(503), uint8(0))
	f.Add(messagesPath, "application/json", `{"type":"error"}`, `{"messages":[{"content":[{"type":"tool_use","id":"a"}]}]}`, uint16(529), uint8(1))
	r := newRecorder(f)
	f.Fuzz(func(t *testing.T, path, contentType, answer, request string, status uint16, piece uint8) {
		r.spans.Reset()
		// The bits of piece select the size of the pieces, how the body ends, and the options.
		size := int(piece&15) + 1
		body := func() *pieces {
			p := &pieces{end: io.EOF, with: piece&16 != 0}
			if piece&32 != 0 {
				p.end = iotest.ErrTimeout
			}
			for part := range slices.Chunk([]byte(answer), size*size) {
				p.left = append(p.left, string(part))
			}
			return p
		}
		opts := []TransportOption{WithTracerProvider(r), WithProtocol(ProtocolOpenAIChat)}
		if piece&64 != 0 {
			opts = append(opts, WithVerdicts(), WithWatchdog(Watchdog{Total: time.Hour}))
		}
		strict := piece&128 != 0
		if strict {
			opts = append(opts, WithStreamErrors())
		}
		sent := ""
		below := answering(int(status), http.Header{"Content-Type": {contentType}}, body())
		rt := requestTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(req.Body)
			sent = string(b)
			if err != nil {
				return nil, err
			}
			req.Body = nil
			return below(req)
		}), opts...)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", io.MultiReader(strings.NewReader(request)))
		require.NoError(t, err)
		req.URL.Path = path
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		got, want := readsOf(resp.Body), readsOf(body())
		require.NoError(t, resp.Body.Close())
		for i := range got {
			if broken := (*StreamError)(nil); strict && errors.As(got[i].err, &broken) {
				require.NotErrorIs(t, broken, io.EOF)
				got[i].err = want[i].err
			}
		}
		assert.Equal(t, want, got)
		assert.Equal(t, request, sent)
		if len(r.spans.Ended()) == 0 {
			return // not a model call
		}
		s := r.only(t)
		if status != http.StatusSwitchingProtocols {
			assert.NotNil(t, s.get("llm.stream.phase"))
		}
		assert.LessOrEqual(t, len(s.Events()), record.MaxEvents)
		for _, kv := range s.Attributes() {
			if kv.Value.Type() == attribute.STRING && kv.Key != semconv.FailureSummaryKey {
				assert.LessOrEqual(t, len(kv.Value.AsString()), 256, kv.Key)
			}
		}
	})
}
