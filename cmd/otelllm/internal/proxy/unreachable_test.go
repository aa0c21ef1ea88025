package proxy

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// reported are the failures that a proxy reports.
type reported struct {
	mu   sync.Mutex
	list []Failure // guarded by mu
}

func (l *reported) add(f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, f)
}

// What a client sees of an upstream that cannot be connected to is what is asked for. It is recorded as what it was,
// and reported.
func TestUnreachable(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = ServerLog(slog.New(slog.DiscardHandler))
	server.StartTLS()
	t.Cleanup(server.Close)
	untrusted, err := url.Parse(server.URL)
	require.NoError(t, err)
	for _, upstream := range []struct {
		name, problem string
		url           *url.URL
		status        int
	}{
		{"refused", "connection refused", refusing(t), http.StatusBadGateway},
		{"unknown host", "host not found", &url.URL{Scheme: "http", Host: "no-such-host.invalid"}, http.StatusBadGateway},
		{"not trusted", notTrusted, untrusted, http.StatusMisdirectedRequest},
		{"timeout", timedOut, &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, http.StatusGatewayTimeout},
	} {
		for _, form := range []Unreachable{"", UnreachableReset, UnreachableClose, UnreachableStatus} {
			t.Run(upstream.name+"/"+string(form), func(t *testing.T) {
				t.Parallel()
				var failures reported
				proxy := start(t, upstream.url, func(c *Config) {
					c.Unreachable, c.Failed = form, failures.add
					if upstream.problem == timedOut {
						c.Transport = &http.Transport{DialContext: (&net.Dialer{Timeout: 1}).DialContext} // a nanosecond
					}
				})
				conn := dial(t, proxy.addr)
				_, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"+
					`{"model":"m","stream":true}`)
				require.NoError(t, err)
				got, err := io.ReadAll(conn)
				switch form {
				case UnreachableStatus:
					require.NoError(t, err)
					head, body, _ := strings.Cut(string(got), "\r\n\r\n")
					assert.True(t, strings.HasPrefix(head, "HTTP/1.1 "+strconv.Itoa(upstream.status)), head)
					var answer struct {
						Error struct{ Type, Message string }
					}
					require.NoError(t, json.Unmarshal([]byte(body), &answer))
					assert.Equal(t, "otelllm_unreachable", answer.Error.Type)
					assert.Equal(t, "otelllm cannot reach "+upstream.url.Host+": "+upstream.problem, answer.Error.Message)
				case UnreachableClose:
					assert.Empty(t, string(got))
					require.NoError(t, err)
				default:
					assert.Empty(t, string(got))
					assert.Equal(t, rst, endOf(err))
				}
				asked := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
				assert.NotEmpty(t, asked["llm.transport.cause"])
				require.NoError(t, proxy.end())
				assert.Equal(t, []Failure{{Host: upstream.url.Host, Problem: upstream.problem, Unreachable: true}}, failures.list)
			})
		}
	}
}
