package faultyllm

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Names that [DNS] does not resolve.
const (
	UnknownHost  = "api.unknown-model.test"  // no such name
	TroubledHost = "api.troubled-model.test" // SERVFAIL: try again
	SilentHost   = "api.silent-model.test"   // no reply
)

// DNS is a name server on loopback that resolves no name: it replies to [TroubledHost]
// with SERVFAIL, to [SilentHost] not at all, and to every other name with NXDOMAIN.
type DNS struct {
	conn net.PacketConn
	done sync.WaitGroup
}

// StartDNS starts the name server on a free port.
func StartDNS() (*DNS, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultyllm: listen on loopback: %w", err)
	}
	d := &DNS{conn: conn}
	d.done.Go(d.serve)
	return d, nil
}

// Resolver returns a resolver that asks only this name server.
func (d *DNS) Resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "udp", d.conn.LocalAddr().String())
		},
	}
}

// Close stops the name server.
func (d *DNS) Close() error {
	err := d.conn.Close()
	d.done.Wait()
	return err
}

func (d *DNS) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply, err := answerDNS(buf[:n]); err == nil && reply != nil {
			_, _ = d.conn.WriteTo(reply, from) // the resolver may have given up
		}
	}
}

// answerDNS returns the reply to a query, or nil for no reply.
func answerDNS(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := p.Question()
	if err != nil {
		return nil, err
	}
	code := dnsmessage.RCodeNameError
	switch name := question.Name.String(); { // the resolver may append its search list
	case strings.HasPrefix(name, TroubledHost+"."):
		code = dnsmessage.RCodeServerFailure
	case strings.HasPrefix(name, SilentHost+"."):
		return nil, nil
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: header.ID, Response: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true, RCode: code,
	})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(question); err != nil {
		return nil, err
	}
	return b.Finish()
}
