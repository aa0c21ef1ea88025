package httpcall

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// encoded returns plain in each of the encodings, and under the name of deflate in zlib's format.
func encoded(tb testing.TB, plain io.Reader) map[string][]byte {
	tb.Helper()
	var gz, zl, br, zs bytes.Buffer
	compressor, err := zstd.NewWriter(&zs, zstd.WithWindowSize(maxWindow))
	require.NoError(tb, err)
	writers := []io.WriteCloser{gzip.NewWriter(&gz), zlib.NewWriter(&zl), brotli.NewWriterLevel(&br, 1), compressor}
	all := make([]io.Writer, 0, len(writers))
	for _, w := range writers {
		all = append(all, w)
	}
	_, err = io.Copy(io.MultiWriter(all...), plain)
	require.NoError(tb, err)
	for _, w := range writers {
		require.NoError(tb, w.Close())
	}
	return map[string][]byte{"gzip": gz.Bytes(), "x-gzip": gz.Bytes(), "deflate": zl.Bytes(), "br": br.Bytes(), "zstd": zs.Bytes()}
}

func TestDecode(t *testing.T) {
	for _, plain := range []string{"", "{}", historyBody, strings.Repeat(historyBody, maxDecoded/len(historyBody)), strings.Repeat(" ", maxDecoded)} {
		for name, body := range encoded(t, strings.NewReader(plain)) {
			d := decode(encodings{name}, body, time.Minute)
			require.NotNil(t, d, name)
			if plain != string(d.plain) { // not assert.Equal: it would print megabytes
				t.Errorf("%s: another body", name)
			}
			d.release()
			if len(body) > 40 && len(plain) < 1000 {
				assert.Nil(t, decode(encodings{name}, body[:len(body)/2], time.Minute), "%s, cut", name)
				assert.Nil(t, decode(encodings{name}, append([]byte("garbage"), body...), time.Minute), "%s, garbage", name)
			}
		}
	}
	assert.Nil(t, decode(encodings{"compress"}, []byte("x"), time.Minute))
	assert.Empty(t, decoding)
}

// TestDecodeOnce checks that the body of a request is decoded once, however often it is read, and that the place is
// free after that.
func TestDecodeOnce(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	other, _ := wire.ByName("openai_responses")
	opened := 0
	gunzip := decompressors["gzip"]
	decompressors["gzip"] = func(r io.Reader) (io.Reader, error) {
		opened++
		return gunzip(r)
	}
	defer func() { decompressors["gzip"] = gunzip }()
	req, err := http.NewRequest(http.MethodPost, "http://x/v1/responses", bytes.NewReader(encoded(t, strings.NewReader(historyBody))["gzip"]))
	require.NoError(t, err)
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("Content-Type", "application/json")
	preview := NewPreview(req)
	p, _, ok := (&Recogniser{Protocol: protocol}).Recognise(preview)
	assert.True(t, ok)
	assert.Equal(t, protocol.Name(), p.Name(), "by the body")
	for _, p := range []wire.Protocol{protocol, other, protocol} {
		contents, ok := preview.Contents(p)
		assert.True(t, ok && contents.Read)
	}
	assert.True(t, preview.Present())
	assert.True(t, preview.Read(func(b []byte) { assert.JSONEq(t, historyBody, string(b)) }))
	assert.Equal(t, 1, opened)
	assert.Len(t, decoding, 1)
	preview.Close()
	preview.Close()
	assert.Empty(t, decoding)
	assert.False(t, preview.Read(func([]byte) { t.Error("closed") }))
}

// TestPreviewOfStream checks that a body that does not lie in memory is left to be read as it is sent.
func TestPreviewOfStream(t *testing.T) {
	for _, name := range []string{"", "gzip", "zstd"} {
		req, err := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", io.MultiReader(strings.NewReader(historyBody)))
		require.NoError(t, err)
		req.Header.Set("Content-Encoding", name)
		preview := NewPreview(req)
		assert.False(t, preview.Present())
		_, ok := preview.Contents(chatProtocol)
		assert.False(t, ok, name)
		preview.Close()
	}
}

// TestNoPlace checks that a body is given up when all places stay taken.
func TestNoPlace(t *testing.T) {
	for range cap(decoding) {
		decoding <- struct{}{}
	}
	body := encoded(t, strings.NewReader(historyBody))["zstd"]
	assert.Nil(t, decode(encodings{"zstd"}, body, time.Minute))
	<-decoding
	d := decode(encodings{"zstd"}, body, time.Minute)
	assert.NotNil(t, d)
	d.release()
	for range cap(decoding) - 1 {
		<-decoding
	}
}

// zeros are n zeros.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestBombs checks that a body which becomes huge costs bounded memory, is not read, and that its time is limited.
func TestBombs(t *testing.T) {
	if sample.Only() {
		t.Skip("takes seconds, and buffers escape that are on the stack without the race detector")
	}
	const maxMiB = uint64(40)
	bombs := encoded(t, zeros(4*maxDecoded))
	bombs["br of much"] = bytes.Repeat(encoded(t, strings.NewReader(""))["br"], 1<<20)
	var wide bytes.Buffer
	widest := brotli.NewWriterOptions(&wide, brotli.WriterOptions{Quality: 5, LGWin: 24})
	_, err := io.Copy(widest, zeros(4*maxDecoded))
	require.NoError(t, err)
	require.NoError(t, widest.Close())
	bombs["br with the largest window"] = wide.Bytes()
	// Empty members and frames: much input, and no output.
	bombs["gzip of nothing"] = bytes.Repeat(encoded(t, strings.NewReader(""))["gzip"], MaxCopy/24)
	bombs["zstd of nothing"] = bytes.Repeat([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00}, MaxCopy/9)
	bombs["zstd to skip"] = bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, MaxCopy/8)
	bombs["zstd of a huge window"] = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00}
	for name, body := range bombs {
		encoding, _, _ := strings.Cut(name, " ")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		d := decode(encodings{encoding}, body, time.Minute)
		if d != nil {
			assert.Empty(t, d.plain, name)
			d.release()
		}
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d bytes, %d MiB", name, len(body), allocated)
		assert.Nil(t, decode(encodings{encoding}, body, time.Nanosecond), "%s: no time is left", name)
		assert.Less(t, allocated, maxMiB, "%s: MiB allocated", name)
	}
}

// TestBombsAtOnce checks that many at the same time hold no more than a few.
func TestBombsAtOnce(t *testing.T) {
	bomb := encoded(t, zeros(2*maxDecoded))["zstd"]
	var all sync.WaitGroup
	for range 32 / sample.Every(4) {
		all.Go(func() { assert.Nil(t, decode(encodings{"zstd"}, bomb, time.Minute)) })
	}
	all.Wait()
	assert.Empty(t, decoding)
}

func TestEncoding(t *testing.T) {
	for _, tt := range []struct {
		values   []string
		all      encodings
		readable bool
	}{
		{nil, nil, true},
		{[]string{"identity"}, nil, true},
		{[]string{"identity, gzip", ""}, encodings{"gzip"}, true},
		{[]string{" GZip "}, encodings{"gzip"}, true},
		{[]string{"zstd"}, encodings{"zstd"}, true},
		{[]string{"gzip, br"}, encodings{"gzip", "br"}, true},
		{[]string{"gzip", "br"}, encodings{"gzip", "br"}, true},
		{[]string{"compress"}, encodings{"compress"}, false},
		{[]string{"gzip, compress, br"}, encodings{"gzip", "compress", "br"}, false},
		{[]string{strings.Repeat("gzip,", maxEncodings)}, slices.Repeat(encodings{"gzip"}, maxEncodings), true},
		{[]string{strings.Repeat("gzip,", maxEncodings+1)}, slices.Repeat(encodings{"gzip"}, maxEncodings), false},
	} {
		all, readable := encodingsOf(http.Header{"Content-Encoding": tt.values})
		assert.Equal(t, tt.all, all, tt.values)
		assert.Equal(t, tt.readable, readable, tt.values)
	}
}

// TestEncodedBody checks that a body is passed on as it came, and read.
func TestEncodedBody(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	for name, sent := range encoded(t, strings.NewReader(historyBody)) {
		read := ""
		body := NewBody(io.NopCloser(bytes.NewReader(sent)), BodyConfig{
			Protocol: protocol, Length: int64(len(sent)), Header: http.Header{"Content-Encoding": {name}}, Unsure: true,
			OnRead: func(b []byte) { read = string(b) },
		})
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, sent, got, name)
		assert.JSONEq(t, historyBody, read, name)
		assert.Equal(t, []string{"call_1", "call_2"}, body.Contents().HistoryCalls, name)
		assert.False(t, body.Foreign(), name)

		req, err := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", bytes.NewReader(sent))
		require.NoError(t, err)
		req.Header.Set("Content-Encoding", name)
		preview := NewPreview(req)
		contents, ok := preview.Contents(protocol)
		assert.True(t, ok && contents.Read, name)
		assert.Equal(t, "gpt-5", contents.Model, name)
		assert.True(t, preview.Read(func(b []byte) { assert.JSONEq(t, historyBody, string(b)) }), name)
		preview.Close()
		req.Header.Set("Content-Encoding", "gzip, "+name)
		preview = NewPreview(req)
		contents, ok = preview.Contents(protocol)
		assert.True(t, ok && !contents.Read, name)
		assert.False(t, preview.Read(func([]byte) { t.Error(name) }))
	}
}

func BenchmarkDecode(b *testing.B) {
	body := strings.Repeat(strings.Replace(historyBody, "secret", "package main\nfunc main() { println(42) }\n", 1), 300)
	for name, sent := range encoded(b, strings.NewReader(body)) {
		b.Run(fmt.Sprintf("%s of %d KiB", name, len(body)>>10), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				decode(encodings{name}, sent, time.Minute).release()
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	names := []string{"gzip", "deflate", "br", "zstd"}
	for name, body := range encoded(f, strings.NewReader(historyBody)) {
		for i := range names {
			if names[i] == name {
				f.Add(uint8(i), body)
			}
		}
	}
	f.Add(uint8(3), []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00})
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		start := time.Now()
		if d := decode(encodings{names[int(which)%len(names)]}, body, maxDecoding); d != nil {
			assert.LessOrEqual(t, len(d.plain), maxDecoded)
			Parse(chatProtocol, d.plain)
			d.release()
		}
		assert.Less(t, time.Since(start), 10*maxDecoding)
	})
}

var chatProtocol, _ = wire.ByName("openai_chat")
