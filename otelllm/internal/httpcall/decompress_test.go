package httpcall

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// flusher is what every compressor is.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// compressors are the encodings as servers write them, by a name that begins with that of
// the header.
var compressors = map[string]func(io.Writer) flusher{
	"gzip":        func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"x-gzip":      func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"gzip stored": func(w io.Writer) flusher { return must(gzip.NewWriterLevel(w, gzip.NoCompression)) },
	"deflate":     func(w io.Writer) flusher { return zlib.NewWriter(w) },
	"deflate raw": func(w io.Writer) flusher { return must(flate.NewWriter(w, flate.DefaultCompression)) },
	"br":          func(w io.Writer) flusher { return brotli.NewWriter(w) },
	"br fast":     func(w io.Writer) flusher { return brotli.NewWriterLevel(w, 0) },
	"zstd":        func(w io.Writer) flusher { return must(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))) },
	"zstd best": func(w io.Writer) flusher {
		return must(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBestCompression)))
	},
	"gzip, br":         stackedCompressor(func(w io.Writer) flusher { return gzip.NewWriter(w) }, func(w io.Writer) flusher { return brotli.NewWriter(w) }),
	"deflate, x-gzip":  stackedCompressor(func(w io.Writer) flusher { return zlib.NewWriter(w) }, func(w io.Writer) flusher { return gzip.NewWriter(w) }),
	"zstd, gzip, gzip": stackedCompressor(func(w io.Writer) flusher { return must(zstd.NewWriter(w)) }, func(w io.Writer) flusher { return gzip.NewWriter(w) }, func(w io.Writer) flusher { return gzip.NewWriter(w) }),
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// stacked is compressors on top of one another, the last one first.
type stacked []flusher

func stackedCompressor(all ...func(io.Writer) flusher) func(io.Writer) flusher {
	return func(w io.Writer) flusher {
		var s stacked
		for _, open := range slices.Backward(all) {
			next := open(w)
			s, w = append(s, next), next
		}
		return s
	}
}

func (s stacked) Write(p []byte) (int, error) { return s[len(s)-1].Write(p) }

func (s stacked) Flush() error { return s.each(flusher.Flush) }

func (s stacked) Close() error { return s.each(flusher.Close) }

func (s stacked) each(f func(flusher) error) error {
	var errs []error
	for _, w := range slices.Backward(s) {
		errs = append(errs, f(w))
	}
	return errors.Join(errs...)
}

// headerOf returns the header of a response with an encoding of compressors.
func headerOf(name string) http.Header {
	if !strings.Contains(name, ",") {
		name, _, _ = strings.Cut(name, " ")
	}
	return http.Header{"Content-Encoding": {name}}
}

// flushed returns events as a server sends them that flushes each, one piece an event, and
// the end of the encoded body as the last piece.
func flushed(tb testing.TB, name string, events []string) (pieces [][]byte) {
	tb.Helper()
	var b bytes.Buffer
	w := compressors[name](&b)
	for _, e := range events {
		_, err := io.WriteString(w, e)
		require.NoError(tb, err)
		require.NoError(tb, w.Flush())
		pieces = append(pieces, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	require.NoError(tb, w.Close())
	return append(pieces, b.Bytes())
}

func someEvents(n int) (events []string) {
	for i := range n {
		events = append(events, fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word %d\"}}]}\n\n", i*i*i))
	}
	return append(events, strings.Repeat("data: {}\n", 5000)+"\n")
}

// TestFlushed checks that every event is decoded when its bytes have come, whatever their
// pieces, and that a body has been read to its end only where the encoded body has.
func TestFlushed(t *testing.T) {
	defer goleak.VerifyNone(t)
	events := someEvents(20)
	for name := range compressors {
		pieces := flushed(t, name, events)
		for _, size := range []int{1, 7, 1 << 20} {
			d := NewDecompressor(headerOf(name))
			require.NotNil(t, d, name)
			want, got := "", ""
			plain := func(p []byte) { got += string(p) }
			for i, p := range pieces {
				for part := range slices.Chunk(p, size) {
					require.NoError(t, d.Write(part, plain), name)
				}
				if i < len(events) {
					want += events[i]
				}
				if got != want {
					t.Fatalf("%s in pieces of %d: %d bytes after %d events, want %d", name, size, len(got), i+1, len(want))
				}
			}
			require.NoError(t, d.Close(plain), name)
			assert.Equal(t, want, got, name)
			d.Stop()
		}
	}
	assert.Zero(t, windowsHeld.Load())
}

// TestCutWithinEncoding checks every cut of an encoded body: what was decoded is a beginning of
// what was sent with all that had been flushed, and the end is missing.
func TestCutWithinEncoding(t *testing.T) {
	events := someEvents(4)[:4]
	all := strings.Join(events, "")
	for name := range compressors {
		pieces := flushed(t, name, events)
		sent := slices.Concat(pieces...)
		for cut := 1; cut < len(sent); cut += sample.Every(7) {
			d := NewDecompressor(headerOf(name))
			got := ""
			plain := func(p []byte) { got += string(p) }
			require.NoError(t, d.Write(sent[:cut], plain), name)
			err := d.Close(plain)
			if strings.HasPrefix(name, "br") && cut == len(sent)-1 && err == nil {
				continue // its last byte may be padding
			}
			if got == "" && !d.hasMagic() {
				require.ErrorIs(t, err, errOther, "%s cut at %d of %d", name, cut, len(sent))
				require.Regexp(t, "br|deflate", name, "the others begin with a mark")
				continue
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s cut at %d of %d", name, cut, len(sent))
			whole, n := 0, 0
			for i := range events {
				if n += len(pieces[i]); n <= cut {
					whole += len(events[i])
				}
			}
			assert.True(t, strings.HasPrefix(all, got), name)
			assert.GreaterOrEqual(t, len(got), whole, "%s cut at %d", name, cut)
			d.Stop()
		}
	}
}

// plainBodies are answers without an encoding, and every beginning of them.
func plainBodies() (bodies []string) {
	for _, whole := range []string{
		"data: {\"choices\":[]}\n\ndata: [DONE]\n\n", ": comment\n\n", "event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
		`{"choices":[]}`, "[]", "<!DOCTYPE html><html>", "upstream connect error", "OK", "\r\n{}", "\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		for n := range len(whole) {
			bodies = append(bodies, whole[:n+1])
		}
	}
	return bodies
}

// TestNotEncoded checks bodies that are not what their header says. An empty one is complete.
func TestNotEncoded(t *testing.T) {
	for name := range compressors {
		for _, body := range plainBodies() {
			d := NewDecompressor(headerOf(name))
			plain := func([]byte) {}
			err := d.Write([]byte(body), plain)
			if closed := d.Close(plain); err == nil {
				err = closed
			}
			require.Error(t, err, "%s: %q", name, body)
			if body[0] != 0 {
				require.NotErrorIs(t, err, io.ErrUnexpectedEOF, "%s: %q is not a cut body", name, body)
			}
			d.Stop()
		}
		d := NewDecompressor(headerOf(name))
		require.NoError(t, d.Write(nil, nil))
		require.NoError(t, d.Close(nil))
		d.Stop()
		d.Stop()
	}
	assert.Nil(t, NewDecompressor(http.Header{"Content-Encoding": {"compress"}}))
	assert.Nil(t, NewDecompressor(http.Header{"Content-Encoding": {"identity"}}))
	assert.Zero(t, windowsHeld.Load())
}

// TestStop checks that a body that is not read to its end leaves nothing behind, wherever it
// was, nor does one whose reader panics.
func TestStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name := range compressors {
		sent := slices.Concat(flushed(t, name, someEvents(3))...)
		for range 20 {
			d := NewDecompressor(headerOf(name))
			_ = d.Write(sent[:rand.IntN(len(sent))], func([]byte) {})
			d.Stop()
		}
		d := NewDecompressor(headerOf(name))
		assert.Panics(t, func() { _ = d.Write(sent, func([]byte) { panic("x") }) })
		clear(sent) // it is the caller's again
		d.Stop()
	}
	assert.Zero(t, windowsHeld.Load())
}

// TestTooManyWindows checks that all bodies together hold bounded memory.
func TestTooManyWindows(t *testing.T) {
	var open []*Decompressor
	for {
		d := NewDecompressor(headerOf("zstd"))
		if d == nil {
			break
		}
		open = append(open, d)
	}
	assert.Len(t, open, int(maxWindows/windows["zstd"]))
	for _, d := range open {
		d.Stop()
	}
	assert.Zero(t, windowsHeld.Load())
}

// TestResponseBombs checks that what one response decodes to is bounded, and the memory that this
// takes.
func TestResponseBombs(t *testing.T) {
	maxMiB := uint64(40 * sample.Every(64))
	for name := range compressors {
		if name == "gzip stored" || sample.Only() && name != "gzip" && name != "zstd" {
			continue // it is no smaller; or it takes long
		}
		var bomb bytes.Buffer
		w := compressors[name](&bomb)
		_, err := io.Copy(w, zeros(256<<20/int64(sample.Every(8))))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		d := NewDecompressor(headerOf(name))
		got, failed := 0, error(nil)
		for part := range slices.Chunk(bomb.Bytes(), 4<<10) {
			failed = d.Write(part, func(p []byte) { got += len(p) })
		}
		if err := d.Close(func(p []byte) { got += len(p) }); failed == nil {
			failed = err
		}
		d.Stop()
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d KiB decoded to %d MiB in %v, %d MiB allocated", name, bomb.Len()>>10, got>>20, took, (after.TotalAlloc-before.TotalAlloc)>>20)
		require.ErrorIs(t, failed, errTooMuch, name)
		assert.LessOrEqual(t, got, freePlain+maxRatio*bomb.Len(), name)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, maxMiB, "%s: MiB allocated", name)
	}
	// Much input, and no output: a piece takes no longer than its bytes do.
	for name, unit := range map[string][]byte{
		"gzip": encoded(t, strings.NewReader(""))["gzip"], "zstd": {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0},
		"deflate raw": emptyDynamicBlock,
	} {
		start := time.Now()
		d := NewDecompressor(headerOf(name))
		body := bytes.Repeat(unit, 1<<20/len(unit))
		require.NoError(t, d.Write(body, func([]byte) { t.Error("nothing is in it") }), name)
		d.Stop()
		t.Logf("%s of nothing: 1 MiB in %v", name, time.Since(start))
	}
}

// emptyDynamicBlock is one byte-aligned sequence of blocks of deflate with Huffman tables of their own
// and nothing in them, followed by an empty stored block.
var emptyDynamicBlock = []byte{0x04, 0xc0, 0x81, 0x08, 0x00, 0x00, 0x00, 0x00, 0x20, 0x7f, 0xeb, 0x03, 0x00, 0x00, 0xff, 0xff}

func FuzzDecompressor(f *testing.F) {
	names := make([]string, 0, len(compressors))
	for name := range compressors {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		f.Add(uint8(i), uint8(7), slices.Concat(flushed(f, name, someEvents(2)[:2])...))
	}
	f.Fuzz(func(t *testing.T, which, size uint8, body []byte) {
		header := headerOf(names[int(which)%len(names)])
		got := 0
		d := NewDecompressor(header)
		var err error
		for part := range slices.Chunk(body, int(size)+1) {
			err = d.Write(part, func(p []byte) { got += len(p) })
		}
		if closed := d.Close(func(p []byte) { got += len(p) }); err == nil {
			err = closed
		}
		d.Stop()
		assert.LessOrEqual(t, got, freePlain+maxRatio*len(body))
		all, _ := encodingsOf(header)
		if once := decode(all, body, time.Minute); once != nil {
			require.NoError(t, err, "all at once it can be decoded")
			assert.Len(t, once.plain, got)
			once.release()
		}
		assert.Zero(t, windowsHeld.Load())
	})
}
