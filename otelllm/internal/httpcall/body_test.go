package httpcall

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const historyBody = `{"model":"gpt-5","stream":true,"messages":[
	{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},
	{"role":"tool","tool_call_id":"call_1","content":"secret"}]}`

// A body in memory is read without a copy.
func TestPreviewDoesNotCopy(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	body := []byte(strings.Replace(historyBody, "secret", strings.Repeat("s", 1<<20), 1))
	req, err := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", bytes.NewReader(body))
	require.NoError(t, err)
	contents, ok := NewPreview(req).Contents(protocol)
	require.True(t, ok)
	assert.Equal(t, "gpt-5", contents.Model)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = NewPreview(req).Contents(protocol)
		}
	}).AllocedBytesPerOp()
	assert.Less(t, allocated, int64(64<<10), "bytes allocated for a body of 1 MB")
	sent, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	assert.Equal(t, body, sent, "the body itself is unchanged")
}

// TestNextTryCountsAlone checks that bytes that are still read from the body of an earlier try
// are ignored.
func TestNextTryCountsAlone(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	body := NewBody(io.NopCloser(strings.NewReader("nonsense"+historyBody)), BodyConfig{Protocol: protocol, Length: int64(len(historyBody))})
	_, err := body.Read(make([]byte, 8))
	require.NoError(t, err)
	again, err := body.TrackGetBody(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(historyBody)), nil })()
	require.NoError(t, err)
	_, err = again.Read(make([]byte, 20))
	require.NoError(t, err)
	_, err = body.Read(make([]byte, 20))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, again)
	require.NoError(t, err)
	assert.Equal(t, []string{"call_1", "call_2"}, body.Contents().HistoryCalls)
	wrong, _ := body.Fault()
	assert.False(t, wrong)
	assert.Nil(t, body.TrackGetBody(nil), "a request without GetBody gets none")
	_, err = body.TrackGetBody(func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe })()
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestNextTryWhileParsing checks that a request that is sent once more keeps what its body says, if the body had been
// sent whole and was just being read.
func TestNextTryWhileParsing(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	body := NewBody(io.NopCloser(strings.NewReader("")), BodyConfig{Protocol: protocol})
	whole := body.keep(0, []byte(historyBody), io.EOF)
	_, err := body.TrackGetBody(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(historyBody)), nil })()
	require.NoError(t, err)
	body.parse(whole)
	assert.Equal(t, []string{"call_1", "call_2"}, body.Contents().HistoryCalls)
}

// A transport may go on reading the request after it has answered.
func TestBodyOutlivesTheAttempt(t *testing.T) {
	protocol, _ := wire.ByName("openai_chat")
	body := NewBody(io.NopCloser(strings.NewReader(historyBody)), BodyConfig{Protocol: protocol})
	n, err := body.Read(make([]byte, 10))
	require.NoError(t, err)
	assert.Equal(t, 10, n)
	assert.Zero(t, body.Contents())
	body.Drop()
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, historyBody[10:], string(rest))
	assert.Empty(t, body.buf, "nothing is kept after Drop")
	assert.Zero(t, body.Contents())
	require.NoError(t, body.Close())
}
