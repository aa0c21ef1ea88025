package collector

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// agentsOverlay has addresses and files of the test's own, in the places that config-agents.yaml documents.
const agentsOverlay = `
extensions: {health_check: {endpoint: "${env:HEALTH_ENDPOINT}"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "${env:OTLP_GRPC_ENDPOINT}"}, http: {endpoint: "${env:OTLP_HTTP_ENDPOINT}"}}}}
processors: {llm_classify: {settle: 100ms}}
connectors: {llm_agent_logs: {settle: 100ms}}
exporters:
  file: {path: "${env:OUT_FILE}", flush_interval: 10ms, create_directory: true}
  file/logs: {path: "${env:LOGS_FILE}", flush_interval: 10ms}
service:
  telemetry: {metrics: {level: none, readers: []}}
  pipelines:
    traces/file: {receivers: [forward/out], exporters: [file]}
    logs/file: {receivers: [forward/logs], exporters: [file/logs]}
`

// A turn of Codex that comes as logs has its verdict among the traces, and the logs leave as they came. No content of them
// is in the traces.
func TestAgentsLogs(t *testing.T) {
	bin, dir := binary(t), t.TempDir()
	overlay, logs := filepath.Join(dir, "overlay.yaml"), filepath.Join(dir, "logs.jsonl")
	require.NoError(t, os.WriteFile(overlay, []byte(agentsOverlay), 0o600))
	c := start(t, bin, map[string]string{"LOGS_OTLP": freeAddress(t), "LOGS_FILE": logs}, "config.yaml", "config-agents.yaml", overlay)

	var records []map[string]any
	begin := time.Now().Add(-time.Minute)
	record := func(name string, pairs ...any) {
		pairs = append(pairs, "event.name", name, "conversation.id", "0199a213-81c0-7800-8aa1-bbab2a035a53", "prompt", "CANARY")
		var attributes []map[string]any
		for i := 0; i < len(pairs); i += 2 {
			attributes = append(attributes, attr(pairs[i].(string), pairs[i+1]))
		}
		records = append(records, map[string]any{
			"timeUnixNano": strconv.FormatInt(begin.Add(time.Duration(len(records))*100*time.Millisecond).UnixNano(), 10),
			"attributes":   attributes,
		})
	}
	record("codex.conversation_starts", "approval_policy", "never")
	record("codex.user_prompt")
	record("codex.api_request", "http.response.status_code", "429", "duration_ms", "20")
	record("codex.api_request", "http.response.status_code", "200", "duration_ms", "20")
	record("codex.sse_event", "event.kind", "response.output_text.delta")
	record("codex.sse_event", "event.kind", "response.completed", "input_token_count", "11", "output_token_count", "5")
	record("codex.user_prompt")
	body, err := json.Marshal(map[string]any{"resourceLogs": []any{map[string]any{"scopeLogs": []any{map[string]any{"logRecords": records}}}}})
	require.NoError(t, err)
	resp, err := http.Post("http://"+c.env["OTLP_HTTP_ENDPOINT"]+"/v1/logs", "application/json", strings.NewReader(string(body)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	eventually(t, func(t *assert.CollectT) {
		outcomes := map[string]any{}
		for _, s := range c.spans(t) {
			outcomes[s.Name] = nil
			for _, a := range s.Attributes {
				if a.Key == "llm.run.outcome" {
					outcomes[s.Name] = a.Value["stringValue"]
				}
			}
		}
		assert.Equal(t, map[string]any{"chat": nil, "invoke_agent codex": "recovered"}, outcomes)
		sent, err := os.ReadFile(logs)
		require.NoError(t, err)
		assert.Equal(t, len(records), strings.Count(string(sent), "CANARY"), "the logs leave as they came")
	})
	traces, err := os.ReadFile(c.env["OUT_FILE"])
	require.NoError(t, err)
	assert.NotContains(t, string(traces), "CANARY")
}

// The content of agents' logs is masked with config-redaction.yaml, in whatever order the files are joined: their attributes,
// what their resources say, and their bodies. llm_agent_logs has read them before.
func TestRedactionOfLogs(t *testing.T) {
	bin := binary(t)
	keys := []string{"error.message", "error_message", "error", "exception.message"}
	for _, of := range agentsContent {
		keys = append(keys, of...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	content := []map[string]any{attr("conversation.id", "0199a213"), attr("event.name", "codex.tool_result"), attr("success", "true")}
	for _, key := range keys {
		content = append(content, attr(key, "CANARY"))
	}
	text := func(s string) map[string]any { return map[string]any{"stringValue": s} }
	bodies := []map[string]any{
		text("codex.tool_result"), text("API error: CANARY"),
		{"arrayValue": map[string]any{"values": []any{text("evaluated"), text(`{"permission":"bash","pattern":"CANARY"}`)}}},
		{"kvlistValue": map[string]any{"values": []any{attr("note", "CANARY")}}},
	}
	var records []map[string]any
	for _, body := range bodies {
		records = append(records, map[string]any{"timeUnixNano": "1700000000000000000", "attributes": content, "body": body})
	}
	records = append(records, map[string]any{"timeUnixNano": "1700000000000000000", "attributes": content})
	resource := map[string]any{"attributes": []any{attr("service.name", "codex_exec"), attr("process.command_line", "codex exec CANARY")}}
	body, err := json.Marshal(map[string]any{"resourceLogs": []any{map[string]any{"resource": resource, "scopeLogs": []any{map[string]any{"logRecords": records}}}}})
	require.NoError(t, err)

	for _, order := range [][]string{
		{"config.yaml", "config-agents.yaml", "config-redaction.yaml"},
		{"config.yaml", "config-redaction.yaml", "config-agents.yaml"},
		{"config-redaction.yaml", "config.yaml", "config-agents.yaml"},
	} {
		t.Run(strings.Join(order, ","), func(t *testing.T) {
			dir := t.TempDir()
			overlay, logs := filepath.Join(dir, "overlay.yaml"), filepath.Join(dir, "logs.jsonl")
			require.NoError(t, os.WriteFile(overlay, []byte(agentsOverlay), 0o600))
			c := start(t, bin, map[string]string{"LOGS_OTLP": freeAddress(t), "LOGS_FILE": logs}, append(slices.Clone(order), overlay)...)
			resp, err := http.Post("http://"+c.env["OTLP_HTTP_ENDPOINT"]+"/v1/logs", "application/json", strings.NewReader(string(body)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			eventually(t, func(t *assert.CollectT) {
				sent, err := os.ReadFile(logs)
				require.NoError(t, err)
				require.Equal(t, len(records), strings.Count(string(sent), `"success"`))
				assert.NotContains(t, string(sent), "CANARY")
				assert.Contains(t, string(sent), `"body":{"stringValue":"codex.tool_result"}`, "the name of an event stays")
				for _, key := range keys {
					assert.Contains(t, string(sent), strconv.Quote(key), "the key stays, without its content")
				}
			})
		})
	}
}
