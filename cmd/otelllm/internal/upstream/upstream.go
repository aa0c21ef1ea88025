// Package upstream connects to model providers as the agents would: with the certificate
// authorities and the HTTP proxies that their environment names.
package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// bundles are the variables that name a file, or a folder, with certificate authorities. Some
// programs trust these alone, and others besides their own; to connect, what any of them
// trusts is trusted.
var bundles = []string{
	"NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE",
}

// system are the files of a Unix with its authorities. Where SSL_CERT_FILE is set, Go reads none
// of them, and most agents still trust those.
var system = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Options are how a program uses the variables of its environment.
type Options struct {
	// Getenv returns a variable of the program's environment; "": it is not set.
	Getenv func(string) string
	// Proxies are the variables that it takes its HTTP proxy for HTTPS from, the first that is set.
	Proxies []string
	// Certificate are the variables that name the files of its client certificate and of the key.
	Certificate struct{ File, Key string }
}

// Of every program that uses an HTTP proxy at all.
var usual = []string{"HTTPS_PROXY"}

// Transport returns a transport for upstreams. It fails if a variable names a file or URL that cannot be used,
// and says which one and what to do, without credentials.
func Transport(o Options) (*http.Transport, error) {
	roots, err := authorities(o.Getenv)
	if err != nil {
		return nil, err
	}
	proxy, err := o.proxy()
	if err != nil {
		return nil, err
	}
	own, err := o.certificate()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nothing replaces it
	t.Proxy = proxy
	if roots != nil || own != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots, Certificates: own, MinVersion: tls.VersionTLS12}
	}
	return t, nil
}

// certificate returns the certificate that the program has as a client, or nil. Only servers that ask for one get it.
func (o *Options) certificate() ([]tls.Certificate, error) {
	names := o.Certificate
	if names.File == "" || o.Getenv(names.File) == "" || o.Getenv(names.Key) == "" {
		return nil, nil
	}
	own, err := tls.LoadX509KeyPair(o.Getenv(names.File), o.Getenv(names.Key))
	if err != nil { // which may quote a path alone; the files may be credentials
		return nil, fmt.Errorf("%s and %s do not name a certificate and its key that can be used: name files in PEM, the key without a passphrase, or unset both", names.File, names.Key)
	}
	return []tls.Certificate{own}, nil
}

// authorities returns the authorities of the system and of the bundles; nil: there are none of
// the latter.
func authorities(getenv func(string) string) (*x509.CertPool, error) {
	var pool *x509.CertPool
	for _, name := range bundles {
		path := getenv(name)
		if path == "" {
			continue
		}
		if pool == nil {
			pool = systemPool(getenv)
		}
		if err := add(pool, path); err != nil {
			return nil, fmt.Errorf("%s names %s, which %w: name a file with certificates in PEM, or unset it", name, path, err)
		}
	}
	return pool, nil
}

// systemPool returns the system's authorities, also where SSL_CERT_FILE or SSL_CERT_DIR
// replaces them.
func systemPool(getenv func(string) string) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if getenv("SSL_CERT_FILE") != "" || getenv("SSL_CERT_DIR") != "" {
		for _, path := range system {
			if add(pool, path) == nil {
				break
			}
		}
	}
	return pool
}

// add adds the certificates of a file, or of the files of a folder. Its error continues a
// sentence.
func add(pool *x509.CertPool, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return cannotRead(err)
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return cannotRead(err)
		}
	}
	found := false
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil && !info.IsDir() {
			return cannotRead(err)
		}
		found = pool.AppendCertsFromPEM(raw) || found
	}
	if !found {
		return errors.New("has no certificate")
	}
	return nil
}

func cannotRead(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("may not be read")
	default:
		return errors.New("cannot be read")
	}
}

// proxy returns the HTTP proxy of a request, as net/http's transport takes it.
func (o *Options) proxy() (func(*http.Request) (*url.URL, error), error) {
	proxies := o.Proxies
	if proxies == nil {
		proxies = usual
	}
	var config httpproxy.Config
	var err error
	if config.HTTPSProxy, err = o.first(proxies); err != nil {
		return nil, err
	}
	if len(proxies) > 0 {
		if config.HTTPProxy, err = o.first([]string{"HTTP_PROXY"}); err != nil {
			return nil, err
		}
	}
	_, except := o.either("NO_PROXY")
	config.NoProxy = strings.Join(strings.FieldsFunc(except, func(r rune) bool { return r == ',' || r == ' ' }), ",")
	choose := config.ProxyFunc()
	return func(req *http.Request) (*url.URL, error) { return choose(req.URL) }, nil
}

// first returns the first proxy that the variables name, or "".
func (o *Options) first(names []string) (string, error) {
	for _, name := range names {
		name, value := o.either(name)
		switch {
		case value == "":
		case !isProxy(value):
			return "", fmt.Errorf("%s is not the URL of an HTTP or SOCKS proxy: set it to http://HOST:PORT, or unset it", name) // it may hold a credential
		default:
			return value, nil
		}
	}
	return "", nil
}

// either returns a variable, or that of the same name in small letters.
func (o *Options) either(name string) (which, value string) {
	for _, name := range []string{name, strings.ToLower(name)} {
		if value := strings.TrimSpace(o.Getenv(name)); value != "" {
			return name, value
		}
	}
	return name, ""
}

// isProxy reports whether a value names a proxy that a transport can use. HOST:PORT is one.
func isProxy(value string) bool {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return false
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return true
	default:
		return false
	}
}
