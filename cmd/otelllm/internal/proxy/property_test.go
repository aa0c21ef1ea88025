package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// script is what an upstream does: it reads the frames of a client, if any, sends pieces,
// and ends the connection.
type script struct {
	reads  []byte
	pieces [][]byte
	reset  bool
}

// randomScript returns a response, or the frames of a WebSocket, that may be cut anywhere.
func randomScript(r *rand.Rand) (s *script, kind string) {
	content := randomContent(r)
	var head string
	var body []byte
	switch kind = []string{"chunked", "length", "close", "websocket"}[r.IntN(4)]; kind {
	case "chunked":
		head, body = sseHead+chunked, randomChunks(r, content)
	case "length":
		head, body = sseHead+"Content-Length: "+strconv.Itoa(len(content))+"\r\n\r\n", content
	case "close":
		head, body = sseHead+"\r\n", content
	case "websocket":
		s = &script{reads: randomFrames(r, randomContent(r))}
		body = randomFrames(r, content)
	}
	if s == nil {
		s = &script{}
	}
	if r.IntN(2) == 0 { // cut
		body = body[:r.IntN(len(body)+1)]
		s.reset = r.IntN(2) == 0
	}
	s.pieces = append(s.pieces, []byte(head))
	for len(body) > 0 {
		n := 1 + r.IntN(min(len(body), 1<<r.IntN(14)))
		s.pieces, body = append(s.pieces, body[:n]), body[n:]
	}
	return s, kind
}

func randomContent(r *rand.Rand) []byte {
	var b bytes.Buffer
	switch r.IntN(3) {
	case 0: // noise
		for range r.IntN(30_000) {
			b.WriteByte(byte(r.Uint32()))
		}
	default:
		for range r.IntN(200) {
			fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("Ray ", r.IntN(20)))
		}
		b.WriteString("data: [DONE]\n\n")
	}
	if r.IntN(3) > 0 {
		return b.Bytes()
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(b.Bytes())
	_ = w.Close()
	return zipped.Bytes()
}

func randomChunks(r *rand.Rand, content []byte) []byte {
	var b bytes.Buffer
	for len(content) > 0 {
		n := 1 + r.IntN(min(len(content), 1<<r.IntN(14)))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, content[:n])
		content = content[n:]
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

func randomFrames(r *rand.Rand, content []byte) []byte {
	var b bytes.Buffer
	for len(content) > 0 {
		n := 1 + r.IntN(min(len(content), 1<<r.IntN(14)))
		b.WriteByte(0x80 | byte(1+r.IntN(2)))
		switch {
		case n < 126:
			b.WriteByte(byte(n))
		default:
			b.Write([]byte{126, byte(n >> 8), byte(n)})
		}
		b.Write(content[:n])
		content = content[n:]
	}
	return b.Bytes()
}

// play lets an upstream do what is in s.
func (s *script) play(t *testing.T, p *peer, kind string) {
	if kind == "websocket" {
		acceptRaw(p)
		got := make([]byte, len(s.reads))
		_, _ = io.ReadFull(p.r, got)
		assert.True(t, bytes.Equal(s.reads, got), "what the client sent")
	} else {
		p.request()
	}
	for _, piece := range s.pieces {
		_, _ = p.Write(piece)
	}
	if s.reset { // a reset discards what has not got to the other side
		for left, ok := unsent(p.TCPConn); ok && left > 0; left, ok = unsent(p.TCPConn) {
			time.Sleep(time.Millisecond)
		}
		p.reset()
	}
}

// Random streams, in random pieces and cut at random points, are the same with the proxy as
// without it: the bytes, and how they end.
func TestStreamsAsDirect(t *testing.T) {
	cases := 1000 / sample.Every(10)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	type run struct {
		*script

		kind string
	}
	runs := make([]run, cases)
	for i := range runs {
		s, kind := randomScript(rand.New(rand.NewPCG(seed, uint64(i)))) //nolint:gosec // a test's
		runs[i] = run{s, kind}
	}
	up := serveRaw(t, func(_ *upstream, p *peer) {
		line, err := p.r.Peek(64)
		if err != nil {
			return
		}
		_, after, _ := strings.Cut(string(line), "?case=")
		number, _, _ := strings.Cut(after, " ")
		i, err := strconv.Atoi(number)
		if assert.NoError(t, err) {
			runs[i].play(t, p, runs[i].kind)
		}
	})
	proxy := start(t, up.url())
	ask := func(addr string, i int) (got, end string) {
		path := "?case=" + strconv.Itoa(i)
		if runs[i].kind == "websocket" {
			return exchangeRaw(t, addr, strings.Replace(handshake, "/v1/responses", "/v1/realtime"+path, 1)+string(runs[i].reads))
		}
		return exchangeRaw(t, addr, post(addr, "/v1/chat/completions"+path, "Connection: close"))
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range next {
				direct, directEnd := ask(up.Addr().String(), i)
				got, end := ask(proxy.addr, i)
				compare(t, fmt.Sprintf("seed %d, case %d, %s", seed, i, runs[i].kind), runs[i].kind, direct, directEnd, got, end)
			}
		})
	}
	for i := range runs {
		next <- i
	}
	close(next)
	wg.Wait()
}

// compare holds a raw exchange through the proxy against the direct one.
func compare(t *testing.T, name, kind, direct, directEnd, got, end string) {
	t.Helper()
	if kind == "chunked" || kind == "length" { // the chunks may be others
		status, content, err := body(t, direct)
		gotStatus, gotContent, gotErr := body(t, got)
		assert.Equal(t, status, gotStatus, name)
		assert.Equal(t, sha256.Sum256([]byte(content)), sha256.Sum256([]byte(gotContent)), "%s: %d bytes, %d", name, len(content), len(gotContent))
		assert.Equal(t, err == nil, gotErr == nil, "%s: %v, %v", name, err, gotErr)
		if err == nil {
			return // what becomes of the connection is no part of a whole response
		}
	} else {
		_, content, _ := strings.Cut(direct, "\r\n\r\n")
		_, gotContent, _ := strings.Cut(got, "\r\n\r\n")
		assert.Equal(t, sha256.Sum256([]byte(content)), sha256.Sum256([]byte(gotContent)), "%s: %d bytes, %d", name, len(content), len(gotContent))
	}
	assert.Equal(t, directEnd, end, name)
}

// The scripts are of all kinds, and some are cut.
func TestRandomScripts(t *testing.T) {
	kinds := map[string]int{}
	resets := 0
	for i := range uint64(200) {
		s, kind := randomScript(rand.New(rand.NewPCG(1, i))) //nolint:gosec // a test's
		kinds[kind]++
		if s.reset {
			resets++
		}
		require.NotEmpty(t, s.pieces)
	}
	assert.Len(t, kinds, 4)
	assert.Greater(t, resets, 20)
}
