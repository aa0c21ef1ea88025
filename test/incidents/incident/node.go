package incident

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/otlphttp"
)

// NodeAgent is an agent in Node, which run.mjs of examples/node runs.
type NodeAgent struct {
	Producer string // the instrumentation of the act before
	API      string // the model's API, as run.mjs names it
}

// factsProducer is the producer that uses otelllm-facts.mjs.
const factsProducer = "facts"

// Node is an installed Node with the packages of examples/node.
type Node struct {
	Bin    string // the program
	Folder string // examples/node, with its node_modules
}

// NodeReads is a pause in which Node, on a busy machine too, reads what has arrived: when a stream breaks, Node
// drops unread data.
func NodeReads() faultyllm.Step { return faultyllm.Pause(500 * time.Millisecond) }

// ErrNoNode is returned if Node or the packages of examples/node are not installed.
var ErrNoNode = errors.New("Node and the packages of examples/node are not installed: run `npm ci --ignore-scripts` there, which installs both")

// FindNode finds Node and the packages: the Node that the packages include, otherwise
// the one in PATH.
func FindNode(folder string) (*Node, error) {
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@opentelemetry", "api")); err != nil {
		return nil, ErrNoNode
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if own, _ := filepath.Glob(filepath.Join(folder, "node_modules", "node-*", "bin", "node")); len(own) > 0 {
		return &Node{own[0], folder}, nil
	}
	bin, err := exec.LookPath("node")
	if err != nil {
		return nil, ErrNoNode
	}
	return &Node{bin, folder}, nil
}

// run runs an agent to its end, with spans that go to the URL.
func (n *Node) run(ctx context.Context, producer, api, baseURL, otlp string) (Played, error) {
	dir, err := os.MkdirTemp("", "incident")
	if err != nil {
		return Played{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tasks, err := json.Marshal([]map[string]any{{"name": "incident", "baseURL": strings.TrimSuffix(baseURL, "/"), "api": api}})
	if err != nil {
		return Played{}, err
	}
	path := filepath.Join(dir, "tasks.json")
	if err := os.WriteFile(path, tasks, 0o600); err != nil {
		return Played{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, n.Bin, "run.mjs", producer, path)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.Folder, &stdout, &stderr
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp)
	if err := cmd.Run(); err != nil {
		return Played{}, fmt.Errorf("node run.mjs %s: %w: %.500s", producer, err, stderr.String())
	}
	var saw struct {
		Trace string
		Saw   []string
	}
	if err := json.NewDecoder(&stdout).Decode(&saw); err != nil {
		return Played{}, fmt.Errorf("node run.mjs %s: read the output: %w", producer, err)
	}
	played := Played{}
	if played.TraceID, err = trace.TraceIDFromHex(saw.Trace); err != nil {
		return Played{}, fmt.Errorf("node run.mjs %s: %w", producer, err)
	}
	if len(saw.Saw) > 0 {
		played.Err = errors.New(strings.Join(saw.Saw, ", because of "))
	}
	return played, nil
}

// keeper is an OTLP receiver that keeps the spans and forwards them.
type keeper struct {
	url  string
	http *http.Server
	done chan error
	also []sdktrace.SpanProcessor

	mu    sync.Mutex
	spans []tracetest.SpanStub // guarded by mu
}

func startKeeper(also []sdktrace.SpanProcessor) (*keeper, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	k := &keeper{url: "http://" + ln.Addr().String(), done: make(chan error, 1), also: also}
	k.http = &http.Server{Handler: otlphttp.Handler(k.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { k.done <- k.http.Serve(ln) }()
	return k, nil
}

func (k *keeper) close() error {
	err := k.http.Close()
	if served := <-k.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (k *keeper) take(td ptrace.Traces) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				stub := stubOf(span)
				stub.InstrumentationScope.Name = ss.Scope().Name()
				k.spans = append(k.spans, stub)
				for _, p := range k.also {
					p.OnEnd(stub.Snapshot())
				}
			}
		}
	}
}

// stubOf converts a span to the form of this process's own SDK.
func stubOf(span ptrace.Span) tracetest.SpanStub {
	of := func(id pcommon.SpanID) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(span.TraceID()), SpanID: trace.SpanID(id), TraceFlags: trace.FlagsSampled,
		})
	}
	stub := tracetest.SpanStub{
		Name: span.Name(), SpanKind: trace.SpanKind(span.Kind()),
		SpanContext: of(span.SpanID()), Parent: of(span.ParentSpanID()),
		StartTime: span.StartTimestamp().AsTime(), EndTime: span.EndTimestamp().AsTime(),
		Attributes: attributesOf(span.Attributes()),
		Status:     sdktrace.Status{Description: span.Status().Message()},
	}
	switch span.Status().Code() {
	case ptrace.StatusCodeError:
		stub.Status.Code = codes.Error
	case ptrace.StatusCodeOk:
		stub.Status.Code = codes.Ok
	case ptrace.StatusCodeUnset:
	}
	for _, e := range span.Events().All() {
		stub.Events = append(stub.Events, sdktrace.Event{Name: e.Name(), Time: e.Timestamp().AsTime(), Attributes: attributesOf(e.Attributes())})
	}
	return stub
}

// attributesOf converts attributes of the types that the SDK has; others become text.
func attributesOf(m pcommon.Map) (attrs []attribute.KeyValue) {
	for key, v := range m.All() {
		switch v.Type() {
		case pcommon.ValueTypeBool:
			attrs = append(attrs, attribute.Bool(key, v.Bool()))
		case pcommon.ValueTypeInt:
			attrs = append(attrs, attribute.Int64(key, v.Int()))
		case pcommon.ValueTypeDouble:
			attrs = append(attrs, attribute.Float64(key, v.Double()))
		case pcommon.ValueTypeSlice:
			texts := make([]string, 0, v.Slice().Len())
			for _, e := range v.Slice().All() {
				texts = append(texts, e.AsString())
			}
			attrs = append(attrs, attribute.StringSlice(key, texts))
		default:
			attrs = append(attrs, attribute.String(key, v.AsString()))
		}
	}
	return attrs
}
