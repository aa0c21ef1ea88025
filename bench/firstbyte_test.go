package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// BenchmarkFirstByte measures when the reader of a stream gets an event: over loopback
// HTTP, from just before the server writes it until Read has returned it, with the
// transport and without, call by call in random order. The server writes the next event
// only after the last one has been read, so that each Read is for one event.
//
//	µs-first, µs-next    the first event of a stream and the later ones, without the transport
//	+µs-…                what the transport adds: the difference of the medians
func BenchmarkFirstByte(b *testing.B) {
	const events = 20
	for _, s := range synthetic(events) {
		b.Run(s.wire.name, func(b *testing.B) {
			wrote, read := make(chan time.Time, 1), make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", s.wire.contentType)
				flush := http.NewResponseController(w)
				for _, event := range s.events {
					wrote <- time.Now()
					_, _ = w.Write(event)
					_ = flush.Flush()
					<-read
				}
			}))
			defer server.Close()
			base := server.Client().Transport
			w := *s.wire
			w.url = server.URL + s.path()
			with := otelllm.NewTransport(base, otelllm.WithTracerProvider(sdk()), otelllm.WithoutInferredRuns())

			var first, next [2][]time.Duration
			buf, body := make([]byte, 32<<10), w.body(0)
			call := func(i int, rt http.RoundTripper) func() time.Duration {
				return func() time.Duration {
					resp := send(b, rt, w.post(b.Context(), b, body))
					defer resp.Body.Close()
					for k, event := range s.events {
						for got := 0; got < len(event); {
							n, err := resp.Body.Read(buf)
							if n == 0 || err != nil && err != io.EOF {
								b.Fatal(n, err)
							}
							got += n
						}
						took := time.Since(<-wrote)
						if k == 0 {
							first[i] = append(first[i], took)
						} else {
							next[i] = append(next[i], took)
						}
						read <- struct{}{}
					}
					_, err := resp.Body.Read(buf)
					require.ErrorIs(b, err, io.EOF)
					return 0
				}
			}
			for b.Loop() {
				round(nil, call(0, base), call(1, with))
			}
			micro := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(micro(stats.Median(first[0])), "µs-first")
			b.ReportMetric(micro(stats.Median(first[1])-stats.Median(first[0])), "+µs-first")
			b.ReportMetric(micro(stats.Median(next[0])), "µs-next")
			b.ReportMetric(micro(stats.Median(next[1])-stats.Median(next[0])), "+µs-next")
		})
	}
}
