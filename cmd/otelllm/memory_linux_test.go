package main

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BenchmarkProcess measures the resident memory of `otelllm proxy` and of a plain
// ReverseProxy: idle, and for each stream that is open and whose first text has passed. The
// requests are of the size of an agent's first ones. To the upstream they go over plain
// HTTP/1.1, as they do to a model server nearby, and over TLS and HTTP/2, as they do to the
// providers: the peer's over few connections then; otelllm's, which keeps the fate of each
// connection, over one for each of the client's. So a process needs two file descriptors for
// each stream, and has as many streams as its limit suffices for, at most 10,000; what 10,000
// take is reported from the memory of each.
func BenchmarkProcess(b *testing.B) {
	up := httptest.NewUnstartedServer(http.HandlerFunc(begins))
	up.EnableHTTP2 = true
	up.StartTLS()
	b.Cleanup(up.Close)
	near := httptest.NewServer(http.HandlerFunc(begins))
	b.Cleanup(near.Close)
	ca := filepath.Join(b.TempDir(), "ca.pem")
	require.NoError(b, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o600))
	for name, url := range map[string]string{"HTTP1": near.URL, "HTTP2": up.URL} {
		b.Run("plain/"+name, func(b *testing.B) { benchProcess(b, []string{asPeer + "=" + url, "SSL_CERT_FILE=" + ca}) })
		b.Run("otelllm/"+name, func(b *testing.B) {
			benchProcess(b, []string{asProgram + "=1", "SSL_CERT_FILE=" + ca},
				"proxy", "--listen", "127.0.0.1:0", "--grace", "0s", "--log-level", "error", "--upstream", "openai="+url)
		})
	}
}

// begins answers with the first text of a stream that does not end.
func begins(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	begin(w)
	<-r.Context().Done()
}

// benchProcess opens streams through this program, with these arguments and environment.
func benchProcess(b *testing.B, env []string, args ...string) {
	var limit syscall.Rlimit
	require.NoError(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	streams := int(min(10_000, (limit.Cur-100)/2))
	self, err := os.Executable()
	require.NoError(b, err)
	for range b.N {
		cmd, addr, stderr := startForBench(b, self, env, args...)
		idle := residentMiB(b, cmd.Process.Pid, "VmRSS")
		conns := make([]net.Conn, 0, streams)
		for i := range streams {
			conns = append(conns, openStream(b, addr, i))
		}
		full := residentMiB(b, cmd.Process.Pid, "VmHWM")
		b.ReportMetric(idle, "idle-MiB")
		each := (full - idle) / float64(streams)
		b.ReportMetric(float64(streams), "streams")
		b.ReportMetric(each*1024, "KiB/stream")
		b.ReportMetric(idle+each*10_000, "MiB/10k-streams")
		for _, conn := range conns {
			_ = conn.Close()
		}
		require.NoError(b, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the peer does not handle the signal
		require.NotContains(b, stderr.String(), "panic")
	}
}

// startForBench starts this program with these arguments and environment. Stop it with a
// signal.
func startForBench(b *testing.B, self string, env []string, args ...string) (cmd *exec.Cmd, addr string, stderr *output) {
	b.Helper()
	dir := b.TempDir()
	cmd, stderr = exec.Command(self, args...), &output{}
	cmd.Dir, cmd.Stderr = dir, stderr
	cmd.Env = append(env, "HOME="+dir)
	require.NoError(b, cmd.Start())
	return cmd, listening(b, stderr), stderr
}

// BenchmarkProcessorTime compares what an event costs `otelllm proxy` with what it costs a plain
// ReverseProxy, in time of the processor: 100 streams of 200 events, through one and the other
// in turn. The least of three rounds counts.
func BenchmarkProcessorTime(b *testing.B) {
	const rounds, streams, events = 3, 100, 200
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for range events {
			<-pause.C
			_, _ = io.WriteString(w, sseHead)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, sseEnd+sseDone)
	}))
	b.Cleanup(up.Close)
	self, err := os.Executable()
	require.NoError(b, err)
	plain, plainAddr, _ := startForBench(b, self, []string{asPeer + "=" + up.URL})
	proxy, proxyAddr, _ := startForBench(b, self, []string{asProgram + "=1"}, "proxy", "--listen", "127.0.0.1:0", "--grace", "0s", "--log-level", "error", "--upstream", up.URL)
	took := func(cmd *exec.Cmd, addr string) time.Duration {
		before := processorTime(b, cmd.Process.Pid)
		var all sync.WaitGroup
		for i := range streams {
			all.Go(func() {
				body := fmt.Sprintf(`{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"task %d"}]}`, i)
				resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if assert.NoError(b, err) {
					_, err = io.Copy(io.Discard, resp.Body)
					assert.NoError(b, err)
					_ = resp.Body.Close()
				}
			})
		}
		all.Wait()
		return processorTime(b, cmd.Process.Pid) - before
	}
	for range b.N {
		least, leastPlain := time.Hour, time.Hour
		for range rounds {
			leastPlain = min(leastPlain, took(plain, plainAddr))
			least = min(least, took(proxy, proxyAddr))
		}
		b.ReportMetric(float64(leastPlain.Microseconds())/streams/events, "plain-µs/event")
		b.ReportMetric(float64(least.Microseconds())/streams/events, "otelllm-µs/event")
		b.ReportMetric(float64(least)/float64(leastPlain), "ratio")
	}
	for _, cmd := range []*exec.Cmd{plain, proxy} {
		require.NoError(b, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
}

// processorTime returns how long the threads of a process have run.
func processorTime(b *testing.B, pid int) (all time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(b, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(b, err)
		running, _, _ := strings.Cut(string(raw), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		require.NoError(b, err)
		all += time.Duration(ns)
	}
	return all
}

// openStream sends a request and reads the first text of its answer.
func openStream(b *testing.B, addr string, i int) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	require.NoError(b, conn.SetDeadline(time.Now().Add(time.Minute)))
	body := fmt.Sprintf(`{"model":"gpt-5","stream":true,"messages":[{"role":"system","content":%q},{"role":"user","content":"task %d"}]}`, strings.Repeat("instructions ", 300), i)
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	require.NoError(b, err)
	var got []byte
	for buf := make([]byte, 512); !bytes.Contains(got, []byte(canaryAnswer)); {
		n, err := conn.Read(buf)
		require.NoError(b, err, "stream %d: %s", i, got)
		got = append(got, buf[:n]...)
	}
	return conn
}

var listeningOn = regexp.MustCompile(`listening on http://(\S+)`)

func listening(b *testing.B, o *output) string {
	b.Helper()
	var found []string
	require.Eventually(b, func() bool { found = listeningOn.FindStringSubmatch(o.String()); return found != nil }, 20*time.Second, 5*time.Millisecond)
	return found[1]
}

// residentMiB returns a value of the process's status in MiB.
func residentMiB(b *testing.B, pid int, name string) float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			require.NoError(b, err)
			return kib / 1024
		}
	}
	b.Fatal("no " + name)
	return 0
}
