//go:build unix

package agents

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is an HTTP proxy that is the whole internet of an agent. It ends the TLS of every host with
// certificates of an authority of its own, notes what is asked of whom and with which credential, and answers
// that the request is not valid, which no agent repeats.
type recorder struct {
	*httptest.Server

	ca        string // the file with the certificate of the authority
	workspace string // what ChatGPT says of the user's
	issuer    *x509.Certificate
	key       *ecdsa.PrivateKey

	mu sync.Mutex
	// Everything below is guarded by mu.
	asked map[call]bool
	hosts map[string]bool
}

// call is a request of a model.
type call struct{ host, path, credential string }

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	r := &recorder{key: key, asked: map[call]bool{}, hosts: map[string]bool{}}
	r.workspace = `{"accounts":[{"id":"acct","workspace_backend_origin":"NO_CONSTRAINT","account_routing_override":"NO_CONSTRAINT"}]}`
	r.issuer = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a company's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, r.issuer, r.issuer, key.Public(), key)
	require.NoError(t, err)
	r.ca = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(r.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// environment sends a program's requests here, by the variables for a proxy that have these names, or by all.
func (r *recorder) environment(names ...string) []string {
	if len(names) == 0 {
		names = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"}
	}
	env := []string{"NODE_EXTRA_CA_CERTS=" + r.ca, "CODEX_CA_CERTIFICATE=" + r.ca, "SSL_CERT_FILE=" + r.ca}
	for _, name := range names {
		env = append(env, name+"="+r.URL)
	}
	return env
}

// certificate returns a certificate for a host.
func (r *recorder) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, r.issuer, r.key.Public(), r.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: r.key}, err
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodConnect {
		r.answer(w, req)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	r.secured(conn)
}

// secured serves a connection over which TLS is spoken.
func (r *recorder) secured(conn net.Conn) {
	defer conn.Close()
	secured := tls.Server(conn, &tls.Config{GetCertificate: r.certificate, NextProtos: []string{"http/1.1"}})
	defer secured.Close()
	from := bufio.NewReader(secured)
	for {
		inner, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		answer := httptest.NewRecorder()
		r.answer(answer, inner)
		_, _ = io.Copy(io.Discard, inner.Body)
		resp := answer.Result()
		resp.ContentLength = int64(answer.Body.Len())
		if resp.Write(secured) != nil {
			return
		}
	}
}

// resolver returns the environment of a program in Node that uses no HTTP proxy. Every host is the recorder for it.
func (r *recorder) resolver(t *testing.T) []string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go r.secured(conn)
		}
	}()
	hook, err := filepath.Abs(filepath.Join("testdata", "resolver.cjs"))
	require.NoError(t, err)
	return []string{"NODE_OPTIONS=--require=" + hook, "E2E_RESOLVED=" + strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)}
}

// secret is the part of a credential that says which one it is.
var secret = regexp.MustCompile(`canary[-a-z0-9]*`)

// answer notes a request, and refuses it.
func (r *recorder) answer(w http.ResponseWriter, req *http.Request) {
	var credential string
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if found := secret.FindString(strings.Join(req.Header[name], " ")); found != "" {
			credential = strings.ToLower(name) + ": " + found
		}
	}
	if found := secret.FindString(req.URL.RawQuery); credential == "" && found != "" {
		credential = "query: " + found
	}
	host := req.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	r.mu.Lock()
	r.hosts[host] = true
	if modelCall.MatchString(req.URL.Path) {
		r.asked[call{host, req.URL.Path, credential}] = true
	}
	r.mu.Unlock()
	status, text := http.StatusNotFound, `{"error":{"message":"there is nothing here"}}`
	switch {
	case modelCall.MatchString(req.URL.Path):
		status, text = http.StatusBadRequest, `{"error":{"type":"invalid_request_error","message":"no such model","code":400,"status":"INVALID_ARGUMENT"}}`
	case host == "oauth2.googleapis.com": // without it Gemini CLI makes no call
		status, text = http.StatusOK, `{"access_token":"canary-access","expires_in":3600,"scope":"","email":"a@b.example"}`
	case strings.Contains(req.URL.Path, "/config"): // of the policies of a workspace, as Codex asks for them
		status, text = http.StatusOK, `{}`
	case strings.HasSuffix(req.URL.Path, "/wham/accounts/check"): // without it Codex makes no call
		status, text = http.StatusOK, r.workspace
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// modelCall are the paths of requests to models.
var modelCall = regexp.MustCompile(`/(responses|messages|chat/completions)$|:(stream)?[gG]enerateContent$|/v1internal:|:(streamR|r)awPredict$|/model/.*/(invoke|converse)`)

// calls returns the calls so far.
func (r *recorder) calls() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.asked), func(a, b call) int {
		return strings.Compare(a.host+a.path+a.credential, b.host+b.path+b.credential)
	})
}

// all returns the hosts so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.hosts))
}
