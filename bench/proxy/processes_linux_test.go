package proxy

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is the upstream and the plain proxy as well, each in a process of its own, so
// that what each of them takes can be told apart.
const asUpstream, asPlain, asPlainWires = "BENCH_PROXY_UPSTREAM", "BENCH_PROXY_PLAIN", "BENCH_PROXY_PLAIN_WIRES"

// wire is what is spoken over a connection.
type wire string

// The wires. Their values are also those of asUpstream.
const (
	overHTTP1 wire = "HTTP1"
	overTLS   wire = "TLS"   // HTTP/1.1
	overHTTP2 wire = "HTTP2" // over TLS
)

func (w wire) scheme() string {
	if w == overHTTP1 {
		return "http"
	}
	return "https"
}

// protocols are those of a server that speaks nothing else.
func (w wire) protocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(w != overHTTP2)
	p.SetHTTP2(w == overHTTP2)
	return p
}

// In the folder of a process these are its certificate, which is also its only authority, and its key.
const certFile, keyFile = "cert.pem", "key.pem"

func TestMain(m *testing.M) {
	raiseFileLimit()
	switch {
	case os.Getenv(asUpstream) != "":
		serve(wire(os.Getenv(asUpstream)), http.HandlerFunc(answer))
	case os.Getenv(asPlain) != "":
		to, err := url.Parse(os.Getenv(asPlain))
		if err != nil {
			log.Fatal(err)
		}
		// As many idle connections as there are clients: else it would connect anew again and again.
		w, upstream, _ := strings.Cut(os.Getenv(asPlainWires), " ")
		transport := &http.Transport{MaxIdleConnsPerHost: 1 << 20, Protocols: wire(upstream).protocols()}
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1, Transport: transport,
			ErrorLog: log.New(io.Discard, "", 0),
		}
		serve(wire(w), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Otherwise a response may begin before the request is known to have been read, and breaks off then.
			_ = http.NewResponseController(w).EnableFullDuplex()
			proxy.ServeHTTP(w, r)
		}))
	default:
		os.Exit(m.Run())
	}
}

// raiseFileLimit makes room for 10,000 connections on both sides, as far as the system allows it.
func raiseFileLimit() {
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16})
}

// most is 10,000, or as many connections as a proxy has files for, which needs two for each.
func most() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1_000
	}
	return int(min(10_000, (limit.Cur-400)/2))
}

// serve serves until the process is killed.
func serve(w wire, h http.Handler) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "listening on %s://%s\n", w.scheme(), ln.Addr())
	s := &http.Server{Handler: h, Protocols: w.protocols(), ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // no timeouts: the clients are the benchmark's
	if w == overHTTP1 {
		log.Fatal(s.Serve(ln))
	}
	log.Fatal(s.ServeTLS(ln, certFile, keyFile))
}

// process is a process that serves HTTP.
type process struct {
	*exec.Cmd
	wire wire
	addr string
}

// start starts a process, and returns when it listens.
func start(b *testing.B, w wire, env []string, path string, args ...string) *process {
	b.Helper()
	dir := b.TempDir()
	p := &process{Cmd: exec.Command(path, args...), wire: w}
	p.Dir, p.Env = dir, append(env, "HOME="+dir)
	for name, content := range certificate(b) {
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	p.Env = append(p.Env, "SSL_CERT_FILE="+certFile)
	stderr, err := p.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if _, addr, ok := strings.Cut(lines.Text(), "listening on "+w.scheme()+"://"); ok {
			p.addr = addr
			go func() { _, _ = io.Copy(os.Stderr, stderr) }()
			return p
		}
	}
	b.Fatalf("%s does not listen", path)
	return nil
}

// certificate returns the files of a certificate for loopback, the same for all processes.
func certificate(b *testing.B) map[string][]byte {
	b.Helper()
	files, err := pemFiles()
	require.NoError(b, err)
	return files
}

var pemFiles = sync.OnceValues(func() (map[string][]byte, error) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	return map[string][]byte{
		certFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		keyFile:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, err
})

// upstream starts the upstream.
func upstream(b *testing.B, w wire) *process {
	b.Helper()
	return start(b, w, []string{asUpstream + "=" + string(w)}, self(b))
}

// plain starts the plain proxy. Its clients speak w.
func plain(b *testing.B, w wire, to *process) *process {
	b.Helper()
	return start(b, w, []string{asPlain + "=" + to.url(), asPlainWires + "=" + string(w) + " " + string(to.wire)}, self(b))
}

// program starts `otelllm proxy` as its users do. Its clients speak w.
func program(b *testing.B, w wire, to *process) *process {
	b.Helper()
	args := []string{"proxy", "--listen", "127.0.0.1:0", "--log-level", "error", "--upstream", to.url()}
	if w != overHTTP1 {
		args = append(args, "--tls-cert", certFile, "--tls-key", keyFile)
	}
	return start(b, w, nil, built(b), args...)
}

func (p *process) url() string { return p.wire.scheme() + "://" + p.addr }

func self(b *testing.B) string {
	b.Helper()
	path, err := os.Executable()
	require.NoError(b, err)
	return path
}

// built builds otelllm.
func built(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "otelllm")
	out, err := exec.Command("go", "build", "-o", path, "github.com/otelllm/otelllm-go/cmd/otelllm").CombinedOutput()
	require.NoError(b, err, "%s", out)
	return path
}

// processorTime returns how long the threads of the process have run.
func (p *process) processorTime(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may have blanks
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, which include threads that have ended
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// residentMiB returns what the process has in memory, by the kernel's name for it: VmRSS for
// now, VmHWM for the most that it has ever had.
func (p *process) residentMiB(b *testing.B, name string) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			require.NoError(b, err)
			return kib / 1024
		}
	}
	b.Fatal("no " + name)
	return 0
}
