package proxy

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The upstream gets as many requests, over as many connections, as without the proxy, and
// the client ends up with the same, also where the client repeats a request by itself
// because a connection that it used before was dead.
func TestAttempts(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	servers := map[string]func(u *upstream, p *peer){
		"answers": func(u *upstream, p *peer) {
			for p.request() != "" {
				u.requests.Add(1)
				p.send(ok)
			}
		},
		"closes at once": func(u *upstream, p *peer) {
			p.request()
			u.requests.Add(1)
		},
		"resets at once": func(u *upstream, p *peer) {
			p.request()
			u.requests.Add(1)
			p.reset()
		},
		"closes the second of a connection": func(u *upstream, p *peer) {
			p.request()
			u.requests.Add(1)
			p.send(ok)
			if p.request() != "" {
				u.requests.Add(1)
			}
		},
		"resets the second of a connection": func(u *upstream, p *peer) {
			p.request()
			u.requests.Add(1)
			p.send(ok)
			if p.request() != "" {
				u.requests.Add(1)
			}
			p.reset()
		},
		"closes after each answer": func(u *upstream, p *peer) {
			p.request()
			u.requests.Add(1)
			p.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		},
		"says it is overloaded": func(u *upstream, p *peer) {
			for p.request() != "" {
				u.requests.Add(1)
				p.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			}
		},
	}
	clients := map[string]func(t *testing.T, base string) string{
		"Go GET":             goClient(http.MethodGet, nil),
		"Go POST":            goClient(http.MethodPost, nil),
		"Go idempotent POST": goClient(http.MethodPost, http.Header{"Idempotency-Key": {"1"}}),
		"curl GET":           curl(),
		"curl POST":          curl("-H", "Content-Type: application/json", "-d", chatBody),
		"raw": func(t *testing.T, base string) string {
			addr := strings.TrimPrefix(base, "http://")
			var all strings.Builder
			for range 2 {
				conn := dial(t, addr)
				_, err := io.WriteString(conn, post(addr, "/v1/chat/completions"))
				require.NoError(t, err)
				r := bufio.NewReader(conn)
				if _, err := r.Peek(1); err != nil {
					all.WriteString(endOf(err) + "; ")
					continue
				}
				resp, err := http.ReadResponse(r, nil)
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				all.WriteString(resp.Status + " " + string(got) + "; ")
				require.NoError(t, conn.Close())
			}
			return all.String()
		},
	}
	for serverName, serve := range servers {
		for clientName, ask := range clients {
			t.Run(clientName+", a server that "+serverName, func(t *testing.T) {
				t.Parallel()
				up := serveRaw(t, serve)
				direct := ask(t, up.url().String())
				requests, connections := up.requests.Swap(0), up.accepted.Swap(0)
				proxy := start(t, up.url())
				assert.Equal(t, direct, ask(t, proxy.url().String()))
				assert.Equal(t, requests, up.requests.Load(), "requests")
				assert.Equal(t, connections, up.accepted.Load(), "connections")
			})
		}
	}
}

// goClient sends two requests, one after the other.
func goClient(method string, header http.Header) func(t *testing.T, base string) string {
	return func(t *testing.T, base string) string {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		var all strings.Builder
		for range 2 {
			var content io.Reader
			if method == http.MethodPost {
				content = strings.NewReader(chatBody)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, base+"/v1/chat/completions", content)
			require.NoError(t, err)
			maps.Copy(req.Header, header)
			resp, err := client.Do(req)
			if err != nil {
				all.WriteString(endOf(err) + "; ")
				continue
			}
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			all.WriteString(resp.Status + " " + string(got) + "; ")
		}
		return all.String()
	}
}

// curl sends two requests with one command, over one connection if it can.
func curl(args ...string) func(t *testing.T, base string) string {
	return func(t *testing.T, base string) string {
		path, err := exec.LookPath("curl")
		if err != nil {
			t.Skip("curl is not installed")
		}
		u := base + "/v1/chat/completions"
		all := append([]string{"-q", "-s", "-w", "%{http_code} %{errormsg}; "}, args...)
		got, _ := exec.CommandContext(t.Context(), path, append(all, u, u)...).Output() // the output has the errors
		return strings.ReplaceAll(string(got), strings.TrimPrefix(base, "http://"), "host")
	}
}
