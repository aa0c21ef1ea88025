package faultyllm_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// talk opens a session, sends the given events and reads until the session or its last
// response ends. It returns the types of the events that it received.
func talk(t *testing.T, srv *faultyllm.Server, says ...string) (types []string, last error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, srv.BaseURL("c", faultyllm.Realtime)+"realtime?model=gpt-realtime", nil)
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	responses := 0
	for _, s := range says {
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(s)))
		if s == create {
			responses++
		}
	}
	for responses > 0 {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return types, err
		}
		var e struct{ Type string }
		require.NoError(t, json.Unmarshal(data, &e), "%s", data)
		types = append(types, e.Type)
		if e.Type == "response.done" || e.Type == "error" {
			responses--
		}
	}
	return types, nil
}

// patience is the timeout for a server in the same process.
const patience = 20 * time.Second

const (
	create = `{"type":"response.create","event_id":"c1"}`
	output = `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_1","output":"blue"}}`
)

func TestRealtimeSessions(t *testing.T) {
	asks := []faultyllm.Step{faultyllm.Text("I ", "look."), faultyllm.ToolCall("call_1", "look", `{"at":`, `"sky"}`)}
	for _, tt := range []struct {
		name   string
		script []faultyllm.Exchange
		says   []string
		last   string // type of the last event, "" for none
		status websocket.StatusCode
		ended  bool // with an error
		want   []faultyllm.Record
	}{
		{
			"whole",
			[]faultyllm.Exchange{faultyllm.Answer(append(asks, faultyllm.Finish(faultyllm.ToolCalls))...), faultyllm.Answer(faultyllm.Text("Blue."), faultyllm.Finish(faultyllm.Stop))},
			[]string{`{"type":"session.update","session":{"type":"realtime"}}`, create, output, create},
			"response.done", -1, false,
			[]faultyllm.Record{
				{Sent: faultyllm.Sent{Events: 14, TextChunks: 2, ToolInputsStarted: 1, ToolInputsCompleted: 1, Terminal: true}},
				{Sent: faultyllm.Sent{Events: 8, TextChunks: 1, Terminal: true}, Outputs: []string{"call_1"}},
			},
		},
		{
			"limited",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Finish(faultyllm.Length))},
			[]string{create},
			"response.done", -1, false,
			[]faultyllm.Record{{Sent: faultyllm.Sent{Events: 2, Terminal: true}}},
		},
		{
			"failed",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded}))},
			[]string{create},
			"response.done", -1, false,
			[]faultyllm.Record{{Sent: faultyllm.Sent{Events: 2}}},
		},
		{
			"refused",
			[]faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited})},
			[]string{create},
			"error", -1, false,
			[]faultyllm.Record{{}},
		},
		{
			"reset",
			[]faultyllm.Exchange{faultyllm.Answer(append(asks, faultyllm.Reset())...)},
			[]string{create},
			"response.output_item.done", -1, true,
			[]faultyllm.Record{{Sent: faultyllm.Sent{Events: 13, TextChunks: 2, ToolInputsStarted: 1, ToolInputsCompleted: 1}, Ending: faultyllm.EndedReset}},
		},
		{
			"cut without a close frame",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Begin(), faultyllm.Truncate())},
			[]string{create},
			"response.created", -1, true,
			[]faultyllm.Record{{Sent: faultyllm.Sent{Events: 1}, Ending: faultyllm.EndedTruncated}},
		},
		{
			"closed",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Begin(), faultyllm.CleanEnd())},
			[]string{create},
			"response.created", websocket.StatusNormalClosure, true,
			[]faultyllm.Record{{Sent: faultyllm.Sent{Events: 1}, Ending: faultyllm.EndedEarly}},
		},
		{
			"closed before anything",
			[]faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Truncate())},
			[]string{create},
			"session.created", -1, true,
			[]faultyllm.Record{{Ending: faultyllm.EndedTruncated}},
		},
		{"an unknown event", nil, []string{`{"type":"response.make"}`, create}, "error", -1, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, srv.Close()) }()
			srv.Play("c", tt.script...)
			types, err := talk(t, srv, tt.says...)
			assert.Equal(t, tt.ended, err != nil, "%v", err)
			assert.Equal(t, tt.status, websocket.CloseStatus(err))
			require.NotEmpty(t, types)
			assert.Equal(t, "session.created", types[0])
			assert.Equal(t, tt.last, types[len(types)-1])
			if tt.want == nil {
				return
			}
			for i := range tt.want {
				tt.want[i].Wire, tt.want[i].Streamed = faultyllm.Realtime, true
			}
			records, err := srv.Records("c")
			require.NoError(t, err)
			assert.Equal(t, tt.want, records)
		})
	}
}

// A server that is closed ends its sessions, whatever they wait for, and ends a wait
// for an exchange that does not end.
func TestRealtimeSessionsEndWithTheServer(t *testing.T) {
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	srv.Play("c", faultyllm.Answer(faultyllm.Begin(), faultyllm.Stall()))
	ended := make(chan error)
	go func() { ended <- srv.Await(t.Context(), "c", 2) }()
	go func() {
		for srv.Started("c") == 0 {
			runtime.Gosched()
		}
		ended <- srv.Close()
	}()
	_, err = talk(t, srv, create)
	require.Error(t, err)
	first, second := <-ended, <-ended
	require.ErrorContains(t, errorOf(first, second), "before 2 exchanges had ended")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	open, err := faultyllm.Start()
	require.NoError(t, err)
	open.Play("c", faultyllm.Answer())
	require.ErrorIs(t, open.Await(gone, "c", 1), context.Canceled)
	require.ErrorContains(t, open.Await(t.Context(), "d", 1), "no case")
	require.NoError(t, open.Close())
}

// errorOf returns the error of two, one of which has to be nil.
func errorOf(a, b error) error {
	if a == nil {
		return b
	}
	return a
}
