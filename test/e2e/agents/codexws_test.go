//go:build unix

package agents

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// codexWS is Codex as it is by default: Responses over a WebSocket.
var codexWS = agent{
	name: "codex", wire: faultyllm.Responses, program: agents[0].program,
	args:  []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5", "PROMPT"},
	env:   []string{"OPENAI_API_KEY=sk-canary-4be1", "CODEX_API_KEY=sk-canary-4be1"},
	files: map[string]string{".codex/config.toml": "openai_base_url = \"{BASE}\"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n"},
	otlp:  agents[0].otlp,
	tool:  "exec_command", input: `{"cmd":"COMMAND"}`,
	// A server that refuses all is asked 30 times, over both protocols.
	endless: 40,
}

// wsFault is what the server does to Codex, which speaks HTTP once it has given WebSockets up.
type wsFault struct {
	fault
	// refuse returns the status with which try n of a handshake is refused; 0: none.
	refuse func(n int) int
	// reply returns what is sent for request n, over either protocol.
	reply func(o *overWebSocket, n int, outputs bool) wsReply
}

// wsReply is what is sent for a request. Then the connection stays, or ends as end says.
type wsReply struct {
	steps []faultyllm.Step
	event string // sent after the steps
	end   wsEnd
}

type wsEnd uint8

const (
	wsStays wsEnd = iota
	wsReset
	wsFIN   // the connection is closed without a close frame
	wsClose // a close frame: 1000, as if all were well
	wsStall
)

func wsDone(*overWebSocket, int, bool) wsReply {
	return wsReply{steps: []faultyllm.Step{faultyllm.Text("canary-answer-22d0 ", "All ", "done."), faultyllm.Finish(faultyllm.Stop)}}
}

func wsCall(o *overWebSocket) wsReply {
	input := strings.ReplaceAll(o.agent.input, "COMMAND", o.toolCommand())
	return wsReply{steps: []faultyllm.Step{faultyllm.ToolCall("call_e2e_5Yq8", o.agent.tool, input), faultyllm.Finish(faultyllm.ToolCalls)}}
}

// wsCut returns replies that break in their text.
func wsCut(end wsEnd, event string) func(*overWebSocket, int, bool) wsReply {
	return func(*overWebSocket, int, bool) wsReply {
		return wsReply{steps: []faultyllm.Step{faultyllm.Text("canary-answer-22d0 ", "I will ")}, event: event, end: end}
	}
}

// wsFirst gives one reply to the first request, and answers the others.
func wsFirst(reply wsReply) func(*overWebSocket, int, bool) wsReply {
	return func(o *overWebSocket, n int, outputs bool) wsReply {
		if n == 0 {
			return reply
		}
		return wsDone(o, n, outputs)
	}
}

// refused are handshakes that all have this status.
func refused(status int) func(int) int { return func(int) int { return status } }

func wsError(status int, code string) string {
	return fmt.Sprintf(`{"type":"error","status":%d,"error":{"type":"invalid_request_error","code":%q,"message":"canary-answer-22d0"}}`, status, code)
}

const wsFailed = `{"type":"response.failed","response":{"id":"resp_0","object":"response","status":"failed",` +
	`"error":{"code":"server_error","message":"canary-answer-22d0"},"output":[]}}`

var wsFaults = []wsFault{
	{fault: fault{name: "ok_text", heals: true}, reply: wsDone},
	{fault: fault{name: "ok_tool", heals: true}, reply: func(o *overWebSocket, n int, outputs bool) wsReply {
		if outputs {
			return wsDone(o, n, outputs)
		}
		return wsCall(o)
	}},
	{fault: fault{name: "reset_before", classes: interrupted, causes: wasReset}, reply: func(*overWebSocket, int, bool) wsReply { return wsReply{end: wsReset} }},
	{fault: fault{name: "reset_text", classes: interrupted, causes: wasReset, shows: true}, reply: wsCut(wsReset, "")},
	{fault: fault{name: "reset_text_once", heals: true, once: true, classes: interrupted, causes: wasReset}, reply: wsFirst(wsCut(wsReset, "")(nil, 0, false))},
	{fault: fault{name: "reset_tool_input", classes: interrupted, causes: wasReset}, reply: func(o *overWebSocket, _ int, _ bool) wsReply {
		return wsReply{steps: []faultyllm.Step{faultyllm.ToolInput("call_e2e_5Yq8", o.agent.tool, `{"comm`)}, end: wsReset}
	}},
	{fault: fault{name: "tool_reset", classes: interrupted, causes: wasReset, shows: true}, reply: func(o *overWebSocket, _ int, outputs bool) wsReply {
		if outputs {
			return wsCut(wsReset, "")(o, 0, outputs)
		}
		return wsCall(o)
	}},
	{fault: fault{name: "fin_text", classes: wsCutShort, causes: justEnded, shows: true}, reply: wsCut(wsFIN, "")},
	{fault: fault{name: "close_text", classes: wsCutShort, causes: justEnded, shows: true}, reply: wsCut(wsClose, "")},
	{fault: fault{name: "inband", classes: provider, causes: broken, shows: true}, reply: wsCut(wsStays, wsFailed)},
	{fault: fault{name: "connection_limit", heals: true, once: true, classes: provider, causes: []semconv.Cause{semconv.CauseInvalidRequest}}, reply: wsFirst(wsReply{event: wsError(http.StatusBadRequest, "websocket_connection_limit_reached"), end: wsClose})},
	{fault: fault{name: "stall", shows: true, classes: []semconv.Class{semconv.ClassLocalAbort, semconv.ClassWatchdogTimeout}, causes: stopped}, reply: wsCut(wsStall, "")},
	{fault: fault{name: "unauthorized", classes: provider, causes: []semconv.Cause{semconv.CauseAuthentication}}, refuse: refused(http.StatusUnauthorized), reply: wsDone},
	{fault: fault{name: "r500", classes: provider, causes: broken}, refuse: refused(http.StatusInternalServerError), reply: wsDone},
	// A handshake that is refused is no request that main counts.
	{fault: fault{name: "r429_ok", heals: true, classes: provider, causes: []semconv.Cause{semconv.CauseRateLimited}}, refuse: func(n int) int {
		if n == 0 {
			return http.StatusTooManyRequests
		}
		return 0
	}, reply: wsDone},
	{fault: fault{name: "upgrade_required", heals: true}, refuse: refused(http.StatusUpgradeRequired), reply: wsDone},
}

// wsCutShort is what a stream is that ends in its text without a reset.
var wsCutShort = []semconv.Class{semconv.ClassStreamInterrupted, semconv.ClassProtocolViolation}

func TestCodexOverWebSocket(t *testing.T) {
	t.Parallel() // what waits in one, such as an agent that backs off, takes no time of the others
	bin := built.Otelllm(t)
	overWebSockets(t, func(t *testing.T, f *fault, argv []string, serve serving) {
		t.Helper()
		compare(t, &codexWS, f, argv, bin, serve)
	})
}

// TestCodexTelemetryOverWebSocket judges it by nothing but what it exports itself.
func TestCodexTelemetryOverWebSocket(t *testing.T) {
	overWebSockets(t, func(t *testing.T, f *fault, argv []string, serve serving) {
		t.Helper()
		export(t, &codexWS, f, argv, serve)
	})
}

func overWebSockets(t *testing.T, play func(*testing.T, *fault, []string, serving)) {
	t.Helper()
	argv := codexWS.command(t)
	for i := range wsFaults {
		f := &wsFaults[i]
		if testing.Short() && !slices.Contains([]string{"ok_tool", "reset_text_once", "tool_reset", "upgrade_required"}, f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			play(t, &f.fault, argv, func(_ string, s *script) string {
				srv := httptest.NewServer(&overWebSocket{script: s, of: f})
				t.Cleanup(srv.Close)
				return srv.URL + "/v1"
			})
		})
	}
}

// overWebSocket plays a fault over WebSockets, and over HTTP where the client falls back to it.
type overWebSocket struct {
	*script

	of         *wsFault
	handshakes atomic.Int64
	responses  atomic.Int64 // each has an id of its own
}

var responseID = regexp.MustCompile(`resp_\w+`)

// ServeHTTP implements http.Handler.
func (o *overWebSocket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasSuffix(r.URL.Path, "/responses"):
		http.NotFound(w, r)
	case r.Header.Get("Upgrade") == "":
		o.overHTTP(w, r)
	case o.refused(w, int(o.handshakes.Add(1))-1):
	default:
		o.serve(w, r)
	}
}

// refused answers try n with an error, if it is to be refused.
func (o *overWebSocket) refused(w http.ResponseWriter, n int) bool {
	if o.of.refuse == nil || o.of.refuse(n) == 0 {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.of.refuse(n))
	_, _ = io.WriteString(w, `{"error":{"type":"server_error","code":null,"message":"canary-answer-22d0"}}`)
	return true
}

func (o *overWebSocket) serve(w http.ResponseWriter, r *http.Request) {
	under := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(under, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(32 << 20)
	for {
		_, message, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		reply := wsReply{steps: []faultyllm.Step{faultyllm.End()}}
		if !bytes.Contains(message, []byte(`"generate":false`)) {
			reply = o.next(message)
		}
		for _, event := range o.events(reply) {
			if conn.Write(r.Context(), websocket.MessageText, event) != nil {
				return
			}
		}
		switch reply.end {
		case wsReset:
			under.reset()
		case wsClose:
			_ = conn.Close(websocket.StatusNormalClosure, "")
		case wsStall:
			o.stallBegins()
			continue
		case wsStays:
			continue
		case wsFIN:
		}
		return
	}
}

// events are the events of a reply. The terminal one is there if the steps end the response.
func (o *overWebSocket) events(reply wsReply) (events [][]byte) {
	id := fmt.Appendf(nil, "resp_%024x", o.responses.Add(1))
	stream := fmt.Sprintf("%s\ndata: %s\n", faultyllm.Stream(faultyllm.Responses, "gpt-5.5", reply.steps...), cmp.Or(reply.event, "[DONE]"))
	for line := range strings.SplitSeq(stream, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
			events = append(events, responseID.ReplaceAll([]byte(data), id))
		}
	}
	return events
}

// next returns what is sent for a request.
func (o *overWebSocket) next(message []byte) wsReply {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.main
	o.counted()
	return o.of.reply(o, n, bytes.Contains(message, []byte(`"type":"function_call_output"`)))
}

// overHTTP does over HTTP what was done over WebSockets. A server that has no WebSockets answers then.
func (o *overWebSocket) overHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	reply := o.next(body)
	if o.of.refuse != nil && o.of.refuse(0) != http.StatusUpgradeRequired && o.refused(w, 0) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range o.events(reply) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
	}
	_ = http.NewResponseController(w).Flush()
	switch reply.end {
	case wsReset:
		under := &hijacked{ResponseWriter: w}
		if _, _, err := under.Hijack(); err == nil {
			under.reset()
		}
	case wsStall:
		o.stallBegins()
		<-r.Context().Done()
	case wsFIN:
		panic(http.ErrAbortHandler)
	case wsStays, wsClose:
	}
}

// hijacked keeps the connection below a WebSocket, to break it.
type hijacked struct {
	http.ResponseWriter

	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}

func (h *hijacked) reset() {
	if tcp, ok := h.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}
