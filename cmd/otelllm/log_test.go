package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unsolicited is a provider that answers a request, and then sends an answer without a request for it. It closes
// told when the other side has closed the connection.
func unsolicited(t *testing.T) (url string, told <-chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		r := bufio.NewReader(conn)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s"
		_, _ = fmt.Fprintf(conn, answer, len(sseWhole), sseWhole)
		_, _ = fmt.Fprintf(conn, answer, len(sseWhole), sseWhole)
		_, _ = r.ReadByte()
	}()
	return "http://" + ln.Addr().String(), over
}

// What net/http says about its peers quotes them. None of it is printed, at any log level.
func TestNetHTTPPrintsNothing(t *testing.T) {
	t.Parallel()
	up, told := unsolicited(t)
	p := otelllm(t, nil, "proxy", "--listen", "127.0.0.1:0", "--upstream", up, "--log-level", "debug")
	require.NoError(t, p.Start())
	await(t, &p.stderr, "listening on http://")
	_, rest, _ := strings.Cut(p.stderr.String(), "listening on ")
	base, _, _ := strings.Cut(rest, "\n")

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections() // until then the connection upstream stays open
	resp, err := client.Post(base+"/v1/chat/completions?k="+canaryKey, "application/json", strings.NewReader(`{"model":"gpt-5","messages":[{"role":"user","content":"`+canaryPrompt+`"}]}`))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, sseWhole, string(got))
	<-told

	// A client that does not speak HTTP.
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, canaryPrompt+" "+canaryKey+"\r\n\r\n")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, conn)
	require.NoError(t, conn.Close())

	require.NoError(t, p.Process.Signal(os.Interrupt))
	assert.Zero(t, p.exit(t))
	for _, canary := range []string{canaryPrompt, canaryAnswer, canaryKey, "Unsolicited"} {
		assert.NotContains(t, p.stderr.String()+p.stdout.String(), canary)
	}
}
