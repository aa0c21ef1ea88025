package collector

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// guarded is config.yaml with the files that restrict access, its backend, which uses TLS too, and an agent with a
// certificate.
type guarded struct {
	url     string // for OTLP over HTTP
	grpc    string // and over gRPC
	metrics string // of config-metrics.yaml, if it is joined
	backend *running
	agent   *http.Client // with a certificate of the CA
	trusted *x509.CertPool
}

// refused returns the error with which the server ends a connection with a client that shows no certificate. With TLS
// 1.3 it arrives after the client's part of the handshake, so refused reads from the connection. An HTTP client may or
// may not have begun to send by then.
func (g *guarded) refused(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: g.trusted, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// startGuarded runs config.yaml and config-tls.yaml with further files joined to them.
func startGuarded(t *testing.T, env map[string]string, files ...string) *guarded {
	t.Helper()
	return startInOrder(t, env, append([]string{"config.yaml", "config-tls.yaml"}, files...)...)
}

// startInOrder runs the files in their order. config-tls.yaml has to be one of them, after config.yaml.
func startInOrder(t *testing.T, env map[string]string, files ...string) *guarded {
	t.Helper()
	bin := binary(t)
	ca := newAuthority(t)
	all := map[string]string{
		"OTLP_GRPC_ENDPOINT": freeAddress(t),
		"OTLP_HTTP_ENDPOINT": freeAddress(t),
		"TLS_CLIENT_CA":      ca.file,
	}
	all["TLS_CERT"], all["TLS_KEY"] = ca.issue(t, "server")
	all["BACKEND_CA"] = ca.file
	certificate, key := ca.issue(t, "agent")
	agent, err := tls.LoadX509KeyPair(certificate, key)
	require.NoError(t, err)
	maps.Copy(all, env)

	g := &guarded{
		url:  "https://" + all["OTLP_HTTP_ENDPOINT"] + "/v1/traces",
		grpc: "https://" + all["OTLP_GRPC_ENDPOINT"] + "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	}
	backendCertificate, backendKey := ca.issue(t, "backend")
	g.backend = startBackend(t, bin, nil, fmt.Sprintf("yaml:receivers::otlp::protocols::grpc::tls: {cert_file: %q, key_file: %q}", backendCertificate, backendKey))
	all["BACKEND_OTLP"] = g.backend.env["OTLP_GRPC_ENDPOINT"]
	health := freeAddress(t)
	g.metrics = freeAddress(t)
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
processors: {batch: {timeout: 10ms}}
exporters: {prometheus: {endpoint: %q}}
%s
service: {telemetry: {metrics: {level: none, readers: []}}}
`, health, g.metrics, flushOften(t)), 0o600))
	var args []string
	for _, file := range append(slices.Clone(files), overlay) {
		args = append(args, "--config", "file:"+file)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = environ(all)
	run(t, cmd)
	healthy(t, health)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{agent}, MinVersion: tls.VersionTLS13},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	g.agent, g.trusted = &http.Client{Transport: transport}, ca.pool
	return g
}

// post returns the status of sending one span, or an error if there is no status.
func post(client *http.Client, url, token, body string) (int, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// The status codes of gRPC that these tests expect.
const (
	grpcOK                = "0"
	grpcResourceExhausted = "8"
	grpcUnauthenticated   = "16"
)

// call returns the status of a call over gRPC with a message of size bytes, or an error if there is no status. An empty
// message is a request without spans.
func call(client *http.Client, url, token string, size int) (string, error) {
	frame := []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)} // not compressed, length
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(append(frame, make([]byte, size)...)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if status := resp.Header.Get("Grpc-Status"); status != "" { // an error without a message
		return status, nil
	}
	return resp.Trailer.Get("Grpc-Status"), nil
}

func TestMutualTLS(t *testing.T) {
	g := startGuarded(t, nil)
	for _, endpoint := range []string{g.url, g.grpc} {
		require.ErrorContains(t, g.refused(endpoint), "certificate required", endpoint)
	}
	code, err := call(g.agent, g.grpc, "", 0)
	require.NoError(t, err)
	assert.Equal(t, grpcOK, code)
	status, err := post(http.DefaultClient, strings.Replace(g.url, "https", "http", 1), "", otherSpan)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, status, "plain text")

	t.Run("too large", func(t *testing.T) {
		large := strings.Replace(otherSpan, "SELECT", strings.Repeat("x", 5<<20), 1)
		status, err := post(g.agent, g.url, "", large)
		require.NoError(t, err)
		assert.Equal(t, http.StatusBadRequest, status)
		code, err := call(g.agent, g.grpc, "", 5<<20)
		require.NoError(t, err)
		assert.Equal(t, grpcResourceExhausted, code)
	})

	status, err = post(g.agent, g.url, "", otherSpan)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, []string{"SELECT"}, g.backend.spanNames(t)) })
}

func TestTokens(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("first-token # the old agents\nsecond-token\n"), 0o600))
	g := startGuarded(t, map[string]string{"TOKENS_FILE": tokens}, "config-token.yaml")
	for token, want := range map[string]int{
		"":             http.StatusUnauthorized,
		"wrong-token":  http.StatusUnauthorized,
		"first-token":  http.StatusOK,
		"second-token": http.StatusOK,
	} {
		status, err := post(g.agent, g.url, token, otherSpan)
		require.NoError(t, err)
		assert.Equal(t, want, status, "token %q", token)
		code, err := call(g.agent, g.grpc, token, 0)
		require.NoError(t, err)
		assert.Equal(t, want == http.StatusOK, code == grpcOK, "token %q: %s", token, code)
		assert.Contains(t, []string{grpcOK, grpcUnauthenticated}, code, "token %q", token)
	}
}

func TestOpenIDConnect(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	defer issuer.Close()
	answer := func(path string, value map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, json.NewEncoder(w).Encode(value))
		})
	}
	answer("/.well-known/openid-configuration", map[string]any{
		"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "authorization_endpoint": issuer.URL, "token_endpoint": issuer.URL,
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
	answer("/keys", map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}}})
	token := func(audience string, until time.Time) string {
		claims, err := json.Marshal(map[string]any{"iss": issuer.URL, "aud": audience, "sub": "agent", "exp": until.Unix()})
		require.NoError(t, err)
		signed := encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode(claims)
		hash := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hash[:])
		require.NoError(t, err)
		return signed + "." + encode(signature)
	}

	g := startGuarded(t, map[string]string{"OIDC_ISSUER": issuer.URL, "OIDC_AUDIENCE": "otelcol-llm"}, "config-oidc.yaml")
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for _, tt := range []struct {
		name, token string
		want        int
	}{
		{"none", "", http.StatusUnauthorized},
		{"for another", token("another", soon), http.StatusUnauthorized},
		{"expired", token("otelcol-llm", past), http.StatusUnauthorized},
		{"ours", token("otelcol-llm", soon), http.StatusOK},
	} {
		status, err := post(g.agent, g.url, tt.token, otherSpan)
		require.NoError(t, err)
		assert.Equal(t, tt.want, status, tt.name)
		code, err := call(g.agent, g.grpc, tt.token, 0)
		require.NoError(t, err)
		assert.Equal(t, tt.want == http.StatusOK, code == grpcOK, "%s: %s", tt.name, code)
	}
}

// agentsContent is where agents and frameworks have content, on spans, their events and logs. Those of the first five were
// recorded with content switched on, and have the prompt, an answer or a tool's input or output of it; the others are those
// of their sources, in the versions that config-redaction.yaml names.
var agentsContent = map[string][]string{
	"Claude Code": {"user_prompt", "full_command", "bash_command", "output", "prompt", "prompt_text", "response", "tool_input", "tool_parameters", "body"},
	"Codex":       {"prompt", "arguments", "output"},
	"Gemini CLI":  {"gen_ai.input.messages", "gen_ai.output.messages", "request_text", "response_text", "prompt", "function_args"},
	"Qwen Code":   {"request_text", "response_text", "prompt", "function_args"},
	"opencode":    {"ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.response.toolCalls", "ai.toolCall.args", "ai.toolCall.result"},
	"pydantic-ai": {"pydantic_ai.all_messages", "all_messages_events", "final_result", "events", "tool_arguments", "tool_response", "gen_ai.tool.call.arguments"},
	"Google ADK":  {"gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "gcp.vertex.agent.data"},
	"Microsoft's": {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"},
	"Strands":     {"content", "message", "tool.result", "gen_ai.input.messages", "system_prompt"},
	"Spring AI":   {"spring.ai.tool.call.arguments", "spring.ai.tool.call.result", "gen_ai.prompt", "gen_ai.completion", "spring.ai.chat.client.user.text", "spring.ai.chat.client.system.text", "db.vector.query.content"},
}

// Content that other instrumentations record is masked, in whatever order the files are joined. The attributes that
// llm_classify writes are exported unchanged.
func TestRedaction(t *testing.T) {
	const canary = "CANARY-prompt-or-secret"
	content := []string{
		"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt.0.content", "gen_ai.completion.0.content",
		"gen_ai.system_instructions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions",
		"traceloop.entity.input", "traceloop.entity.output", "input.value", "output.value", "llm.input_messages.0.message.content",
		"llm.output_messages.0.message.content", "llm.prompts.0", "llm.invocation_parameters", "tool.parameters", "ai.prompt",
		"ai.prompt.messages", "ai.response.text", "ai.response.toolCalls", "ai.toolCall.args", "ai.toolCall.result",
		"ai.response.reasoning", "ai.response.reasoningText", "ai.response.files", "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents",
		"gen_ai.evaluation.explanation", "llm.choices.0.completion.text",
		"ai.request.headers.x-api-key", "ai.response.providerMetadata", "ai.documents", "ai.ranking", "gen_ai.headers", "gen_ai.task.input",
		"gen_ai.task.output", "mcp.response.value", "mcp.request.argument", "crewai.agent.backstory", "traceloop.prompt.template_variables.name",
		"request_data", "response_data", "http.request.header.authorization", "url.query", "error.message", "error_message",
	}
	for _, keys := range agentsContent {
		content = append(content, keys...)
	}
	text := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
	}
	attributes := []string{
		text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", "coder sk-"+canary+"0123456789"), text("error.type", "timeout"),
		// Secrets under unexpected names.
		text("note", "key sk-"+canary+"0123456789"), text("header", "Bearer "+canary+"0123456789"),
		text("jwt", "eyJ"+canary+"."+canary+"."+canary),
		fmt.Sprintf(`{"key":"list","value":{"arrayValue":{"values":[{"stringValue":"a sk-%s0123456789"}]}}}`, canary),
		fmt.Sprintf(`{"key":"map","value":{"kvlistValue":{"values":[%s]}}}`, text("key", "a sk-"+canary+"0123456789")),
		text("url.full", "https://example.com/v1?key="+canary), text("http.url", "https://example.com/v1#"+canary), text("http.target", "/v1?q="+canary),
	}
	for n, token := range []string{"hf_%sA0", "gsk_%sA0", "xai-%sA0", "xoxb-%sA0", "github_pat_%sA0", "glpat-%sA0", "ya29.%sA0", "r8_%sA0", "nvapi-%sA0"} {
		attributes = append(attributes, text(fmt.Sprintf("token.%d", n), fmt.Sprintf(token, canary)))
	}
	slices.Sort(content)
	content = slices.Compact(content)
	for _, key := range content {
		attributes = append(attributes, text(key, canary))
	}
	event := fmt.Sprintf(`{"name":"exception","timeUnixNano":"1500","attributes":[%s,%s]},{"name":"tool.output","timeUnixNano":"1500","attributes":[%s,%s]}`,
		text("exception.message", canary), text("gen_ai.event.content", canary), text("bash_command", canary), text("output", canary))
	body := fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}},
		{"key":"process.command_args","value":{"arrayValue":{"values":[{"stringValue":"gemini"},{"stringValue":"CANARY-prompt-or-secret"}]}}}]},"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",
		"spanId":"eee19b7ec3c1b174","name":"invoke_agent coder","kind":1,"startTimeUnixNano":"1000","endTimeUnixNano":"2000",
		"status":{"code":2,"message":"could not read CANARY-prompt-or-secret"},"events":[%s],"attributes":[%s,
			{"key":"llm.run.requests","value":{"intValue":"0"}},{"key":"llm.run.tools","value":{"intValue":"0"}}]}]}]}]}`,
		event, strings.Join(attributes, ","))

	for _, files := range [][]string{
		{"config.yaml", "config-tls.yaml", "config-redaction.yaml"},
		{"config-redaction.yaml", "config.yaml", "config-tls.yaml"},
		{"config-metrics.yaml", "config-redaction.yaml", "config.yaml", "config-tls.yaml"},
		{"config.yaml", "config-redaction.yaml", "config-metrics.yaml", "config-tls.yaml"},
		{"config.yaml", "config-redaction.yaml", "kubernetes/two-layers/collector-classifier.yaml", "config-tls.yaml"},
	} {
		t.Run(strings.Join(files, ","), func(t *testing.T) {
			g := startInOrder(t, map[string]string{"JOURNAL": t.TempDir()}, files...)
			status, err := post(g.agent, g.url, "", body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			eventually(t, func(t *assert.CollectT) { require.Len(t, g.backend.spans(t), 1) })
			raw, err := os.ReadFile(g.backend.env["OUT_FILE"])
			require.NoError(t, err)
			assert.NotContains(t, string(raw), "CANARY")

			got := map[string]map[string]any{}
			for _, a := range g.backend.spans(t)[0].Attributes {
				got[a.Key] = a.Value
			}
			assert.Equal(t, "failed", got["llm.run.outcome"]["stringValue"])
			assert.Contains(t, got["gen_ai.agent.name"]["stringValue"], "coder")
			assert.NotEmpty(t, got["llm.failure.summary"]["stringValue"])
			assert.NotContains(t, fmt.Sprint(got["llm.run.timeline"], got["llm.failure.summary"], got["llm.failure.evidence"]), "***")
			for _, key := range content {
				assert.Contains(t, got, key, "the key stays, without its content")
			}
			if slices.Contains(files, "config-metrics.yaml") {
				eventually(t, func(t *assert.CollectT) {
					page := readPage(t, g.metrics)
					require.Contains(t, page, `gen_ai_agent_name="coder`)
					assert.NotContains(t, page, "CANARY", "labels are redacted, too")
				})
			}
		})
	}
}

// authority issues certificates for 127.0.0.1.
type authority struct {
	file        string
	pool        *x509.CertPool
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	a := &authority{file: writePEM(t, "CERTIFICATE", raw), pool: x509.NewCertPool(), certificate: certificate, key: key}
	a.pool.AddCert(certificate)
	return a
}

// issue creates a certificate and its key, and returns their files.
func (a *authority) issue(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, &private.PublicKey, a.key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return writePEM(t, "CERTIFICATE", raw), writePEM(t, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}))
	path := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}
