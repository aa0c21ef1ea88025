//go:build unix

package agents

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// front is a server in front of the model: a gateway.
type front struct {
	origin string   // of its URL
	env    []string // what an agent needs to call it
	files  map[string]string
}

// setup is a way in which people run an agent, and in which wrappers and proxies around agents broke.
type setup struct {
	agent, name string
	fault       string // ok_text if empty
	front       func(t *testing.T, h http.Handler) front
	base        func(base string) string // what the agent gets as its base URL; nil: the same
	env, args   []string                 // more of them; the arguments come first. {BASE} is the base URL
	files       map[string]string        // more of them, or others
}

var slash = func(base string) string { return base + "/" }

var setups = []setup{
	{agent: "claude", name: "a client certificate", front: wantsCertificate},
	{agent: "claude", name: "an HTTP proxy in its settings", front: behindProxy(".claude/settings.json", `{"env":{"HTTPS_PROXY":"%s"}}`)},
	{agent: "gemini", name: "an HTTP proxy in its file of variables", front: behindProxy(".gemini/.env", "HTTPS_PROXY=%s\n")},
	{agent: "qwen", name: "an HTTP proxy in its file of variables", front: behindProxy(".qwen/.env", "HTTPS_PROXY=%s\n")},
	{agent: "codex", name: "an HTTP proxy in its file of variables", front: behindProxy(".codex/.env", "HTTPS_PROXY=%s\n")},
	{agent: "claude", name: "IPv6", front: overIPv6},
	{agent: "codex", name: "IPv6", front: overIPv6},
	{agent: "gemini", name: "IPv6", front: overIPv6},
	{agent: "claude", name: "a slash at the end", base: slash},
	{agent: "codex", name: "a slash at the end", base: slash},
	{agent: "gemini", name: "a slash at the end", base: slash},
	{agent: "qwen", name: "a slash at the end", base: slash},
	{agent: "opencode", name: "a slash at the end", base: slash},
	{agent: "pi", name: "a slash at the end", base: slash},
	{agent: "codex", name: "a provider of the command line", args: []string{"-c", `model_provider="own"`, "-c", `model_providers.own.name="own"`, "-c", `model_providers.own.base_url="{BASE}"`, "-c", `model_providers.own.wire_api="responses"`, "-c", `model_providers.own.env_key="E2E_KEY"`}, files: map[string]string{".codex/config.toml": ""}},
	{agent: "codex", name: "a provider of the command line in one table", args: []string{"-c", `model_provider="own"`, "-c", `model_providers.own={ name="own", base_url="{BASE}", wire_api="responses", env_key="E2E_KEY" }`}, files: map[string]string{".codex/config.toml": ""}},
	{agent: "codex", name: "parameters of a query", files: map[string]string{".codex/config.toml": codexConfig + "query_params = { api-version = \"2026-01-01\" }\n"}},
	{agent: "opencode", name: "a base URL from a variable", env: []string{"E2E_BASE={BASE}"}, files: map[string]string{".config/opencode/opencode.json": `{"provider": {"openai": {"options": {"baseURL": "{env:E2E_BASE}"}}}}`}},
	{agent: "claude", name: "a large history", files: map[string]string{"work/CLAUDE.md": strings.Repeat("All work and no play. ", 200_000)}},
	{agent: "claude", name: "a connection that is closed while a tool runs", fault: "ok_tool", front: impatient},
	{agent: "codex", name: "a connection that is closed while a tool runs", fault: "ok_tool", front: impatient},
	{agent: "gemini", name: "a connection that is closed while a tool runs", fault: "ok_tool", front: impatient},
	{agent: "codex", name: "no HTTP but 2", front: onlyHTTP2},
	{agent: "claude", name: "a redirect to the same server", front: redirects},
	{agent: "codex", name: "a redirect to the same server", front: redirects},
}

var codexConfig = agentOf("codex").files[".codex/config.toml"]

// Each setup works under `otelllm run` as it does directly, and the model calls are recorded.
func TestSetups(t *testing.T) {
	t.Parallel()
	bin := built.Otelllm(t)
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	to := &url.URL{Scheme: "http", Host: srv.Addr()}
	model := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}
	for i := range setups {
		s := &setups[i]
		t.Run(s.agent+"/"+s.name, func(t *testing.T) {
			a := *agentOf(s.agent)
			argv := a.command(t)
			t.Parallel()
			gateway := front{origin: to.String()}
			if s.front != nil {
				gateway = s.front(t, model)
			}
			a.files = maps.Clone(a.files)
			if a.files == nil {
				a.files = map[string]string{}
			}
			maps.Copy(a.files, s.files)
			maps.Copy(a.files, gateway.files)
			a.env = slices.Concat(a.env, s.env, gateway.env)
			var base string
			serve := func(key string, script *script) string {
				srv.Choose(key, script.choose)
				base = strings.Replace(a.base(srv, key), to.String(), gateway.origin, 1)
				if s.base != nil {
					base = s.base(base)
				}
				a.args = slices.Concat(s.args, agentOf(s.agent).args)
				for i := range a.args {
					a.args[i] = strings.ReplaceAll(a.args[i], "{BASE}", base)
				}
				return base
			}
			f := faultOf(a.title(), cmp.Or(s.fault, "ok_text"))
			direct := play(t, &a, f, argv, way{}, serve)
			through := play(t, &a, f, argv, way{bin: bin}, serve)
			t.Logf("direct: %d requests, exit %d\n%s\n%s", direct.main, direct.exit, direct.stdout, direct.stderr)
			t.Logf("through: %d requests, exit %d\n%s\n%s", through.main, through.exit, through.stdout, through.stderr)
			require.Zero(t, direct.exit, "the setup works directly")
			if strings.HasPrefix(base, "https:") {
				direct.accepted = through.accepted // Node asks for br over TLS alone
			}
			same(t, direct, through)
			judge(t, f, through)
			private(t, through)
		})
	}
}

// secured starts a server with TLS, and writes the file with its authority.
func secured(t *testing.T, srv *httptest.Server) front {
	t.Helper()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := writePEM(t, "CERTIFICATE", srv.Certificate().Raw)
	return front{origin: srv.URL, env: []string{"NODE_EXTRA_CA_CERTS=" + ca, "SSL_CERT_FILE=" + ca, "CODEX_CA_CERTIFICATE=" + ca}}
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// wantsCertificate verifies the certificates of its clients.
func wantsCertificate(t *testing.T, h http.Handler) front {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	f := secured(t, srv)
	f.env = append(f.env, "CLAUDE_CODE_CLIENT_CERT="+writePEM(t, "CERTIFICATE", der), "CLAUDE_CODE_CLIENT_KEY="+writePEM(t, "PRIVATE KEY", raw))
	return f
}

// behindProxy can be reached through an HTTP proxy alone, which a file of the agent names.
func behindProxy(file, text string) func(t *testing.T, h http.Handler) front {
	return func(t *testing.T, h http.Handler) front {
		t.Helper()
		company := newRecorder(t)
		srv := httptest.NewUnstartedServer(h)
		srv.TLS = &tls.Config{GetCertificate: company.certificate, MinVersion: tls.VersionTLS12}
		f := secured(t, srv)
		connect := tunnelTo(t, strings.TrimPrefix(f.origin, "https://"))
		return front{origin: "https://example.com", env: company.environment("UNUSED"), files: map[string]string{file: fmt.Sprintf(text, connect)}}
	}
}

// tunnelTo starts an HTTP proxy that knows one host, example.com, which is at the address.
func tunnelTo(t *testing.T, address string) string {
	t.Helper()
	connect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:443" {
			http.Error(w, "there is nothing here", http.StatusForbidden)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer to.Close()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, conn)
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(conn, to)
	}))
	t.Cleanup(connect.Close)
	return connect.URL
}

// overIPv6 has no IPv4 address.
func overIPv6(t *testing.T, h http.Handler) front {
	t.Helper()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("LEFT OUT: no IPv6 here: %v", err)
	}
	srv := httptest.NewUnstartedServer(h)
	_ = srv.Listener.Close()
	srv.Listener = ln
	srv.Start()
	t.Cleanup(srv.Close)
	return front{origin: srv.URL}
}

// impatient closes a connection that has been idle for an instant.
func impatient(t *testing.T, h http.Handler) front {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.IdleTimeout = time.Millisecond
	srv.Start()
	t.Cleanup(srv.Close)
	return front{origin: srv.URL}
}

// onlyHTTP2 speaks HTTP/2 and nothing else, with a certificate of a company.
func onlyHTTP2(t *testing.T, h http.Handler) front {
	t.Helper()
	company := newRecorder(t)
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetHTTP2(true)
	srv.TLS = &tls.Config{NextProtos: []string{"h2"}, GetCertificate: company.certificate, MinVersion: tls.VersionTLS12}
	f := secured(t, srv)
	f.origin = strings.Replace(f.origin, "127.0.0.1", "localhost", 1) // certificates are for names here
	f.env = company.environment("UNUSED")
	return f
}

// redirects sends every request to another path of its own first.
func redirects(t *testing.T, h http.Handler) front {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
			r.URL.Path = path
			h.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, "/moved"+r.URL.RequestURI(), http.StatusPermanentRedirect)
	}))
	t.Cleanup(srv.Close)
	return front{origin: srv.URL}
}
