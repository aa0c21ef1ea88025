package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"

	"github.com/coder/websocket"

	"github.com/otelllm/otelllm-go/otelllm/realtime"
)

// Server is the server of a Realtime conversation.
type Server struct {
	BaseURL string // without the final "realtime"
	Query   url.Values
	Header  http.Header
	Client  *http.Client
}

// Realtime is a conversation over OpenAI Realtime. The server keeps the history.
type Realtime struct {
	config  Config
	server  Server
	session realtime.Config

	conn     *websocket.Conn
	observed *realtime.Session
	said     []realtimeItem // user messages not yet sent
}

// NewRealtime returns a conversation over a WebSocket, which is opened by the first
// Ask. Session says how it is recorded. The caller has to close the conversation.
func NewRealtime(c Config, s Server, session realtime.Config) *Realtime {
	return &Realtime{config: c, server: s, session: session}
}

// The fields of events that this conversation uses.
type (
	realtimeEvent struct {
		Type     string            `json:"type"`
		Session  *realtimeSession  `json:"session,omitempty"`
		Item     *realtimeItem     `json:"item,omitempty"`
		Delta    string            `json:"delta,omitempty"`
		Response *realtimeResponse `json:"response,omitempty"`
		Error    *realtimeError    `json:"error,omitempty"`
	}
	realtimeSession struct {
		Type  string         `json:"type"`
		Tools []realtimeTool `json:"tools"`
	}
	realtimeTool struct {
		Type       string         `json:"type"`
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	}
	realtimeItem struct {
		Type      string            `json:"type"`
		Role      string            `json:"role,omitempty"`
		Content   []realtimeContent `json:"content,omitempty"`
		CallID    string            `json:"call_id,omitempty"`
		Name      string            `json:"name,omitempty"`
		Arguments string            `json:"arguments,omitempty"`
		Output    string            `json:"output,omitempty"`
	}
	realtimeContent struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	realtimeResponse struct {
		Status        string `json:"status"`
		StatusDetails struct {
			Error realtimeError `json:"error"`
		} `json:"status_details"`
	}
	realtimeError struct {
		Code string `json:"code"`
	}
)

// readLimit is the maximum size of a server message in bytes.
const readLimit = 1 << 20

// User adds a user message.
func (m *Realtime) User(text string) {
	m.said = append(m.said, realtimeItem{Type: "message", Role: "user", Content: []realtimeContent{{"input_text", text}}})
}

// Output sends the output of a tool call.
func (m *Realtime) Output(ctx context.Context, call Call, output string, _ bool) error {
	return m.send(ctx, &realtimeEvent{
		Type: "conversation.item.create", Item: &realtimeItem{Type: "function_call_output", CallID: call.ID, Output: output},
	})
}

// ForgetOutputs does nothing: the server keeps the history.
func (m *Realtime) ForgetOutputs() {}

// ForgetCalls does nothing: the server keeps the history.
func (m *Realtime) ForgetCalls() {}

// Close ends the session.
func (m *Realtime) Close() error {
	if m.conn == nil {
		return nil
	}
	m.observed.Close(nil)
	return m.conn.CloseNow()
}

// Ask requests a response and reads it to its end.
func (m *Realtime) Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error) {
	if err := m.open(ctx, tools); err != nil {
		return Reply{}, err
	}
	for ; len(m.said) > 0; m.said = m.said[1:] {
		if err := m.send(ctx, &realtimeEvent{Type: "conversation.item.create", Item: &m.said[0]}); err != nil {
			return Reply{}, err
		}
	}
	if err := m.send(ctx, &realtimeEvent{Type: "response.create"}); err != nil {
		return Reply{}, err
	}
	var reply Reply
	for {
		e, err := m.receive(ctx)
		if err != nil {
			return reply, err
		}
		switch e.Type {
		case "response.output_text.delta":
			reply.Text += e.Delta
			onText(e.Delta)
		case "response.output_item.done":
			if e.Item != nil && e.Item.Type == "function_call" {
				reply.Calls = append(reply.Calls, Call{e.Item.CallID, e.Item.Name, e.Item.Arguments})
			}
		case "response.done":
			if e.Response != nil && e.Response.Status == "failed" {
				return reply, failed(e.Response.StatusDetails.Error.Code)
			}
			return reply, nil
		case "error":
			if e.Error == nil {
				return reply, errors.New("the provider failed")
			}
			return reply, failed(e.Error.Code)
		}
	}
}

// open opens the session, once, and declares the tools.
func (m *Realtime) open(ctx context.Context, tools []Tool) error {
	if m.conn != nil {
		return nil
	}
	query := url.Values{"model": {m.config.Model}}
	maps.Copy(query, m.server.Query)
	conn, _, err := websocket.Dial(ctx, m.server.BaseURL+"realtime?"+query.Encode(), &websocket.DialOptions{
		HTTPClient: m.server.Client, HTTPHeader: m.server.Header,
	})
	if err != nil {
		return err
	}
	conn.SetReadLimit(readLimit)
	m.conn, m.observed = conn, realtime.NewSession(ctx, m.session)
	if _, err := m.receive(ctx); err != nil { // session.created
		return err
	}
	session := realtimeSession{Type: "realtime", Tools: make([]realtimeTool, 0, len(tools))}
	for _, t := range tools {
		session.Tools = append(session.Tools, realtimeTool{"function", t.Name, schema()})
	}
	return m.send(ctx, &realtimeEvent{Type: "session.update", Session: &session})
}

func (m *Realtime) send(ctx context.Context, e *realtimeEvent) error {
	frame, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := m.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		m.observed.RecordSendFailure(frame, err)
		return err
	}
	m.observed.RecordSent(frame)
	return nil
}

func (m *Realtime) receive(ctx context.Context) (realtimeEvent, error) {
	var e realtimeEvent
	_, frame, err := m.conn.Read(ctx)
	if err != nil {
		m.observed.Close(err)
		_ = m.conn.CloseNow() // a context that was already done does not close it
		return e, err
	}
	m.observed.RecordReceived(frame)
	return e, json.Unmarshal(frame, &e)
}
