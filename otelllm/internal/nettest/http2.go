package nettest

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"testing"
)

// H2Conn is the server side of an HTTP/2 connection that a test writes frame by frame. It
// can send what no HTTP/2 library would.
type H2Conn struct {
	Conn *tls.Conn
	// Mute stops the answers to pings and settings.
	Mute bool
}

// HTTP/2 frame types and flags (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameRST, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4
)

// ListenH2 serves every HTTP/2 request to a new listener with serve. It calls serve after
// the complete request has arrived and the client has nothing left to write: a client that
// is still writing when the connection is reset would get the error from the write, not
// from the read. ListenH2 returns the base URL and a client configuration that trusts the
// server.
func ListenH2(tb testing.TB, serve func(c *H2Conn, stream uint32)) (url string, client *tls.Config) {
	tb.Helper()
	addr, client := ListenTLS(tb, func(conn *tls.Conn) {
		c := &H2Conn{Conn: conn}
		if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		c.frame(frameSettings, 0, 0, nil)
		var waiting []uint32
		settled := false
		for {
			var head [9]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			if _, err := io.ReadFull(conn, payload); err != nil {
				return
			}
			switch kind, flags := head[3], head[4]; {
			case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
				waiting = append(waiting, binary.BigEndian.Uint32(head[5:]))
			case kind == frameSettings && flags&flagAck != 0:
				settled = true
			case c.Mute || flags&flagAck != 0:
			case kind == frameSettings:
				c.frame(frameSettings, flagAck, 0, nil)
			case kind == framePing:
				c.frame(framePing, flagAck, 0, payload)
			}
			for settled && len(waiting) > 0 {
				serve(c, waiting[0])
				waiting = waiting[1:]
			}
		}
	}, "h2")
	return "https://" + addr, client
}

func (c *H2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = c.Conn.Write(append(head, payload...))
}

// Headers responds with status 200 and this content type.
func (c *H2Conn) Headers(stream uint32, contentType string) {
	block := append([]byte{0x88, 0x00, 12}, "content-type"...) // :status 200; a literal without indexing
	block = append(append(block, byte(len(contentType))), contentType...)
	c.frame(frameHeaders, flagEndHeaders, stream, block)
}

// Data sends a part of the body.
func (c *H2Conn) Data(stream uint32, body string) { c.frame(frameData, 0, stream, []byte(body)) }

// RST resets the stream with an error code.
func (c *H2Conn) RST(stream, code uint32) {
	c.frame(frameRST, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// GoAway announces that streams up to last were or will be served, and no others.
func (c *H2Conn) GoAway(last, code uint32, debug string) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, code)
	c.frame(frameGoAway, 0, 0, append(payload, debug...))
}

// End ends the stream regularly.
func (c *H2Conn) End(stream uint32) { c.frame(frameData, flagEndStream, stream, nil) }
