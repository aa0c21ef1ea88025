package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

const tooLong = 40 << 20 // size of one event in bytes: more than the SDKs and the decoders accept

const longTitle = "a 40 MB event"

// longEvent returns one SSE event of more than tooLong bytes.
func longEvent() []byte {
	return bytes.Join([][]byte{
		[]byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"choices\":[],\"delta\":\""),
		bytes.Repeat([]byte("x"), tooLong), []byte("\"}\n\n"),
	}, nil)
}

// badInput returns cases beyond the design's list: input that no protocol allows.
func badInput() []acceptance.Case {
	violation := func(cause semconv.Cause) acceptance.Want {
		return single(acceptance.Verdict{
			Class: semconv.ClassProtocolViolation, Cause: cause, Phase: semconv.PhaseResponseStarted, Origin: semconv.OriginProvider,
			Safety: semconv.RetrySafetySafeAutoRetry, Reason: semconv.RetryReasonNoOutput,
		})
	}
	// The application may have read what the decoder could not: text, or a call.
	unread := func(cause semconv.Cause) acceptance.Want {
		return single(acceptance.Verdict{
			Class: semconv.ClassProtocolViolation, Cause: cause, Phase: semconv.PhaseResponseStarted, Origin: semconv.OriginProvider,
			Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolStateUnknown,
		})
	}
	documents := func(_ *acceptance.World, s *acceptance.Setup) { s.Config.Stream = false }
	long := longEvent()

	var cases []acceptance.Case
	for _, w := range faultyllm.Wires() {
		cases = append(cases, acceptance.Case{
			Title: "an HTML page under 200", Variant: "streamed", Wire: w,
			Script: []faultyllm.Exchange{faultyllm.HTMLPage()},
			Want:   violation(semconv.CauseUnexpectedContentType),
		}, acceptance.Case{
			Title: "an HTML page under 200", Variant: "not streamed", Wire: w, Prepare: documents,
			Script: []faultyllm.Exchange{faultyllm.HTMLPage()},
			Want:   violation(semconv.CauseUnexpectedContentType),
		}, acceptance.Case{
			Title: "a body that is not JSON", Variant: "no JSON document", Wire: w, Prepare: documents,
			Script: []faultyllm.Exchange{faultyllm.Body("application/json", []byte("upstream said no"))},
			Want:   violation(semconv.CauseMalformedEvent),
		}, acceptance.Case{
			Title: "a body that is not JSON", Variant: "spoilt JSON document", Wire: w, Prepare: documents,
			Script: []faultyllm.Exchange{faultyllm.Body("application/json", []byte("{\"choices\": [oops]}"))},
			Want:   unread(semconv.CauseMalformedEvent),
		}, acceptance.Case{
			Title: "a body that is not JSON", Variant: "half a JSON document", Wire: w, Prepare: documents,
			Script: []faultyllm.Exchange{faultyllm.Body("application/json", []byte("{\"choices\": ["))},
			Want: single(acceptance.Verdict{
				Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseCleanEOF, Phase: semconv.PhaseResponseStarted,
				Origin: semconv.OriginTransport, Safety: semconv.RetrySafetySafeAutoRetry, Reason: semconv.RetryReasonNoOutput,
			}),
		}, acceptance.Case{
			Title: "a body that is not JSON", Variant: "no JSON event", Wire: w,
			Script: []faultyllm.Exchange{faultyllm.Body("text/event-stream", []byte("event: message_start\ndata: {oops\n\n"))},
			Want:   unread(semconv.CauseMalformedEvent),
		}, acceptance.Case{
			Title: longTitle, Variant: "40 MB", Wire: w,
			Script: []faultyllm.Exchange{faultyllm.Body("text/event-stream", long)},
			Want:   unread(semconv.CauseEventTooLong),
		}, acceptance.Case{
			Title: "a bad base URL", Variant: "no such path", Wire: w,
			Want: single(acceptance.Verdict{
				Class: semconv.ClassProviderError, Cause: semconv.CauseNotFound, Phase: semconv.PhaseResponseStarted,
				Origin: semconv.OriginProvider, Safety: semconv.RetrySafetyNoRetry, Reason: semconv.RetryReasonNotTransient,
			}),
			Prepare: func(world *acceptance.World, s *acceptance.Setup) {
				s.BaseURL = faultyllm.BaseURL("http", world.Server.Addr(), w)
			},
		}, acceptance.Case{
			Title: "a bad base URL", Variant: "no such scheme", Wire: w,
			Want: single(acceptance.Verdict{
				Class: semconv.ClassApplicationError, Cause: semconv.CauseInvalidURL, Phase: semconv.PhaseBeforeConnection,
				Origin: semconv.OriginApplication, Safety: semconv.RetrySafetyNoRetry, Reason: semconv.RetryReasonNotTransient,
			}),
			Prepare: func(_ *acceptance.World, s *acceptance.Setup) {
				s.BaseURL = faultyllm.BaseURL("gopher", "127.0.0.1:1", w)
			},
		}, acceptance.Case{
			Title: "a bad base URL", Variant: "no URL", Wire: w,
			Want: acceptance.Want{ // the SDK does not get as far as a request
				Outcome: semconv.RunOutcomeFailed,
				Run: acceptance.Verdict{
					Class: semconv.ClassApplicationError, Cause: semconv.CauseRunError, Phase: semconv.PhaseUnknown,
					Origin: semconv.OriginApplication, Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonEvidenceIncomplete,
				},
			},
			Prepare: func(_ *acceptance.World, s *acceptance.Setup) { s.BaseURL = "http://[::1/v1/" },
		})
	}
	return cases
}

func single(v acceptance.Verdict) acceptance.Want {
	return acceptance.Want{Outcome: semconv.RunOutcomeFailed, Run: v, Requests: []acceptance.Verdict{v}}
}

func TestBadInputHasAClearOutcome(t *testing.T) {
	var atOnce []acceptance.Case
	for _, c := range badInput() {
		if c.Title != longTitle {
			atOnce = append(atOnce, c)
			continue
		}
		// All streams of a process share 64 MiB for unfinished events: two of these streams at
		// the same time would compete for it, and be decoded less far.
		haveAClearOutcome(t, []acceptance.Case{c})
	}
	haveAClearOutcome(t, atOnce)
}

func haveAClearOutcome(t *testing.T, cases []acceptance.Case) {
	t.Helper()
	p := start(t)
	results := runAll(t, p, cases)
	for i := range cases {
		c, result := &cases[i], &results[i]
		t.Run(c.Label(), func(t *testing.T) {
			// SDKs take an HTML page for an empty stream and report no error. Only the verdict
			// shows the failure.
			assert.Equal(t, strings.HasPrefix(c.Title, "an HTML page") && c.Variant == "streamed", result.Err == nil, "%v", result.Err)
			runs := p.sink.runs(traceID(result))
			for _, difference := range c.Diff(runs) {
				t.Error(difference)
			}
			if len(runs) == 1 {
				for _, difference := range c.DiffLive(result.Live, &runs[0]) {
					t.Error(difference)
				}
			}
		})
	}
}

// Input that cannot be decoded is passed on unchanged and complete.
func TestBadInputPassesUnchanged(t *testing.T) {
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(tracetest.NewSpanRecorder()))
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: otelllm.NewTransport(base, otelllm.WithTracerProvider(provider))}

	for _, body := range [][]byte{longEvent(), []byte("\x00\xff{no\n\n\ndata: [DONE"), []byte("<html>"), {}} {
		for _, contentType := range []string{"text/event-stream", "application/json", "text/html"} {
			srv.Play("c", faultyllm.Body(contentType, body))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				srv.BaseURL("c", faultyllm.Responses)+"responses", strings.NewReader(`{"model":"m","stream":true}`))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.True(t, bytes.Equal(body, got), "%s: sent %d bytes, got %d different ones", contentType, len(body), len(got))
		}
	}
}
