package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/examples/internal/backend"
)

// load reads all input first, so that bad input is reported before anything else is done
// and every trace is judged as a whole, however its spans are spread over the files.
func load(ctx context.Context, o *options, stdin io.Reader) ([]*trace, error) {
	var all collection
	add := func(td ptrace.Traces, err error) error {
		if err == nil {
			all.add(td)
		}
		return err
	}
	var err error
	switch {
	case o.jaeger != "":
		err = add(fromJaeger(ctx, o))
	case o.tempo != "":
		err = add(fromTempo(ctx, o))
	default:
		err = readFiles(o.files, stdin, func(td ptrace.Traces) { all.add(td) })
	}
	if err != nil {
		return nil, err
	}
	if o.trace != "" {
		id, err := backend.ParseTraceID(o.trace)
		if err != nil {
			return nil, err
		}
		return all.only(id)
	}
	return all.list, nil
}

func fromJaeger(ctx context.Context, o *options) (ptrace.Traces, error) {
	id, err := backend.ParseTraceID(o.trace)
	if err != nil {
		return ptrace.Traces{}, err
	}
	jaeger, err := backend.NewJaeger(o.jaeger)
	if err != nil {
		return ptrace.Traces{}, err
	}
	return jaeger.Trace(ctx, id)
}

func fromTempo(ctx context.Context, o *options) (ptrace.Traces, error) {
	id, err := backend.ParseTraceID(o.trace)
	if err != nil {
		return ptrace.Traces{}, err
	}
	tempo, err := backend.NewTempo(o.tempo)
	if err != nil {
		return ptrace.Traces{}, err
	}
	return tempo.Trace(ctx, id)
}

func readFiles(files []string, stdin io.Reader, add func(ptrace.Traces)) error {
	for _, name := range files {
		var raw []byte
		var err error
		if name == "-" {
			name = "standard input"
			raw, err = io.ReadAll(stdin)
		} else {
			raw, err = os.ReadFile(name)
		}
		if err != nil {
			return err
		}
		if err := readDocuments(name, raw, add); err != nil {
			return err
		}
	}
	return nil
}

// readDocuments reads the OTLP JSON documents of one file, one per line or printed over
// many lines.
func readDocuments(name string, raw []byte, add func(ptrace.Traces)) error {
	if err := notText(raw); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	spans := 0
	for line, upTo := 1, 0; ; {
		var document json.RawMessage
		err := decoder.Decode(&document)
		end := int(decoder.InputOffset())
		if err == nil {
			begin := end - len(document)
			line, upTo = line+bytes.Count(raw[upTo:begin], newline), begin
		}
		switch {
		case errors.Is(err, io.EOF) && spans == 0:
			return fmt.Errorf("%s: it contains no spans", name)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			at := end + len(raw[end:]) - len(bytes.TrimLeft(raw[end:], " \t\r\n")) // the start of the document
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = min(int(syntax.Offset), len(raw))
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the document is cut off")
			}
			return fmt.Errorf("%s, line %d: not JSON: %w", name, line+bytes.Count(raw[upTo:max(at, upTo)], newline), err)
		}
		td, err := readDocument(document)
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		spans += td.SpanCount()
		add(td)
	}
}

var newline = []byte("\n")

// notText recognizes files that are often mistaken for JSON.
func notText(raw []byte) error {
	switch {
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		return errors.New("the file is compressed: gunzip it first")
	case bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return errors.New("the file is compressed: unzstd it first")
	case bytes.IndexByte(raw[:min(len(raw), 512)], 0) >= 0:
		return errors.New("the file is binary: expected OTLP JSON, as the Collector's file exporter writes it with `format: json`")
	}
	return nil
}

// readDocument reads OTLP JSON, bare or in the envelope of Jaeger's and Tempo's APIs.
func readDocument(document json.RawMessage) (ptrace.Traces, error) {
	var shape struct {
		ResourceSpans   json.RawMessage `json:"resourceSpans"`
		Result          json.RawMessage `json:"result"`  // Jaeger's API v3
		Batches         json.RawMessage `json:"batches"` // Tempo's API
		Trace           json.RawMessage `json:"trace"`   // Tempo's API v2
		ResourceLogs    json.RawMessage `json:"resourceLogs"`
		ResourceMetrics json.RawMessage `json:"resourceMetrics"`
		Data            json.RawMessage `json:"data"` // Jaeger's API, and the download in its UI
	}
	if err := json.Unmarshal(document, &shape); err != nil {
		return ptrace.Traces{}, errors.New("not OTLP: expected an object with resourceSpans")
	}
	switch {
	case shape.ResourceSpans != nil:
		return readOTLP(document)
	case shape.Result != nil:
		return readOTLP(shape.Result)
	case shape.Batches != nil:
		return readOTLP([]byte(`{"resourceSpans":` + string(shape.Batches) + `}`))
	case shape.Trace != nil:
		return readDocument(shape.Trace)
	case shape.Data != nil:
		return ptrace.Traces{}, errors.New("this is Jaeger's own JSON, not OTLP: read the trace with -jaeger URL -trace ID, or save it from /api/v3/traces/ID")
	case shape.ResourceLogs != nil, shape.ResourceMetrics != nil:
		return ptrace.Traces{}, errors.New("OTLP JSON of logs or metrics: traces are needed, with resourceSpans")
	}
	return ptrace.Traces{}, errors.New("a JSON object without resourceSpans is not OTLP")
}

func readOTLP(document []byte) (ptrace.Traces, error) {
	var decoder ptrace.JSONUnmarshaler
	td, err := decoder.UnmarshalTraces(document)
	if err == nil {
		return td, nil
	}
	// Protobuf's own JSON, which Tempo writes, has the bytes of ids in base64.
	if again, ok := hexIDs(document); ok {
		if td, errAgain := decoder.UnmarshalTraces(again); errAgain == nil {
			return td, nil
		}
	}
	return ptrace.Traces{}, fmt.Errorf("not OTLP JSON: %w", err)
}

// hexIDs rewrites base64 ids to hexadecimal ones. ok is false if there are none.
func hexIDs(document []byte) ([]byte, bool) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	changed := false
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, v := range value {
				walk(v)
			}
		case map[string]any:
			for key, v := range value {
				text, isText := v.(string)
				size := idSizes[key]
				if !isText || size == 0 {
					walk(v)
					continue
				}
				if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) == size {
					value[key] = hex.EncodeToString(raw)
					changed = true
				}
			}
		}
	}
	walk(value)
	again, err := json.Marshal(value)
	return again, changed && err == nil
}

// idSizes are the sizes of ids in bytes.
var idSizes = map[string]int{"traceId": 16, "spanId": 8, "parentSpanId": 8}
