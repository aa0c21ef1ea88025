package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/upstream"
)

// from returns the variables of a map.
func from(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// A server of a company is reached with its authority, whichever variable names that.
func TestAuthorities(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, append([]byte("# ours\n"), cert...), 0o600))
	for _, tt := range []struct {
		name, value string
		works       bool
	}{
		{"HOME", file, false},
		{"NODE_EXTRA_CA_CERTS", file, true},
		{"CODEX_CA_CERTIFICATE", file, true},
		{"SSL_CERT_FILE", file, true},
		{"REQUESTS_CA_BUNDLE", file, true},
		{"REQUESTS_CA_BUNDLE", dir, true},
		{"CURL_CA_BUNDLE", file, true},
		{"AWS_CA_BUNDLE", file, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport, err := upstream.Transport(upstream.Options{Getenv: from(map[string]string{tt.name: tt.value})})
			require.NoError(t, err)
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Get(srv.URL)
			if !tt.works {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A server that asks for the certificate of its clients gets the program's.
func TestCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	key, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, secret := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	o := upstream.Options{Certificate: struct{ File, Key string }{"OWN_CERT", "OWN_KEY"}}
	for _, tt := range []struct {
		cert, key string
		works     bool
	}{{"", "", false}, {cert, "", false}, {cert, secret, true}} {
		o.Getenv = from(map[string]string{"OWN_CERT": tt.cert, "OWN_KEY": tt.key, "SSL_CERT_FILE": cert})
		transport, err := upstream.Transport(o)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Get(srv.URL)
		assert.Equal(t, tt.works, err == nil)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		transport.CloseIdleConnections()
	}
	o.Getenv = from(map[string]string{"OWN_CERT": cert, "OWN_KEY": filepath.Join(dir, "canary")})
	_, err = upstream.Transport(o)
	require.ErrorContains(t, err, "OWN_CERT and OWN_KEY")
	assert.NotContains(t, err.Error(), "canary")
}

// A file that cannot be used is an error that names the variable and says what to do.
func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("canary"), 0o600))
	for _, tt := range []struct{ name, value, says string }{
		{"NODE_EXTRA_CA_CERTS", "/no/such/file", "does not exist"},
		{"SSL_CERT_FILE", empty, "has no certificate"},
		{"AWS_CA_BUNDLE", dir, "has no certificate"},
		{"HTTPS_PROXY", "ftp://user:canary@proxy", "http://HOST:PORT"},
		{"https_proxy", "http://", "http://HOST:PORT"},
		{"HTTP_PROXY", "http://[canary", "http://HOST:PORT"},
	} {
		_, err := upstream.Transport(upstream.Options{Getenv: from(map[string]string{tt.name: tt.value})})
		require.ErrorContains(t, err, tt.says, tt.name)
		assert.Contains(t, err.Error(), tt.name)
		assert.Contains(t, err.Error(), "unset it")
		assert.NotContains(t, err.Error(), "canary")
	}
}

func TestProxies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		env     map[string]string
		proxies []string
		url     string
		want    string // "": none
	}{
		{name: "none", url: "https://a.example"},
		{name: "HTTPS_PROXY", env: map[string]string{"HTTPS_PROXY": "http://p:1"}, url: "https://a.example", want: "http://p:1"},
		{name: "without a scheme", env: map[string]string{"https_proxy": "p:1"}, url: "https://a.example", want: "http://p:1"},
		{name: "SOCKS", env: map[string]string{"HTTPS_PROXY": "socks5://p:1"}, url: "https://a.example", want: "socks5://p:1"},
		{name: "not of another scheme", env: map[string]string{"HTTPS_PROXY": "http://p:1"}, url: "http://a.example"},
		{name: "HTTP_PROXY", env: map[string]string{"http_proxy": "http://p:1"}, url: "http://a.example", want: "http://p:1"},
		{name: "HTTP_PROXY is not for HTTPS", env: map[string]string{"HTTP_PROXY": "http://p:1"}, url: "https://a.example"},
		{name: "HTTP_PROXY is for HTTPS", env: map[string]string{"HTTP_PROXY": "http://p:1"}, proxies: []string{"HTTPS_PROXY", "HTTP_PROXY"}, url: "https://a.example", want: "http://p:1"},
		{name: "the first counts", env: map[string]string{"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:2"}, proxies: []string{"HTTPS_PROXY", "HTTP_PROXY"}, url: "https://a.example", want: "http://p:2"},
		{name: "ALL_PROXY is not read", env: map[string]string{"ALL_PROXY": "nonsense:"}, url: "https://a.example"},
		{name: "ALL_PROXY", env: map[string]string{"ALL_PROXY": "http://p:1"}, proxies: []string{"HTTPS_PROXY", "ALL_PROXY"}, url: "https://a.example", want: "http://p:1"},
		{name: "a program without proxies", env: map[string]string{"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1"}, proxies: []string{}, url: "https://a.example"},
		{name: "NO_PROXY", env: map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example,.a.example"}, url: "https://x.a.example"},
		{name: "NO_PROXY with spaces", env: map[string]string{"HTTPS_PROXY": "http://p:1", "no_proxy": "b.example *.a.example"}, url: "https://x.a.example"},
		{name: "everything", env: map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, url: "https://x.a.example"},
		{name: "another host", env: map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example"}, url: "https://a.example", want: "http://p:1"},
		{name: "this machine", env: map[string]string{"HTTPS_PROXY": "http://p:1"}, url: "https://127.0.0.1:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport, err := upstream.Transport(upstream.Options{Getenv: from(tt.env), Proxies: tt.proxies})
			require.NoError(t, err)
			req := httptest.NewRequest(http.MethodGet, tt.url, nil)
			u, err := transport.Proxy(req)
			require.NoError(t, err)
			if tt.want == "" {
				assert.Nil(t, u)
				return
			}
			require.NotNil(t, u)
			assert.Equal(t, tt.want, u.String())
		})
	}
}
