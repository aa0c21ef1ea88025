package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Gateway is a gateway between agents and the model server that behaves like a process of its own: it has its own
// TracerProvider, and only the trace context of the requests connects its spans to those of the agents.
type Gateway struct {
	addr      string
	http      *http.Server
	transport *http.Transport
	llm       *otelllm.Instrumentation
	served    chan error
}

// GatewayMode is how a gateway treats an upstream that fails.
type GatewayMode string

// The modes. Each is the first element of a URL's path.
const (
	PassesOn GatewayMode = "pass"    // a reverse proxy: the client gets what the upstream sent
	Swallows GatewayMode = "swallow" // the client gets an empty answer that ends cleanly
	Retries  GatewayMode = "retry"   // the gateway retries once
)

// StartGateway starts a gateway to upstream on loopback. Its spans go to tp.
func StartGateway(upstream *faultyllm.Server, tp trace.TracerProvider) (*Gateway, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	// The Collectors that judge the cases wait for seconds instead of minutes, and so does the gateway.
	waits := otelllm.InferredRuns{RetryWait: 100 * time.Millisecond}
	g := &Gateway{
		addr: ln.Addr().String(), transport: &http.Transport{}, served: make(chan error, 1),
		llm: otelllm.New(otelllm.WithTracerProvider(tp), otelllm.WithInferredRuns(waits)),
	}
	target := &url.URL{Scheme: "http", Host: upstream.Addr()}
	asking := g.llm.NewTransport(g.transport)
	buffering := &buffering{target: target, client: &http.Client{Transport: asking}}
	mux := http.NewServeMux()
	for mode, h := range map[GatewayMode]http.Handler{
		PassesOn: fullDuplex(&httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: asking, ErrorLog: log.New(io.Discard, "", 0),
		}),
		Swallows: http.HandlerFunc(buffering.swallow),
		Retries:  http.HandlerFunc(buffering.retry),
	} {
		mux.Handle("/"+string(mode)+"/", http.StripPrefix("/"+string(mode), h))
	}
	g.http = &http.Server{
		Handler: g.llm.NewHandler(mux, otelllm.WithPropagators(propagation.TraceContext{})),
		// The gateway's spans report the requests that it aborted.
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { g.served <- g.http.Serve(ln) }()
	return g, nil
}

// fullDuplex lets next respond before it has read the whole request. Otherwise net/http closes the request's body when
// the response begins, and the transport may then cut the upstream connection.
func fullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		next.ServeHTTP(w, r)
	})
}

// BaseURL returns the base URL of a case through this gateway, as the wire protocol's SDK expects it.
func (g *Gateway) BaseURL(mode GatewayMode, key string, w faultyllm.Wire) string {
	return faultyllm.BaseURL("http", g.addr+"/"+string(mode)+"/case/"+key, w)
}

// Close stops the gateway, closes every connection, and ends the runs that the gateway has inferred.
//
//nolint:contextcheck,nolintlint // callers must end it whatever became of their contexts
func (g *Gateway) Close() error {
	err := g.http.Close()
	if serveErr := <-g.served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	g.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, g.llm.Shutdown(ctx))
}

// buffering reads an upstream's complete response before it responds.
type buffering struct {
	target *url.URL
	client *http.Client
}

// answer is an upstream's complete response.
type answer struct {
	contentType string
	body        []byte
}

func (b *buffering) ask(r *http.Request, body []byte) (answer, error) {
	u := b.target.JoinPath(r.URL.Path)
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	resp, err := b.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, resp.Body)
		return answer{}, fmt.Errorf("the upstream answered %s", resp.Status)
	}
	got, err := io.ReadAll(resp.Body)
	return answer{resp.Header.Get("Content-Type"), got}, err
}

// swallow replaces every failure of the upstream by an empty answer.
func (b *buffering) swallow(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got, err := b.ask(r, body)
	if err != nil {
		got = answer{"text/event-stream", nothing(r.URL.Path)}
	}
	got.write(w)
}

// nothing returns an empty stream that ends normally.
func nothing(path string) []byte {
	wire, _ := faultyllm.WireOf(path)
	if wire == faultyllm.Chat {
		return []byte("data: [DONE]\n\n")
	}
	return faultyllm.Stream(wire, model(wire), faultyllm.Finish(faultyllm.Stop))
}

// retry sends the request a second time if the first one failed.
func (b *buffering) retry(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got, err := b.ask(r, body)
	if err != nil {
		got, err = b.ask(r, body)
	}
	if err != nil {
		http.Error(w, "the upstream failed twice", http.StatusBadGateway)
		return
	}
	got.write(w)
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	_, _ = w.Write(a.body) // the client may have disconnected
}
