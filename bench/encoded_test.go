package bench

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// flusher is a compressor.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// encodings are those that the transport decodes, with the reader that an application has.
var encodings = []struct {
	name     string
	compress func(io.Writer) flusher
	reader   func(io.Reader) (io.Reader, error)
}{
	{"gzip", func(w io.Writer) flusher { return gzip.NewWriter(w) }, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"deflate", func(w io.Writer) flusher { return zlib.NewWriter(w) }, func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }},
	{"br", func(w io.Writer) flusher { return brotli.NewWriter(w) }, func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }},
	{"zstd", func(w io.Writer) flusher {
		z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		return z
	}, func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }},
}

// BenchmarkEncoded measures what the transport adds to a response that its reader asked to
// be compressed and decompresses itself, over what that takes: reading and decompressing
// it. x-undoing is without what it adds to the same response if it is not compressed: what
// is left is for decompressing the copy. The bar is 2.
func BenchmarkEncoded(b *testing.B) {
	oneCore(b)
	for _, e := range encodings {
		for _, flushed := range []bool{true, false} {
			name := e.name + "/whole"
			if flushed {
				name = e.name + "/an-event-a-flush"
			}
			b.Run(name, func(b *testing.B) { benchEncoded(b, e.name, e.compress, e.reader, flushed) })
		}
	}
}

// wordy returns a stream of deltas with a word each, and the padding that OpenAI adds to them.
// What compresses badly in a real stream is random here, as well.
func wordy(events int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	letters := func(n int) []byte {
		word := make([]byte, n)
		for i := range word {
			word[i] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
		}
		return word
	}
	var b bytes.Buffer
	for range events {
		word := letters(2 + r.IntN(7))
		fmt.Fprintf(&b, "data: %s\"choices\":[{\"index\":0,\"delta\":{\"content\":\" %s\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"%s\"}\n\n", chatChunk, word, letters(9-len(word)+r.IntN(3)))
	}
	return b.Bytes()
}

func benchEncoded(b *testing.B, encoding string, compress func(io.Writer) flusher, reader func(io.Reader) (io.Reader, error), flushed bool) {
	w, plain := chat, wordy(20_000)
	var sent bytes.Buffer
	c := compress(&sent)
	var pieces [][]byte
	for _, event := range bytes.SplitAfter(plain, []byte("\n\n")) {
		_, err := c.Write(event)
		require.NoError(b, err)
		if flushed {
			require.NoError(b, c.Flush())
			pieces = append(pieces, bytes.Clone(sent.Bytes()))
			sent.Reset()
		}
	}
	require.NoError(b, c.Close())
	pieces = append(pieces, sent.Bytes())
	events := bytes.SplitAfter(plain, []byte("\n\n"))
	if !flushed {
		events, pieces = pages(plain), pages(pieces[0])
	}
	encoded := &memory{
		header: http.Header{"Content-Type": {w.contentType}, "Content-Encoding": {encoding}},
		open:   func() io.Reader { return &eventwise{events: pieces} },
	}
	asItIs := &memory{header: http.Header{"Content-Type": {w.contentType}}, open: func() io.Reader { return &eventwise{events: events} }}
	recorded := func(base http.RoundTripper) http.RoundTripper {
		return otelllm.NewTransport(base, otelllm.WithTracerProvider(sdk()), otelllm.WithoutInferredRuns())
	}
	reading := func(rt http.RoundTripper, reader func(io.Reader) (io.Reader, error)) func() time.Duration {
		return func() time.Duration {
			resp := send(b, rt, w.post(b.Context(), b, w.body(0)))
			defer resp.Body.Close()
			var n int64
			spent := timed(func() {
				r, err := reader(resp.Body)
				require.NoError(b, err)
				n, err = io.Copy(io.Discard, r)
				require.NoError(b, err)
			})()
			require.EqualValues(b, len(plain), n)
			return spent
		}
	}
	same := func(r io.Reader) (io.Reader, error) { return r, nil }
	variants := []func() time.Duration{
		reading(encoded, reader), reading(recorded(encoded), reader), reading(asItIs, same), reading(recorded(asItIs), same),
	}
	var spent []time.Duration
	var added, undoing, alone []float64
	for b.Loop() {
		spent = round(spent, variants...)
		by, plainly := (spent[1] - spent[0]).Seconds(), (spent[3] - spent[2]).Seconds()
		alone = append(alone, spent[0].Seconds())
		added = append(added, by/spent[0].Seconds())
		undoing = append(undoing, (by-plainly)/spent[0].Seconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stats.Median(added), "x-added")
	b.ReportMetric(stats.Median(undoing), "x-undoing")
	b.ReportMetric(float64(len(plain))/stats.Median(alone)/1e6, "MB/s-alone")
}

// pages cuts data into pieces of 4 KiB.
func pages(data []byte) (pieces [][]byte) {
	return slices.Collect(slices.Chunk(data, 4<<10))
}
