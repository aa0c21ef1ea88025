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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkProcess measures the resident memory of `otelllm proxy` and of a plain
// ReverseProxy: idle, and for each stream that is open and whose first text has passed. The
// requests are of the size of an agent's first ones. To the upstream they go over plain
// HTTP/1.1, as they do to a model server nearby, and over TLS and HTTP/2, as they do to the
// providers: the peer's over few connections then; otelllm's, which keeps the fate of each
// connection, over one for each of the client's. So a process needs two file descriptors for
// each stream, of 20,000 that are often the limit.
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
	const streams = 9_000
	self, err := os.Executable()
	require.NoError(b, err)
	for range b.N {
		dir := b.TempDir()
		cmd := exec.Command(self, args...)
		var stderr output
		cmd.Dir, cmd.Stderr = dir, &stderr
		cmd.Env = append(env, "HOME="+dir)
		require.NoError(b, cmd.Start())
		addr := listening(b, &stderr)
		idle := residentMiB(b, cmd.Process.Pid, "VmRSS")
		conns := make([]net.Conn, 0, streams)
		for i := range streams {
			conns = append(conns, openStream(b, addr, i))
		}
		full := residentMiB(b, cmd.Process.Pid, "VmHWM")
		b.ReportMetric(idle, "idle-MiB")
		b.ReportMetric(full, "all-MiB")
		b.ReportMetric((full-idle)*1024/streams, "KiB/stream")
		for _, conn := range conns {
			_ = conn.Close()
		}
		require.NoError(b, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the peer does not handle the signal
		require.NotContains(b, stderr.String(), "panic")
	}
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
