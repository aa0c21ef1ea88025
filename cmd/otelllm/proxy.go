package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/session"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/upstream"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// closePatience is how long a command waits at its end until everything is judged and exported.
const closePatience = 30 * time.Second

// proxyOptions are the flags of `otelllm proxy`.
type proxyOptions struct {
	listen    string
	upstreams []string
	tlsCert   string
	tlsKey    string
	grace     time.Duration
	retry     bool
	trust     bool
	logLevel  string
	output    outputOptions

	unreachable string
}

func newProxyCommand() *cobra.Command {
	var o proxyOptions
	cmd := &cobra.Command{
		Use:   "proxy [flags]",
		Short: "a proxy for the model calls of any program",
		Long: `Proxy passes model calls on to their providers, changes nothing about them, and logs
what became of the runs. Point the base URL of an SDK at it: http://ADDRESS/PROVIDER, with
/v1 for OpenAI. Known providers: ` + strings.Join(agents.ProviderNames(), ", ") + `.
Without the name of a provider, a request goes where its path or its headers say. With
--upstream URL all requests go there, except those of other --upstream flags.

SIGTERM and SIGINT end it: open requests get --grace, then everything is judged and
exported.`,
		Example: `  otelllm proxy
  otelllm proxy --upstream /team=https://gateway.example/openai --upstream openai=https://eu.api.openai.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8787", "`ADDRESS` to listen on")
	f.StringArrayVar(&o.upstreams, "upstream", nil,
		"where requests go: PROVIDER=URL, /PATH=URL by the beginning of the path, HOST=URL by the host that the client asks for, or `URL` for all others; may be repeated")
	f.StringVar(&o.tlsCert, "tls-cert", "", "`FILE` with the certificate to serve TLS with, in PEM")
	f.StringVar(&o.tlsKey, "tls-key", "", "`FILE` with its key")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "how long open requests may go on at the end")
	f.BoolVar(&o.retry, "retry", false, "send a request again that failed before its response, if that is safe")
	f.StringVar(&o.unreachable, "unreachable", "", unreachableHelp+"; the default is reset")
	f.BoolVar(&o.trust, "trust-trace-context", false, "make spans children of the client's own, by its trace context")
	o.output.flags(cmd)
	f.StringVar(&o.logLevel, "log-level", "info", "log `LEVEL`: debug, info, warn or error")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return cmd
}

func (o *proxyOptions) run(ctx context.Context) error {
	log, err := newLogger(os.Stderr, o.logLevel)
	if err != nil {
		return err
	}
	upstreams, err := parseProxyUpstreams(o.upstreams)
	if err != nil {
		return err
	}
	unreachable, err := proxy.ParseUnreachable(o.unreachable)
	if err != nil {
		return fmt.Errorf("--unreachable: %w", err)
	}
	transport, err := upstream.Transport(upstream.Options{Getenv: os.Getenv})
	if err != nil {
		return err
	}
	ln, scheme, err := o.listener()
	if err != nil {
		return err
	}
	outputs, err := o.output.open(ctx, log) // which empties the files: after everything that may fail first
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer func() { _ = outputs.abandon(ctx) }() // after an error
	if addr, ok := ln.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
		log.Warn("listening beyond loopback: all who reach this address can use the proxy")
		if o.tlsCert == "" {
			log.Warn("keys and prompts reach this address unencrypted: set --tls-cert and --tls-key")
		}
	}
	sinks := []func(ptrace.Traces){outputs.sink}
	if log.Enabled(ctx, slog.LevelWarn) {
		sinks = append(sinks, func(td ptrace.Traces) { logVerdicts(log, td) })
	}
	s, err := serve(context.WithoutCancel(ctx), ln, serveOptions{
		keepNothing: !o.output.looksAtRuns(), upstreams: upstreams, retry: o.retry, trust: o.trust, grace: o.grace, log: log,
		transport: transport, unreachable: unreachable, sinks: sinks,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if address := outputs.servePage(s.session.Store); address != "" {
		fmt.Fprintf(os.Stderr, "otelllm: runs are shown on %s\n", address)
	}
	following := follow(s.session.Store, func([]report.Record) {
		_ = outputs.writeReport(s.session.Store.Records()) // an error is one at the end, too
	})
	fmt.Fprintf(os.Stderr, "otelllm: listening on %s://%s\n", scheme, ln.Addr())
	var serveErr error
	select {
	case <-ctx.Done():
		log.Info("shutting down")
		serveErr = s.stopServing()
	case serveErr = <-s.ended:
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	closeErr := s.session.Close(closing)
	following.close()
	return errors.Join(serveErr, closeErr, outputs.close(closing, s.session.Store.Records()))
}

// unreachableHelp is the help for --unreachable.
const unreachableHelp = "what a client sees of an upstream that cannot be connected to: reset, close, refuse (connections, until it can be), or status, which is 502, 504 or 421 with the cause; `KIND`"

// listener returns the listener, and the scheme that it serves.
func (o *proxyOptions) listener() (net.Listener, string, error) {
	var config *tls.Config
	if o.tlsCert != "" {
		cert, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			return nil, "", fmt.Errorf("--tls-cert: %w", err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	ln, err := net.Listen("tcp", o.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, "", fmt.Errorf("--listen: %s is in use, maybe by another otelllm: end that, or choose another address, such as 127.0.0.1:0", o.listen)
	}
	if err != nil {
		return nil, "", fmt.Errorf("--listen: %w", err)
	}
	if config != nil {
		return tls.NewListener(ln, config), "https", nil
	}
	return ln, "http", nil
}

// parseProxyUpstreams returns the upstreams of --upstream, and the upstreams of other providers, unless one takes all
// others.
func parseProxyUpstreams(values []string) ([]proxy.Upstream, error) {
	var list []proxy.Upstream
	for _, value := range values {
		name, target, ok := strings.Cut(value, "=")
		if scheme, _, isURL := strings.Cut(name, "://"); isURL && !strings.Contains(scheme, "/") {
			name, target, ok = "", value, true
		}
		if !ok {
			return nil, errors.New("--upstream: neither a URL nor NAME=URL")
		}
		u, err := parseUpstream(target)
		if err != nil {
			return nil, err
		}
		routes, host, known := agents.RoutesTo(name, u)
		switch {
		case name == "":
			list = append(list, proxy.Upstream{URL: u})
		case known:
			for _, r := range routes {
				list = append(list, proxy.Upstream{Prefix: r.Prefix, URL: r.URL})
			}
			list = append(list, proxy.Upstream{Provider: host, URL: u})
		case strings.HasPrefix(name, "/"):
			list = append(list, proxy.Upstream{Prefix: name, URL: u})
		case strings.ContainsAny(name, ".:"):
			list = append(list, proxy.Upstream{Host: name, URL: u})
		default:
			return nil, fmt.Errorf("--upstream: %q is neither a provider (%s), nor a /PATH, nor a host", name, strings.Join(agents.ProviderNames(), ", "))
		}
	}
	if slices.ContainsFunc(list, isCatchAll) {
		// A request without a name in its path is for that upstream, and so are its credentials.
		return slices.DeleteFunc(list, func(u proxy.Upstream) bool { return u.Provider != "" }), nil
	}
	for _, r := range agents.DefaultRoutes() {
		if !slices.ContainsFunc(list, func(u proxy.Upstream) bool { return u.Prefix == r.Prefix }) {
			list = append(list, proxy.Upstream{Prefix: r.Prefix, URL: r.URL})
		}
	}
	return list, nil
}

// isCatchAll reports whether an upstream takes all requests that no other matches.
func isCatchAll(u proxy.Upstream) bool { return u == proxy.Upstream{URL: u.URL} }

// served is a running proxy, with its session.
type served struct {
	session  *session.Session
	stop     context.CancelFunc
	requests func() int64 // number of requests so far
	ended    chan error   // gets the error that serving ended with
}

// serveOptions are the options that the commands with a proxy share.
type serveOptions struct {
	service     string
	upstreams   []proxy.Upstream
	sinks       []func(ptrace.Traces)
	retry       bool
	oneAgent    bool // one agent makes all model calls
	trust       bool
	grace       time.Duration
	log         *slog.Logger
	keepNothing bool // no run is kept in memory
	transport   *http.Transport
	unreachable proxy.Unreachable     // how an upstream that cannot be connected to appears to a client
	failed      func(proxy.Failure)   // gets failures; may be nil
	maxSpans    int                   // in memory; 0: as many as a session keeps
	forgotten   func([]report.Record) // gets records that there is no room for; may be nil
}

// serve starts a session and the proxy, on ln, which the proxy closes.
func serve(ctx context.Context, ln net.Listener, o serveOptions) (*served, error) {
	endpoint, err := session.EndpointFromEnv()
	if err != nil {
		return nil, err
	}
	// The errors of OpenTelemetry quote addresses and answers, so they are not logged.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { o.log.Debug("OpenTelemetry reported an error") }))
	s, err := session.Start(ctx, session.Config{ServiceName: o.service, Endpoint: endpoint, Sinks: o.sinks, Logger: o.log, KeepNothing: o.keepNothing, MaxSpans: o.maxSpans, Forgotten: o.forgotten, OneAgent: o.oneAgent})
	if err != nil {
		return nil, err
	}
	// The first upstream that matches counts.
	slices.SortStableFunc(o.upstreams, func(a, b proxy.Upstream) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
	server, err := proxy.New(proxy.Config{
		Upstreams: o.upstreams, Instrumentation: s.Instrumentation, Retry: o.retry, Grace: o.grace,
		Transport: o.transport, Logger: o.log, TrustTraceContext: o.trust, Unreachable: o.unreachable, Failed: o.failed,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	ctx, stop := context.WithCancel(ctx)
	out := &served{session: s, stop: stop, requests: server.Requests, ended: make(chan error, 1)}
	go func() { out.ended <- server.Serve(ctx, ln) }()
	return out, nil
}

// stopServing ends the proxy, and returns once no request is open.
func (s *served) stopServing() error {
	s.stop()
	return <-s.ended
}

// logVerdicts logs the runs among judged spans, and the calls without a run that failed.
func logVerdicts(log *slog.Logger, td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				logVerdict(log, span)
			}
		}
	}
}

// loggedKeys are the attributes of a verdict in the log, with their names there.
var loggedKeys = []struct {
	name string
	key  attribute.Key
}{
	{"agent", otelsemconv.GenAIAgentNameKey},
	{"model", otelsemconv.GenAIRequestModelKey},
	{"outcome", semconv.RunOutcomeKey},
	{"class", semconv.FailureClassKey},
	{"cause", semconv.FailureCauseKey},
	{"retry", semconv.RetrySafetyKey},
	{"summary", semconv.FailureSummaryKey},
}

func logVerdict(log *slog.Logger, span ptrace.Span) {
	attrs := span.Attributes()
	_, isRun := attrs.Get(string(semconv.RunOutcomeKey))
	_, inRun := attrs.Get(string(semconv.RunIDKey))
	class, failed := attrs.Get(string(semconv.FailureClassKey))
	ownParent := !span.ParentSpanID().IsEmpty() && !engine.HasRemoteParent(span)
	if !isRun && (inRun || !failed || ownParent) {
		return
	}
	what := "request"
	if isRun {
		what = "run"
	}
	say := log.Info
	if failed && class.Str() != semconv.ClassLocalAbort.String() {
		say = log.Warn
	}
	args := []any{"trace", span.TraceID().String()}
	for _, k := range loggedKeys {
		if v, ok := attrs.Get(string(k.key)); ok && v.Type() == pcommon.ValueTypeStr {
			args = append(args, k.name, v.Str())
		}
	}
	say(what, args...)
}

// parseUpstream reads the URL of an upstream.
func parseUpstream(value string) (*url.URL, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--upstream: not an http or https URL") // it may hold a credential
	}
	return u, nil
}
