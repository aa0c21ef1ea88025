package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is a model server. It asks for one payment after the other, and says so once it has the
// outputs of all. Most of its answers break, over real connections and at any byte, as the seed
// of a schedule says.
type model struct {
	*httptest.Server

	closed string // an address that refuses connections
	mu     sync.Mutex
	plays  map[string]*play // by path
}

// play is one schedule: what goes wrong, and what happened.
type play struct {
	r         *rand.Rand
	anthropic bool
	texts     bool // some calls come with text
	ids       int  // how calls are named: see callID
	quick     bool // waits are milliseconds, for an SDK that waits by itself
	faults    int  // that are left
	payments  int
	calls     int // made

	now       time.Time // by a clock that only waiting moves
	notBefore time.Time // the provider asked to wait until then
	early     int       // requests that came before that
	sent      int       // requests, refused connections included
	log       []string
}

func startModel(t *testing.T) *model {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &model{closed: l.Addr().String(), plays: map[string]*play{}}
	_ = l.Close()
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// add adds a schedule, and returns its base URL.
func (m *model) add(name string, p *play) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plays[name] = p
	return m.URL + "/" + name
}

// logOf returns the log of a schedule whose agent may still have an open request.
func (m *model) logOf(p *play) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// client sends the requests of a schedule. Some go to an address that refuses them.
type client struct {
	*model

	play *play
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	p := c.play
	p.sent++
	if p.now.Before(p.notBefore) {
		p.early++
	}
	refuse := !p.quick && p.faults > 0 && p.r.IntN(10) == 0
	if refuse {
		p.faults--
		p.log = append(p.log, "connection refused")
		req = req.Clone(req.Context())
		req.URL.Host = c.closed
	}
	c.mu.Unlock()
	return c.base.RoundTrip(req)
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	name, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	m.mu.Lock()
	p := m.plays[name]
	status, header, answer, end := p.answer(outputs(body))
	p.log = append(p.log, fmt.Sprintf("%d %s %q", status, end, answer))
	m.mu.Unlock()
	for key, value := range header {
		w.Header().Set(key, value)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
	switch end {
	case "reset":
		_ = http.NewResponseController(w).Flush()
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	case "closed":
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // without the end of the body
	}
}

// outputs counts the outputs in a history.
func outputs(body []byte) int {
	return strings.Count(string(body), `"tool_call_id":`) + strings.Count(string(body), `"tool_use_id":`)
}

// answer is the answer to a request whose history has so many outputs, and how it ends: "" for
// well.
func (p *play) answer(outputs int) (status int, header map[string]string, body, end string) {
	p.notBefore = time.Time{}
	kind := p.r.IntN(12)
	if p.faults == 0 {
		kind = 11
	} else if kind < 8 {
		p.faults--
	}
	stream := map[string]string{"Content-Type": "text/event-stream"}
	whole := p.stream(outputs)
	switch kind {
	case 0:
		return http.StatusTooManyRequests, p.retryAfter(), p.failure("rate_limit_error", "rate_limit_exceeded"), ""
	case 1:
		return http.StatusServiceUnavailable, p.retryAfter(), p.failure("overloaded_error", "server_is_overloaded"), ""
	case 2:
		events := strings.SplitAfter(whole, "\n\n")
		head := ""
		if p.anthropic {
			head = "event: error\n"
		}
		return http.StatusOK, stream, strings.Join(events[:p.r.IntN(len(events)-1)], "") + head + "data: " + p.failure("overloaded_error", "overloaded") + "\n\n", ""
	case 3, 4, 5, 6:
		return http.StatusOK, stream, whole[:p.r.IntN(len(whole))], []string{"reset", "closed", ""}[p.r.IntN(3)]
	case 7:
		return http.StatusOK, stream, "", "closed"
	default:
		return http.StatusOK, stream, whole, ""
	}
}

// retryAfter is the headers of a refusal, with a wait at times.
func (p *play) retryAfter() map[string]string {
	h := map[string]string{"Content-Type": "application/json"}
	switch {
	case p.quick:
		h["Retry-After-Ms"] = strconv.Itoa(1 + p.r.IntN(2))
	case p.r.IntN(2) == 0:
		seconds := 1 + p.r.IntN(20)
		h["Retry-After"] = strconv.Itoa(seconds)
		p.notBefore = p.now.Add(time.Duration(seconds) * time.Second)
	}
	return h
}

func (p *play) failure(typ, code string) string {
	if p.anthropic {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"x"}}`, typ)
	}
	return fmt.Sprintf(`{"error":{"message":"x","type":"server_error","code":%q}}`, code)
}

// stream is a whole answer: a call for the next payment, or a text.
func (p *play) stream(outputs int) string {
	if outputs >= p.payments {
		return p.render("It is paid.", "", "")
	}
	text := ""
	if p.texts && p.r.IntN(3) == 0 {
		text = "I will pay."
	}
	p.calls++
	return p.render(text, p.callID(outputs), fmt.Sprintf(`{"invoice":%d,"to":{"a":["}",2]}}`, outputs))
}

// callID is the id of a call: a new one, or as some servers do it, by the place in the conversation,
// so that the answer to a repeated request has it again, or always the same.
func (p *play) callID(outputs int) string {
	switch p.ids {
	case 0:
		return fmt.Sprint("call_", p.calls)
	case 1:
		return fmt.Sprint("call_", outputs)
	default:
		return "call_0"
	}
}

// render writes an answer in the protocol of the schedule. The arguments come in any pieces.
func (p *play) render(text, id, arguments string) string {
	var pieces []string
	for left := arguments; left != ""; {
		n := 1 + p.r.IntN(len(left))
		pieces, left = append(pieces, left[:n]), left[n:]
	}
	if p.anthropic {
		return renderMessages(text, id, pieces)
	}
	return renderChat(text, id, pieces)
}

func renderChat(text, id string, pieces []string) string {
	var b strings.Builder
	chunk := func(delta, finish string) {
		_, _ = fmt.Fprintf(&b, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if word != "" {
			chunk(fmt.Sprintf(`{"content":%q}`, word), "null")
		}
	}
	for i, piece := range pieces {
		head := ""
		if i == 0 {
			head = fmt.Sprintf(`"id":%q,"type":"function",`, id)
		}
		quoted, _ := json.Marshal(piece)
		chunk(fmt.Sprintf(`{"tool_calls":[{"index":0,%s"function":{"name":"pay","arguments":%s}}]}`, head, quoted), "null")
	}
	finish := `"stop"`
	if id != "" {
		finish = `"tool_calls"`
	}
	chunk(`{}`, finish)
	return b.String() + "data: [DONE]\n\n"
}

func renderMessages(text, id string, pieces []string) string {
	var b strings.Builder
	event := func(name, data string) { _, _ = fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data) }
	event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`)
	index := 0
	block := func(start, delta string, parts []string) {
		event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, start))
		for _, part := range parts {
			quoted, _ := json.Marshal(part)
			event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{%s:%s}}`, index, delta, quoted))
		}
		event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
		index++
	}
	stop := "end_turn"
	if text != "" {
		block(`{"type":"text","text":""}`, `"type":"text_delta","text"`, strings.SplitAfter(text, " "))
	}
	if id != "" {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"pay","input":{}}`, id), `"type":"input_json_delta","partial_json"`, pieces)
		stop = "tool_use"
	}
	event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":9}}`, stop))
	event("message_stop", `{"type":"message_stop"}`)
	return b.String()
}
