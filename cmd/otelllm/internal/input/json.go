package input

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// readJSON reads the JSON documents of a source, one per line or printed over many lines. A
// document that is not valid is reported, and reading goes on behind it.
func (s *source) readJSON(r io.Reader) error {
	docs := newDocuments(r, MaxDocument)
	for {
		doc, line, err := docs.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errCut):
			s.report(&Problem{Line: line, Err: err, Skipped: true})
			continue
		case errors.Is(err, errText), errors.Is(err, errTooLarge):
			s.report(&Problem{Line: line, Err: err})
			continue
		case err != nil:
			s.report(&Problem{Line: line, Err: readError(err)})
			return nil
		}
		td, err := ReadDocument(doc)
		if err != nil {
			docs.retry(doc, line)
			s.report(&Problem{Line: line, Err: err})
			continue
		}
		if err := s.add(td); err != nil {
			return err
		}
	}
}

var (
	errCut  = errors.New("the document is cut off, as one that is still being written; skipped")
	errText = errors.New("it is not JSON: give OTLP JSON, as the Collector's file exporter writes it with `format: json`, or Jaeger's JSON")
)

// documents splits a text into JSON documents.
type documents struct {
	r    *bufio.Reader
	max  int
	line int // of the next byte
	buf  []byte
}

func newDocuments(r io.Reader, most int) *documents {
	return &documents{r: bufio.NewReaderSize(r, 64<<10), max: most, line: 1}
}

// next returns the next document, which is valid until the next call, and the line on which
// it begins. After errCut, errText and errTooLarge there may be more.
func (d *documents) next() (doc []byte, line int, err error) {
	c, err := d.skipSpace()
	line = d.line
	switch {
	case err != nil:
		return nil, line, err
	case c != '{' && c != '[':
		d.skipLine(c)
		return nil, line, errText
	}
	d.buf = append(d.buf[:0], c)
	depth, inString, escaped := 1, false, false
	for depth > 0 {
		c, err := d.r.ReadByte()
		if errors.Is(err, io.EOF) {
			d.retry(d.buf, line)
			return nil, line, errCut
		}
		if err != nil {
			return nil, line, err
		}
		if c == '\n' {
			d.line++
		}
		if len(d.buf) >= d.max {
			d.skipDocument(c)
			return nil, line, errTooLarge
		}
		d.buf = append(d.buf, c)
		switch {
		case escaped:
			escaped = false
		case inString && c == '\n': // no string of JSON has one: the writer stopped before it
			d.retry(d.buf, line)
			return nil, line, errCut
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return d.buf, line, nil
}

// retry lets the next document begin on the second line of doc that begins like one, if
// there is such a line: what is before it was not written to its end.
func (d *documents) retry(doc []byte, line int) {
	at := bytes.Index(doc, []byte("\n{"))
	if at < 0 {
		return
	}
	d.line = line + bytes.Count(doc[:at+1], []byte("\n"))
	d.r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(doc[at+1:])), d.r), 64<<10)
}

// skipSpace returns the first byte that is not a space.
func (d *documents) skipSpace() (byte, error) {
	for {
		c, err := d.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			d.line++
		case c == ' ' || c == '\t' || c == '\r':
		case c == utf8BOM[0] && d.line == 1:
			if rest, _ := d.r.Peek(2); bytes.Equal(rest, utf8BOM[1:]) {
				_, _ = d.r.Discard(2)
				continue
			}
			return c, nil
		default:
			return c, nil
		}
	}
}

// skipLine skips the rest of a line after c.
func (d *documents) skipLine(c byte) {
	for c != '\n' {
		var err error
		if c, err = d.r.ReadByte(); err != nil {
			return // the next call returns it
		}
	}
	d.line++
}

// skipDocument skips what follows c until a line that begins like a document.
func (d *documents) skipDocument(c byte) {
	for {
		if c == '\n' {
			if next, err := d.r.Peek(1); err != nil || next[0] == '{' {
				return
			}
		}
		var err error
		if c, err = d.r.ReadByte(); err != nil {
			return
		}
		if c == '\n' {
			d.line++
		}
	}
}

// ReadDocument reads one JSON document: OTLP, bare or in the envelope of Jaeger's and Tempo's
// APIs, Jaeger's own, or a record of this program's --json.
func ReadDocument(document []byte) (ptrace.Traces, error) {
	var shape struct {
		ResourceSpans   json.RawMessage `json:"resourceSpans"`
		Result          json.RawMessage `json:"result"`  // Jaeger's API v3
		Batches         json.RawMessage `json:"batches"` // Tempo's API
		Trace           json.RawMessage `json:"trace"`   // Tempo's API v2
		ResourceLogs    json.RawMessage `json:"resourceLogs"`
		ResourceMetrics json.RawMessage `json:"resourceMetrics"`
		Data            json.RawMessage `json:"data"` // Jaeger's API v2, and the download in its UI
		Kind            json.RawMessage `json:"kind"` // a record of this program's --json
	}
	if err := json.Unmarshal(document, &shape); err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); ok {
			return ptrace.Traces{}, fmt.Errorf("not JSON: %w", err)
		}
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
		return ReadDocument(shape.Trace)
	case shape.Data != nil:
		return readJaeger(shape.Data)
	case shape.Kind != nil:
		return readRecord(document)
	case shape.ResourceLogs != nil, shape.ResourceMetrics != nil:
		return ptrace.Traces{}, errors.New("OTLP JSON of logs or metrics: traces are needed, with resourceSpans")
	}
	return ptrace.Traces{}, errors.New("a JSON object without resourceSpans is not OTLP, and one without data is not Jaeger's")
}

// readRecord reads what --json of run and classify writes.
func readRecord(document []byte) (ptrace.Traces, error) {
	var record report.Record
	if json.Unmarshal(document, &record) != nil || record.TraceID == "" {
		return ptrace.Traces{}, errors.New("a JSON object with a kind, and not a record of --json")
	}
	return record.Traces(), nil
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
	return ptrace.Traces{}, errOTLP
}

// errOTLP does not wrap the decoder's error, which quotes what is around the error: a prompt,
// perhaps.
var errOTLP = errors.New("not OTLP JSON: a field of resourceSpans has a wrong type, or an id is not hexadecimal")

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
