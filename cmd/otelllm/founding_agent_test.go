package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The founding incident: a response hands over a whole call and breaks off, the agent executes the
// call, and the request that takes its output to the model fails for good. The output exists, and no
// model has answered it.
const (
	foundingCall = "call_787d80bb9e9f"
	foundingTool = "exec_command"
)

// foundingAgent plays the agent's part, and executes the call with tool.
func foundingAgent(client *http.Client, base string, tool func()) error {
	send := func(input string) error {
		resp, err := client.Post(base+"/responses", "application/json", strings.NewReader(`{"model":"gpt-5.5","stream":true,"input":[`+input+`]}`))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	}
	const prompt = `{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}`
	if err := send(prompt); err == nil {
		return errors.New("the answer came whole")
	}
	tool()
	return send(prompt + `,{"type":"function_call","call_id":"` + foundingCall + `","name":"` + foundingTool + `","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"` + foundingCall + `","output":"done"}`)
}

// foundingModel answers the first request with a whole call and a reset. It resets others, too, or
// refuses them.
func foundingModel(w http.ResponseWriter, r *http.Request, refuses bool) {
	raw, _ := io.ReadAll(r.Body)
	created := `{"type":"response.created","response":{"id":"resp_1","model":"gpt-5.5","status":"in_progress","output":[]}}`
	switch sent := strings.Contains(string(raw), foundingCall); {
	case sent && refuses:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","message":"x"}}`)
		return
	case sent:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+created+"\n\n")
		_ = http.NewResponseController(w).Flush()
		reset(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	item := `{"type":"function_call","id":"fc_1","call_id":"` + foundingCall + `","name":"` + foundingTool + `","arguments":"{}"`
	for _, event := range []string{
		created,
		`{"type":"response.output_item.added","output_index":0,"item":` + strings.Replace(item, "{}", "", 1) + `,"status":"in_progress"}}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{}"}`,
		`{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":"{}"}`,
		`{"type":"response.output_item.done","output_index":0,"item":` + item + `,"status":"completed"}}`,
	} {
		_, _ = io.WriteString(w, "data: "+event+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
	reset(w)
}
