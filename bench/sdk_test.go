package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	oairesponses "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/otelllm/otelllm-go/bench/internal/cpu"
	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// caller makes one call with an SDK and reads its stream to the end. It returns the number of events
// that the SDK delivered.
type caller func(ctx context.Context) (events int, err error)

// callers are the SDKs whose decoding is compared, by wire protocol.
var callers = map[*wire]func(http.RoundTripper) (caller, error){
	chat: func(rt http.RoundTripper) (caller, error) {
		client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: rt}), option.WithAPIKey("k"), option.WithMaxRetries(0))
		params := openai.ChatCompletionNewParams{Model: "gpt-5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
		return func(ctx context.Context) (n int, err error) {
			stream := client.Chat.Completions.NewStreaming(ctx, params)
			for stream.Next() {
				n++
			}
			return n, errors.Join(stream.Err(), stream.Close())
		}, nil
	},
	responses: func(rt http.RoundTripper) (caller, error) {
		client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: rt}), option.WithAPIKey("k"), option.WithMaxRetries(0))
		params := oairesponses.ResponseNewParams{Model: "gpt-5", Input: oairesponses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
		return func(ctx context.Context) (n int, err error) {
			stream := client.Responses.NewStreaming(ctx, params)
			for stream.Next() {
				n++
			}
			return n, errors.Join(stream.Err(), stream.Close())
		}, nil
	},
	anthropicMessages: func(rt http.RoundTripper) (caller, error) {
		client := anthropic.NewClient(anthropicoption.WithHTTPClient(&http.Client{Transport: rt}), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
		params := anthropic.MessageNewParams{Model: "claude-sonnet-5", MaxTokens: 1024, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
		return func(ctx context.Context) (n int, err error) {
			stream := client.Messages.NewStreaming(ctx, params)
			for stream.Next() {
				n++
			}
			return n, errors.Join(stream.Err(), stream.Close())
		}, nil
	},
	gemini: func(rt http.RoundTripper) (caller, error) {
		client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
			Backend: genai.BackendGeminiAPI, APIKey: "k", HTTPClient: &http.Client{Transport: rt},
		})
		if err != nil {
			return nil, err
		}
		contents := genai.Text("hi")
		return func(ctx context.Context) (n int, err error) {
			for _, err := range client.Models.GenerateContentStream(ctx, "gemini-3-pro", contents, nil) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}, nil
	},
}

// stopwatch responds from memory and measures the time from a response's headers until its body
// reports the end or the SDK closes it. The time between is decoding: the SDK's and the transport's.
// The transport's work after the end of the stream is excluded.
type stopwatch struct {
	contentType string
	open        func() io.Reader
	began, end  time.Duration
}

// stop stops the measurement. Later calls have no effect.
func (s *stopwatch) stop() {
	if s.end == 0 {
		s.end = cpu.Time()
	}
}

func (s *stopwatch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := (&memory{header: http.Header{"Content-Type": {s.contentType}}, open: func() io.Reader { return &watched{s.open(), s} }}).RoundTrip(req)
	s.end, s.began = 0, cpu.Time()
	return resp, err
}

type watched struct {
	io.Reader

	by *stopwatch
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil {
		w.by.stop()
	}
	return n, err
}

// closes is a RoundTripper that notifies a stopwatch when the layer above closes a response's body,
// before the layers below see the call.
type closes struct {
	http.RoundTripper

	by *stopwatch
}

func (c closes) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = closing{resp.Body, c.by}
	}
	return resp, err
}

type closing struct {
	io.ReadCloser

	by *stopwatch
}

func (c closing) Close() error {
	c.by.stop()
	return c.ReadCloser.Close()
}

// cost is the time of one call.
type cost struct{ decoding, whole time.Duration }

// least is the minimum duration of one measurement of a variant: a shorter stream is read several
// times.
const least = 300 * time.Microsecond

// rounds is the minimum number of rounds.
const rounds = 10

// BenchmarkAgainstSDKs measures what the transport adds to an SDK's work on the same stream, as a
// share of the SDK's own decoding:
//
//	%-alone        our Reads through the transport minus the same Reads without it, over a warm cache
//	%-in-place     the SDK's decoding over the transport minus the same without it
//	%-whole-call   the whole call, with the request's span and its facts, minus the same without the transport
//
// Each is a median over the rounds for every stream. The printed value is the mean over the streams,
// ± half of its 95 % confidence interval: once over all streams and once over the long ones, of 50
// events or more, because in a stream of a few events the measurement covers hardly more than
// beginning and end. %-…-total is everything added divided by everything spent, as for an application
// that reads these streams one after the other.
func BenchmarkAgainstSDKs(b *testing.B) {
	oneCore(b)
	streams := recorded(b)
	source := "recorded"
	if streams == nil {
		source = "deltas"
		for _, n := range []int{30, 100, 300, 1000} {
			streams = append(streams, synthetic(n)...)
		}
	}
	for _, reads := range []string{"full reads", "an event a read"} {
		for _, w := range wires {
			if callers[w] == nil {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s/%s", source, w.name, reads), func(b *testing.B) {
				var compared []*comparison
				for i := range streams {
					if s := &streams[i]; s.wire == w {
						if c := compare(b, s, reads == "an event a read"); c != nil {
							compared = append(compared, c)
						}
					}
				}
				for b.Loop() {
					for range rounds {
						for _, c := range compared {
							c.round(b)
						}
					}
				}
				report(b, compared)
			})
		}
	}
}

// comparison is one stream and its SDK.
type comparison struct {
	repeat    int
	variants  []func() cost // the SDK without and with the transport, plain Reads without and with it
	alone     []float64
	inPlace   []float64
	wholeCall []float64
	perEvent  []float64 // ns of the SDK's own decoding
	events    int
	// ns that each measure adds, and ns of the SDK's own decoding and of its whole call
	addedAlone, addedInPlace, addedWhole, decoding, whole []float64
}

// compare prepares the comparison for s. It returns nil if the SDK cannot read s, because s is an
// error or is newer than the SDK.
func compare(b *testing.B, s *stream, eventByEvent bool) *comparison {
	b.Helper()
	data := bytes.Join(s.events, nil)
	base := &stopwatch{contentType: s.wire.contentType, open: func() io.Reader { return bytes.NewReader(data) }}
	if eventByEvent {
		base.open = func() io.Reader { return &eventwise{events: s.events} }
	}
	with := otelllm.NewTransport(base, otelllm.WithTracerProvider(sdk()), otelllm.WithoutInferredRuns())
	c := &comparison{events: len(s.events)}

	bare, err := callers[s.wire](closes{base, base})
	require.NoError(b, err)
	under, err := callers[s.wire](closes{with, base})
	require.NoError(b, err)
	n, err := bare(b.Context())
	if err != nil || n == 0 {
		b.Logf("left out: %s, which its SDK does not read: %v", s.name, err)
		return nil
	}
	calling := func(call caller) func() cost {
		return func() cost {
			start := cpu.Time()
			got, err := call(b.Context())
			end := cpu.Time()
			if err != nil || got != n {
				b.Fatalf("%s: %d of %d events: %v", s.name, got, n, err)
			}
			if base.end == 0 {
				b.Fatalf("%s: the SDK neither reads the body to its end nor closes it", s.name)
			}
			return cost{decoding: base.end - base.began, whole: end - start}
		}
	}
	buf, body := make([]byte, 4<<10), s.wire.body(0)
	reading := func(rt http.RoundTripper) func() cost {
		return func() cost {
			resp := send(b, rt, s.wire.post(b.Context(), b, body))
			start := cpu.Time()
			got := 0
			for got < len(data) {
				m, err := resp.Body.Read(buf)
				if err != nil {
					b.Fatal(err)
				}
				got += m
			}
			spent := cpu.Time() - start
			_ = resp.Body.Close()
			return cost{decoding: spent}
		}
	}
	c.variants = []func() cost{calling(bare), calling(under), reading(base), reading(with)}
	c.variants[0]()
	// No call is faster than this, but under a profiler the clock advances in ticks and may not move.
	const fastest = time.Microsecond
	c.repeat = int(least/max(fastest, c.variants[0]().whole)) + 1
	return c
}

// round measures each variant once, in random order.
func (c *comparison) round(b *testing.B) {
	b.Helper()
	costs := make([]cost, len(c.variants))
	repeated := make([]func() time.Duration, len(c.variants))
	for i, variant := range c.variants {
		repeated[i] = func() time.Duration {
			for range c.repeat {
				once := variant()
				costs[i].decoding += once.decoding
				costs[i].whole += once.whole
			}
			return 0
		}
	}
	round(nil, repeated...)
	percent := func(a, b, of time.Duration) float64 { return 100 * float64(a-b) / float64(of) }
	bare, under, without, with := costs[0], costs[1], costs[2], costs[3]
	c.alone = append(c.alone, percent(with.decoding, without.decoding, bare.decoding))
	c.inPlace = append(c.inPlace, percent(under.decoding, bare.decoding, bare.decoding))
	c.wholeCall = append(c.wholeCall, percent(under.whole, bare.whole, bare.whole))
	once := func(to *[]float64, d time.Duration) { *to = append(*to, float64(d)/float64(c.repeat)) }
	once(&c.addedAlone, with.decoding-without.decoding)
	once(&c.addedInPlace, under.decoding-bare.decoding)
	once(&c.addedWhole, under.whole-bare.whole)
	once(&c.decoding, bare.decoding)
	once(&c.whole, bare.whole)
	c.perEvent = append(c.perEvent, float64(bare.decoding)/float64(c.repeat*c.events))
}

// manyEvents is the number of events from which a stream counts as long.
const manyEvents = 50

func report(b *testing.B, compared []*comparison) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	var own []float64
	for _, c := range compared {
		own = append(own, stats.Median(c.perEvent))
	}
	b.ReportMetric(stats.Median(own), "ns/event-sdk")
	for _, group := range []struct {
		name string
		from int
	}{{"", 0}, {"-long", manyEvents}} {
		var alone, inPlace, wholeCall []float64
		for _, c := range compared {
			if c.events >= group.from {
				alone, inPlace, wholeCall = append(alone, stats.Median(c.alone)), append(inPlace, stats.Median(c.inPlace)), append(wholeCall, stats.Median(c.wholeCall))
			}
		}
		b.ReportMetric(float64(len(alone)), "streams"+group.name)
		if len(alone) < 2 {
			continue // too few for an interval
		}
		for _, m := range []struct {
			name   string
			values []float64
		}{{"alone", alone}, {"in-place", inPlace}, {"whole-call", wholeCall}} {
			mean, half := stats.Mean(m.values)
			b.ReportMetric(mean, "%-"+m.name+group.name)
			b.ReportMetric(half, "±%-"+m.name+group.name)
		}
	}
	total := func(of func(*comparison) []float64) (sum float64) {
		for _, c := range compared {
			sum += stats.Median(of(c))
		}
		return sum
	}
	decoding := total(func(c *comparison) []float64 { return c.decoding })
	b.ReportMetric(100*total(func(c *comparison) []float64 { return c.addedAlone })/decoding, "%-alone-total")
	b.ReportMetric(100*total(func(c *comparison) []float64 { return c.addedInPlace })/decoding, "%-in-place-total")
	b.ReportMetric(100*total(func(c *comparison) []float64 { return c.addedWhole })/total(func(c *comparison) []float64 { return c.whole }), "%-whole-call-total")
}
