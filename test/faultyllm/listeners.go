package faultyllm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// Port is a loopback port on which no usable connection can be made.
type Port struct {
	addr  string
	close func() error
	once  sync.Once
	err   error
}

// Addr returns the host:port.
func (p *Port) Addr() string { return p.addr }

// BaseURL returns a base URL at this port, as the wire protocol's SDK expects it.
func (p *Port) BaseURL(scheme string, w Wire) string { return BaseURL(scheme, p.addr, w) }

// Close releases the port.
func (p *Port) Close() error {
	p.once.Do(func() { p.err = p.close() })
	return p.err
}

// RefusingPort returns a port that refuses every connection. It is the local end of a
// connection that the package holds open, so that no other process can listen on it.
func RefusingPort() (*Port, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultyllm: listen on loopback: %w", err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("faultyllm: hold a port: %w", err)
	}
	peer, err := ln.Accept()
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("faultyllm: hold a port: %w", err)
	}
	return &Port{addr: conn.LocalAddr().String(), close: func() error {
		_ = conn.Close() // first, so that TIME_WAIT is on its side
		return peer.Close()
	}}, nil
}

// UntrustedTLS returns a port that serves TLS with a self-signed certificate.
func UntrustedTLS() (*Port, error) {
	cert, err := selfSigned()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultyllm: listen on loopback: %w", err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // every handshake fails, as it should
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "faultyllm: the client accepted a certificate that it should not trust", http.StatusTeapot)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	}()
	return &Port{addr: ln.Addr().String(), close: func() error {
		err := srv.Close()
		<-done
		return err
	}}, nil
}

// GarbageTLS returns a port that reads a TLS client's hello and responds with something
// that is not TLS.
func GarbageTLS() (*Port, error) { return accepting(answerGarbage) }

// SilentPort returns a port that accepts connections and never sends anything on them: a
// TLS handshake with it never ends.
func SilentPort() (*Port, error) { return accepting(keepSilent) }

// accepting returns a port that passes each connection to handle in a goroutine of its
// own.
func accepting(handle func(conn net.Conn, closing <-chan struct{})) (*Port, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultyllm: listen on loopback: %w", err)
	}
	var conns sync.WaitGroup
	closing := make(chan struct{})
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { handle(conn, closing) })
		}
	})
	return &Port{addr: ln.Addr().String(), close: func() error {
		err := ln.Close()
		close(closing)
		conns.Wait()
		return err
	}}, nil
}

// keepSilent reads and discards until the client disconnects or the port is closed.
func keepSilent(conn net.Conn, closing <-chan struct{}) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	select {
	case <-gone:
	case <-closing:
	}
	_ = conn.Close()
	<-gone
}

func answerGarbage(conn net.Conn, _ <-chan struct{}) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if err := readRecord(conn); err != nil {
		return
	}
	_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\nnot what you came for\r\n"))
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = conn.Read(make([]byte, 512)) // the client's alert, or its close
}

// readRecord reads one TLS record, the client hello.
func readRecord(conn net.Conn) error {
	var header [5]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(header[3])<<8|int64(header[4]))
	return err
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("faultyllm: make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "faultyllm"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("faultyllm: make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
