package otelllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// soakStreams is how many streams are open at the same time.
const soakStreams = 1000

// soakKinds are the ways in which a stream of the soak ends, and the expected values of
// llm.stream.end and llm.abort.source, over HTTP/1.1 and HTTP/2 alike.
var soakKinds = []struct{ name, end, source string }{
	{"complete", "terminal_event", ""},
	{"cut", "eof", ""},
	{"reset", "read_error", ""},
	{"abort", "cancelled", "user"},
	{"close", "consumer_closed", "consumer"},
	{"drop", "abandoned", "consumer"},
	{"watchdog", "watchdog", ""},
	{"shutdown", "cancelled", "shutdown"},
}

// soak holds the servers and clients of the soak.
type soak struct {
	t       *testing.T
	counted *endCounter
	spans   *recorder

	urls    [2]string
	clients [2]*http.Transport

	mu sync.Mutex
	// release is closed when the servers have to end their streams; late, for those of the kind
	// shutdown.
	release, late chan struct{}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, spans: newRecorder(t)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if sendEvents(w, firstText) != nil {
			return
		}
		kind := r.URL.Query().Get("kind")
		select {
		case <-s.until(kind):
		case <-r.Context().Done():
			return
		}
		switch kind {
		case "cut":
		case "reset":
			panic(http.ErrAbortHandler)
		default:
			_ = sendEvents(w, chatText, chatStop+chatDone)
		}
	})
	for i := range s.urls {
		server := httptest.NewUnstartedServer(handler)
		if i == 0 {
			server.Start()
		} else {
			server.EnableHTTP2 = true
			server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: soakStreams}
			server.StartTLS()
		}
		rt, ok := server.Client().Transport.(*http.Transport)
		require.True(t, ok)
		s.urls[i], s.clients[i] = server.URL, rt
		t.Cleanup(func() {
			rt.CloseIdleConnections()
			server.Close()
		})
	}
	return s
}

// until returns a channel that is closed when the server has to end a stream of this kind.
func (s *soak) until(kind string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "shutdown" {
		return s.late
	}
	return s.release
}

// openStream is a stream whose first event has been read.
type openStream struct {
	resp  *http.Response
	run   *Run
	abort func(AbortSource, string)
}

// open begins the i-th stream.
func (s *soak) open(ctx context.Context, i int) (openStream, error) {
	kind := soakKinds[i%len(soakKinds)].name
	proto := i / len(soakKinds) % 2
	ctx, abort := WithAbort(ctx)
	ctx, run := StartRun(ctx, kind, WithTracerProvider(s.counted))
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[]}`, kind)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.urls[proto]+chatPath+"?kind="+kind, strings.NewReader(body))
	if err != nil {
		return openStream{}, err
	}
	opts := []TransportOption{WithVerdicts()}
	if kind == "watchdog" {
		opts = append(opts, WithWatchdog(Watchdog{Idle: limit}), WithStreamErrors())
	}
	resp, err := NewTransport(s.clients[proto], opts...).RoundTrip(req) //nolint:contextcheck // the request has it
	if err != nil {
		return openStream{}, err
	}
	if resp.ProtoMajor != proto+1 {
		return openStream{}, errors.New(resp.Proto)
	}
	_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
	return openStream{resp, run, abort}, err
}

// finish ends one stream in the way of its kind, and its run.
func (o *openStream) finish(kind string) error {
	defer o.abort(AbortApplication, "over")
	defer o.run.End(nil)
	switch kind {
	case "abort":
		o.abort(AbortUser, "stop_button")
	case "close":
		return o.resp.Body.Close()
	}
	_, err := io.ReadAll(o.resp.Body)
	switch kind {
	case "complete", "cut", "shutdown":
		return errors.Join(err, o.resp.Body.Close())
	case "abort":
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("abort: %w", err)
		}
	case "watchdog":
		if fired := (*WatchdogError)(nil); !errors.As(err, &fired) || fired.Kind != semconv.WatchdogKindIdle {
			return fmt.Errorf("watchdog: %w", err)
		}
	default:
		if err == nil {
			return errors.New("reset: no error")
		}
	}
	return o.resp.Body.Close()
}

// round opens all streams, ends them, and checks that every span ended once.
func (s *soak) round() {
	t := s.t
	t.Helper()
	s.counted = &endCounter{TracerProvider: s.spans}
	s.mu.Lock()
	s.release, s.late = make(chan struct{}), make(chan struct{})
	s.mu.Unlock()
	ctx, over := context.WithCancel(t.Context())
	defer over()
	// One HTTP/2 connection for all: otherwise each request would dial one first.
	warm, err := s.open(ctx, len(soakKinds))
	require.NoError(t, err)

	streams := make([]openStream, soakStreams)
	results := make(chan error, soakStreams)
	done := func(n int) {
		t.Helper()
		for range n {
			require.NoError(t, <-results)
		}
	}
	for i := range streams {
		go func() {
			var err error
			streams[i], err = s.open(ctx, i)
			results <- err
		}()
	}
	done(soakStreams)
	requests, _, runs := openParts()
	assert.Equal(t, [2]int{soakStreams + 1, soakStreams + 1}, [2]int{requests, runs}, "all are open at the same time")

	of := func(kinds ...string) (n int) {
		for i := range streams {
			if kind := soakKinds[i%len(soakKinds)].name; slices.Contains(kinds, kind) {
				n++
				go func() { results <- streams[i].finish(kind) }()
			}
		}
		return n
	}
	byServer := of("complete", "cut", "reset")
	byClient := of("abort", "close", "watchdog")
	done(byClient)
	for i := range streams {
		if soakKinds[i%len(soakKinds)].name == "drop" {
			streams[i].run.End(nil)
			streams[i] = openStream{}
		}
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(s.spans.named("chat drop")) == soakStreams/len(soakKinds)
	}, testTimeout, 10*time.Millisecond)
	close(s.release)
	done(byServer)
	require.NoError(t, warm.finish("complete"))
	byShutdown := of("shutdown")
	require.NoError(t, Shutdown(ctx))
	close(s.late)
	done(byShutdown)

	s.check()
}

// check verifies what was recorded.
func (s *soak) check() {
	t := s.t
	t.Helper()
	s.counted.checkEndedOnce(t, 2*(soakStreams+1))
	for _, k := range soakKinds {
		spans := s.spans.named("chat " + k.name)
		assert.GreaterOrEqual(t, len(spans), soakStreams/len(soakKinds), k.name)
		for _, sp := range spans {
			source, _ := sp.get("llm.abort.source").(string)
			if got := [2]any{sp.get("llm.stream.end"), source}; got != [2]any{k.end, k.source} {
				t.Fatalf("%s: %v; %s", k.name, got, spantest.Text(sp))
			}
			assert.Equal(t, k.end == "watchdog", sp.get("llm.watchdog.kind") != nil)
		}
	}
	requests, tools, runs := openParts()
	assert.Equal(t, [3]int{}, [3]int{requests, tools, runs}, "nothing is left open")
}

// TestSoak has a thousand streams open at the same time, over both HTTP versions, and
// ends them in every way: each span ends once, with the right end, and no goroutines or
// memory are left.
func TestSoak(t *testing.T) {
	endLeftovers(t)
	noLeak(t)
	s := newSoak(t)
	s.round()
	first := s.retained()
	s.round()
	// The second round reuses what the first has left, such as pools and connections, so
	// a leak of one KiB per stream would show.
	assert.Less(t, s.retained()-first, int64(soakStreams<<10))
}

// retained returns how much memory is in use, in bytes.
func (s *soak) retained() int64 {
	s.spans.spans.Reset()
	s.counted = nil
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	for range 3 { // a sync.Pool keeps its items for two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
