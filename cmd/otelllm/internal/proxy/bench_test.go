package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timed sends the time with each event, as many as the query asks for and one a millisecond.
func timed(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for range n {
		select {
		case <-pause.C:
		case <-r.Context().Done():
			return
		}
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Rayleigh\"}}],\"at\":%d}\n\n", time.Now().UnixNano())
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	if r.URL.Query().Get("hold") != "" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// ways are the ways to an upstream: without a proxy, with a plain one, and with this one.
func ways(b *testing.B, to *url.URL) []struct{ name, base string } {
	b.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		Transport: &http.Transport{}, ErrorLog: log.New(io.Discard, "", 0),
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	b.Cleanup(plain.Close)
	return []struct{ name, base string }{
		{"direct", to.String()}, {"plain", plain.URL}, {"otelllm", start(b, to).url().String()},
	}
}

// BenchmarkChunk measures how long an event is on its way, at 1,000 events a second: p50 and
// p99 without a proxy, with a plain ReverseProxy, and with this one, and what each adds to the
// p99.
func BenchmarkChunk(b *testing.B) {
	up := httptest.NewServer(http.HandlerFunc(timed))
	defer up.Close()
	to, err := url.Parse(up.URL)
	require.NoError(b, err)
	var direct time.Duration
	for _, way := range ways(b, to) {
		b.Run(way.name, func(b *testing.B) {
			resp, err := http.Post(way.base+"/v1/chat/completions?n="+strconv.Itoa(b.N), "application/json", strings.NewReader(chatBody))
			require.NoError(b, err)
			defer resp.Body.Close()
			took := make([]time.Duration, 0, b.N)
			for r := bufio.NewReader(resp.Body); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					break
				}
				if _, at, ok := strings.Cut(line, `"at":`); ok {
					sent, _ := strconv.ParseInt(strings.TrimSuffix(at, "}\n"), 10, 64)
					took = append(took, time.Since(time.Unix(0, sent)))
				}
			}
			require.Len(b, took, b.N)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			p99 := took[len(took)*99/100]
			if way.name == "direct" {
				direct = p99
			}
			b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
			b.ReportMetric(float64((p99 - direct).Microseconds()), "p99-added-µs")
		})
	}
}

// BenchmarkStreams measures the memory of a stream that is open: of the whole process, less
// what it is without a proxy.
func BenchmarkStreams(b *testing.B) {
	const streams = 500
	up := httptest.NewServer(http.HandlerFunc(timed))
	defer up.Close()
	to, err := url.Parse(up.URL)
	require.NoError(b, err)
	direct := 0.0
	for _, way := range ways(b, to) {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				before := inUse()
				addr := strings.TrimPrefix(way.base, "http://")
				conns := make([]net.Conn, streams)
				for i := range conns {
					conns[i] = dial(b, addr)
					_, err := io.WriteString(conns[i], post(addr, "/v1/chat/completions?n=20&hold=1"))
					require.NoError(b, err)
				}
				for _, conn := range conns {
					buf, got := make([]byte, 512), ""
					for !strings.Contains(got, "[DONE]") {
						n, err := conn.Read(buf)
						require.NoError(b, err)
						got = got[max(0, len(got)-20):] + string(buf[:n])
					}
				}
				each := float64(inUse()-before) / streams / 1024
				if way.name == "direct" {
					direct = each
				}
				b.ReportMetric(each-direct, "KiB/stream")
				for _, conn := range conns {
					_ = conn.Close()
				}
			}
		})
	}
}

// BenchmarkIdle measures the memory of a proxy that has nothing to do.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		before := inUse()
		proxy := start(b, &url.URL{Scheme: "http", Host: "127.0.0.1:9"})
		b.ReportMetric(float64(inUse()-before)/1024, "KiB")
		require.NoError(b, proxy.end())
	}
}

// inUse is the memory of heap and stacks that is in use.
func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // for goroutines that are about to end
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse) //nolint:gosec // far below 1<<63
}
