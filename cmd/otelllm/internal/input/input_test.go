package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// span is one span with attributes of every type.
func span(trace, id byte) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "agent")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("openai")
	s := ss.Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{trace})
	s.SetSpanID(pcommon.SpanID{id})
	s.SetParentSpanID(pcommon.SpanID{9})
	s.SetName("chat gpt")
	s.SetKind(ptrace.SpanKindClient)
	s.SetStartTimestamp(1_700_000_000_000_001_000)
	s.SetEndTimestamp(1_700_000_001_000_001_000)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Attributes().PutStr("gen_ai.operation.name", "chat")
	s.Attributes().PutInt("http.response.status_code", 429)
	s.Attributes().PutDouble("llm.retry.after", 1.5)
	s.Attributes().PutBool("llm.provider_error.in_band", true)
	s.Attributes().PutEmptySlice("llm.history.tool_calls").AppendEmpty().SetStr("call_1")
	s.Attributes().PutEmptySlice("llm.history.tool_outputs")
	e := s.Events().AppendEmpty()
	e.SetName("llm.stream.text_started")
	e.SetTimestamp(1_700_000_000_500_001_000)
	return td
}

func asJSON(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return string(raw)
}

func asProto(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	raw, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return string(raw)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func zstded(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// framed puts a message behind its length, as the Collector's file exporter does.
func framed(messages ...string) string {
	var b []byte
	for _, m := range messages {
		b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
		b = append(b, m...)
	}
	return string(b)
}

// jaegerJSON is span(1, 2) as Jaeger's pages download it.
const jaegerJSON = `{"data":[{"traceID":"1000000000000000000000000000000","spans":[{"traceID":"1000000000000000000000000000000","spanID":"200000000000000",
"operationName":"chat gpt","references":[{"refType":"CHILD_OF","traceID":"1000000000000000000000000000000","spanID":"900000000000000"}],
"startTime":1700000000000001,"duration":1000000,"tags":[{"key":"otel.scope.name","type":"string","value":"openai"},
{"key":"gen_ai.operation.name","type":"string","value":"chat"},{"key":"http.status_code","type":"int64","value":429},
{"key":"llm.retry.after","type":"float64","value":1.5},{"key":"llm.provider_error.in_band","type":"bool","value":true},
{"key":"llm.history.tool_calls","type":"string","value":"[\"call_1\"]"},{"key":"llm.history.tool_outputs","type":"string","value":"[]"},
{"key":"span.kind","type":"string","value":"client"},{"key":"otel.status_code","type":"string","value":"ERROR"},{"key":"error","type":"bool","value":true}],
"logs":[{"timestamp":1700000000500001,"fields":[{"key":"event","type":"string","value":"llm.stream.text_started"}]}],"processID":"p1","warnings":null}],
"processes":{"p1":{"serviceName":"agent","tags":[]}},"warnings":null}],"total":0,"limit":0,"offset":0,"errors":null}`

// readText reads a file with this content.
func readText(t *testing.T, content string, o Options) (all *Traces, problems []*Problem, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	o.Report = func(p *Problem) { problems = append(problems, p) }
	all, err = Read(t.Context(), []string{path}, o)
	return all, problems, err
}

// Every form in which traces are stored gives the same span.
func TestForms(t *testing.T) {
	one, line, raw := span(1, 2), asJSON(t, span(1, 2)), asProto(t, span(1, 2))
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, []byte(line), "", "  "))
	inner := strings.TrimSuffix(strings.TrimPrefix(line, `{"resourceSpans":`), "}")
	tempo := strings.NewReplacer(`"01000000000000000000000000000000"`, `"AQAAAAAAAAAAAAAAAAAAAA=="`, `"0200000000000000"`, `"AgAAAAAAAAA="`,
		`"0900000000000000"`, `"CQAAAAAAAAA="`).Replace(inner)
	want := asJSON(t, one)
	for name, content := range map[string]string{
		"JSON":                                line,
		"JSON, one on each line":              line + "\n" + line + "\n",
		"JSON over many lines, twice":         pretty.String() + "\r\n\n" + pretty.String(),
		"JSON with a byte order mark":         "\xef\xbb\xbf" + line,
		"JSON, gzip":                          gzipped(t, line+"\n"),
		"JSON, zstd":                          zstded(t, line+"\n"),
		"JSON, two members of gzip":           gzipped(t, line+"\n") + gzipped(t, line+"\n"),
		"Jaeger's API v3":                     `{"result":` + line + `}`,
		"Tempo's API":                         `{"batches":` + tempo + `}`,
		"Tempo's API v2":                      `{"trace":{"resourceSpans":` + tempo + `}}`,
		"Jaeger's JSON":                       jaegerJSON,
		"Jaeger's JSON, gzip":                 gzipped(t, jaegerJSON),
		"protobuf":                            raw,
		"protobuf, two requests":              raw + raw,
		"protobuf, gzip":                      gzipped(t, raw),
		"protobuf, zstd":                      zstded(t, raw),
		"file exporter, protobuf":             framed(raw, raw),
		"file exporter, protobuf, zstd":       framed(zstded(t, raw), zstded(t, raw)),
		"file exporter, JSON, zstd":           framed(zstded(t, line)),
		"file exporter, zstd around it all":   zstded(t, framed(raw)),
		"file exporter, protobuf, zstd, gzip": gzipped(t, framed(zstded(t, raw))),
	} {
		t.Run(name, func(t *testing.T) {
			all, problems, err := readText(t, content, Options{})
			require.NoError(t, err)
			assert.Empty(t, problems)
			require.Len(t, all.List, 1)
			assert.Equal(t, 1, all.List[0].Spans, "a span that comes twice is one")
			got := all.List[0].Data
			if strings.HasPrefix(name, "Jaeger's JSON") { // it has the status under another key, too
				got.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().Remove("http.status_code")
			}
			sortAttributes(got)
			sorted := ptrace.NewTraces()
			one.CopyTo(sorted)
			sortAttributes(sorted)
			assert.Equal(t, asJSON(t, sorted), asJSON(t, got))
			assert.Equal(t, want, asJSON(t, one))
		})
	}
}

// sortAttributes removes what forms may order differently.
func sortAttributes(td ptrace.Traces) {
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	raw := s.Attributes().AsRaw()
	s.Attributes().Clear()
	_ = s.Attributes().FromRaw(map[string]any{})
	for _, key := range []string{
		"gen_ai.operation.name", "http.response.status_code", "http.status_code", "llm.retry.after", "llm.provider_error.in_band",
		"llm.history.tool_calls", "llm.history.tool_outputs",
	} {
		if v, ok := raw[key]; ok {
			_ = s.Attributes().PutEmpty(key).FromRaw(v)
		}
	}
}

// What is wrong with a file is said, and the rest of it is read.
func TestProblems(t *testing.T) {
	line, other, raw := asJSON(t, span(1, 2)), asJSON(t, span(3, 4)), asProto(t, span(1, 2))
	for name, tt := range map[string]struct {
		content string
		says    []string // a problem that is only skipped begins with "skipped: "
		spans   int
	}{
		"empty":                           {"", []string{"skipped: in: it has no spans"}, 0},
		"blank":                           {" \n\t\n", []string{"skipped: in: it has no spans"}, 0},
		"no span":                         {`{"resourceSpans":[]}`, []string{"skipped: in: it has no spans"}, 0},
		"empty gzip":                      {gzipped(t, ""), []string{"skipped: in: it has no spans"}, 0},
		"a last line that is half":        {line + "\n" + other[:60], []string{"skipped: in, line 2: the document is cut off"}, 1},
		"half of a string":                {line + "\n" + `{"resourceSpans":[{"resource":{"att`, []string{"skipped: in, line 2: the document is cut off"}, 1},
		"a half line, and the next start": {line[:60] + "\n" + other + "\n" + line, []string{"skipped: in, line 1: the document is cut off"}, 2},
		"a half string, and the next":     {`{"resourceSp` + "\n" + other, []string{"skipped: in, line 1: the document is cut off"}, 1},
		"not JSON, between":               {line + "\n{oops}\n" + other, []string{"in, line 2: not JSON: invalid character 'o'"}, 2},
		"text":                            {"hello\n" + line, []string{"in, line 1: it is not JSON: give OTLP JSON"}, 1},
		"another object":                  {`{"spans":[]}` + "\n" + line, []string{"in, line 1: a JSON object without resourceSpans is not OTLP"}, 1},
		"no object":                       {"\n\n[1]", []string{"in, line 3: not OTLP: expected an object with resourceSpans"}, 0},
		"logs":                            {`{"resourceLogs":[]}`, []string{"traces are needed"}, 0},
		"not an id":                       {strings.Replace(line, "0200000000000000", "zz", 1), []string{"line 1: not OTLP JSON"}, 0},
		"Jaeger's, but not":               {`{"data":{"a":1}}`, []string{"not Jaeger's JSON"}, 0},
		"Jaeger's, without ids":           {`{"data":[{"traceID":"1","spans":[{"traceID":"x","spanID":"1"}]}]}`, []string{"span 1 of trace 1: not Jaeger's JSON"}, 0},
		"protobuf, cut":                   {raw + raw[:len(raw)/2], []string{"skipped: in: the last resource spans are cut off"}, 1},
		"a message, cut":                  {framed(raw) + framed(raw)[:40], []string{"skipped: in: the last message is cut off"}, 1},
		"gzip, cut":                       {gzipped(t, strings.Repeat(line+"\n", 50))[:200], []string{"cut off"}, 0},
		"gzip, damaged":                   {"\x1f\x8b\x07" + strings.Repeat("x", 50), []string{"it cannot be read"}, 0},
		"binary":                          {"\xff\xfe\x00\x01\x02\x03", []string{"it is binary, and neither OTLP protobuf nor gzip nor zstd"}, 0},
		"another binary":                  {"\x00\x00\x00\x08\x00\x01\x02\x03\x04\x05\x06\x07", []string{"it is not OTLP protobuf"}, 0},
		"another protobuf":                {"\x0a\x02\xff\xff\x01\x02", []string{"it is not OTLP protobuf"}, 0},
		"many problems": {
			strings.Repeat("{oops}\n", 100) + line,
			[]string{"line 1: ", "line 2: ", "line 3: ", "line 4: ", "line 5: ", "in: 95 more such problems"},
			1,
		},
		"compressed again and again": {gzipped(t, gzipped(t, gzipped(t, gzipped(t, line)))), []string{"it is compressed too often"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all, problems, err := readText(t, tt.content, Options{})
			require.NoError(t, err)
			spans := 0
			for _, trace := range all.List {
				spans += trace.Spans
			}
			assert.Equal(t, tt.spans, spans)
			var said []string
			for _, p := range problems {
				p.Source = filepath.Base(p.Source)
				text := p.Error()
				if p.Skipped {
					text = "skipped: " + text
				}
				said = append(said, text)
			}
			require.Len(t, said, len(tt.says), said)
			for i, want := range tt.says {
				assert.Contains(t, said[i], want)
			}
		})
	}
}

// An error has nothing of what is in the file.
func TestProblemsHaveNoContent(t *testing.T) {
	secret := "CANARY7c1f"
	for _, content := range []string{
		secret, `{"` + secret + `":1}`, `{"resourceSpans":"` + secret + `"}`, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + secret + `"}]}]}]}`,
		`{"data":"` + secret + `"}`, `{"data":[{"spans":[{"traceID":"` + secret + `"}]}]}`, "\x0a\x0b" + secret + "\x00", secret + "\x00",
	} {
		_, problems, err := readText(t, content, Options{})
		require.NoError(t, err)
		require.NotEmpty(t, problems, content)
		for _, p := range problems {
			assert.NotContains(t, p.Error(), secret)
		}
	}
}

func TestSources(t *testing.T) {
	line := asJSON(t, span(1, 2))
	dir := t.TempDir()
	var problems []string
	all, err := Read(t.Context(), []string{dir, filepath.Join(dir, "none"), "-", "jaeger+ftp://h/1", "tempo://h/xyz", "jaeger:///1"}, Options{
		Stdin: strings.NewReader(line), Report: func(p *Problem) { problems = append(problems, p.Error()) },
	})
	require.NoError(t, err)
	assert.Len(t, all.List, 1, "standard input")
	require.Len(t, problems, 5)
	assert.Contains(t, problems[0], "it is a folder without files")
	assert.Contains(t, problems[1], "no such file or directory")
	assert.Contains(t, problems[2], "jaeger:// for HTTP, or jaeger+https:// for HTTPS")
	assert.Contains(t, problems[3], "is not a trace id")
	assert.Contains(t, problems[4], "write jaeger://host:port/TRACEID")
}

func TestBackends(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/api/v3/traces/01000000000000000000000000000000":
			_, _ = io.WriteString(w, `{"result":`+asJSON(t, span(1, 2))+`}`)
		case "/api/traces/01000000000000000000000000000000":
			_, _ = io.WriteString(w, asProto(t, span(1, 2)))
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	var problems []string
	report := func(p *Problem) { problems = append(problems, p.Error()) }
	for _, source := range []string{"jaeger://" + host + "/base/01000000000000000000000000000000", "tempo+http://" + host + "/1000000000000000000000000000000"} {
		all, err := Read(t.Context(), []string{source}, Options{Report: report})
		require.NoError(t, err)
		require.Empty(t, problems)
		assert.Len(t, all.List, 1, source)
	}
	_, err := Read(t.Context(), []string{"tempo://user:secret@" + host + "/ff", "jaeger+https://" + host + "/ff"}, Options{Report: report})
	require.NoError(t, err)
	require.Len(t, problems, 2)
	assert.Contains(t, problems[0], "the backend has no such trace")
	assert.NotContains(t, strings.Join(problems, ""), "secret")
	assert.Contains(t, problems[1], "ask Jaeger")
}

// repeated is a file that is far larger than memory.
type repeated struct {
	text string
	left int64
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	r.left -= int64(n)
	return n, nil
}

func TestBounds(t *testing.T) {
	t.Run("spans", func(t *testing.T) {
		var b strings.Builder
		for i := range byte(100) {
			b.WriteString(asJSON(t, span(i+1, 2)) + "\n")
		}
		_, _, err := readText(t, b.String(), Options{MaxBytes: 10_000})
		require.ErrorIs(t, err, ErrTooMuch)
		all, _, err := readText(t, b.String(), Options{MaxBytes: 10_000, Only: pcommon.TraceID{7}})
		require.NoError(t, err)
		require.Len(t, all.List, 1, "one trace of many takes its own memory")
	})
	t.Run("a document", func(t *testing.T) {
		docs := newDocuments(io.MultiReader(strings.NewReader(`{"a":"`), &repeated{text: "x\\n", left: 5000}, strings.NewReader("\"}\n{\"b\":1}")), 1000)
		_, line, err := docs.next()
		require.ErrorIs(t, err, errTooLarge)
		assert.Equal(t, 1, line)
		doc, line, err := docs.next()
		require.NoError(t, err)
		assert.JSONEq(t, `{"b":1}`, string(doc))
		assert.Equal(t, 2, line)
	})
	t.Run("a length that nothing follows", func(t *testing.T) {
		raw, err := readN(strings.NewReader("abc"), nil, MaxDocument)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Less(t, cap(raw), 4096)
	})
	t.Run("what expands without end", func(t *testing.T) {
		e := &expanded{r: &repeated{text: " ", left: 1 << 40}, left: 1 << 16}
		n, err := io.Copy(io.Discard, e)
		require.ErrorIs(t, err, errExpanded)
		assert.EqualValues(t, 1<<16, n)
	})
	t.Run("a bomb", func(t *testing.T) {
		var bomb bytes.Buffer
		w := gzip.NewWriter(&bomb)
		_, err := io.Copy(w, io.MultiReader(strings.NewReader(`{"resourceSpans":"`), &repeated{text: "x", left: 10 << 20}))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		z, err := gzip.NewReader(&bomb)
		require.NoError(t, err)
		docs := newDocuments(z, 1<<20)
		_, _, err = docs.next()
		require.ErrorIs(t, err, errTooLarge)
		assert.LessOrEqual(t, cap(docs.buf), 2<<20)
	})
	t.Run("an interrupt", func(t *testing.T) {
		ctx := canceled{t.Context()}
		_, err := Read(ctx, []string{"-"}, Options{Stdin: strings.NewReader(asJSON(t, span(1, 2))), Report: func(*Problem) {}})
		require.ErrorIs(t, err, errCanceled)
	})
}

var errCanceled = errors.New("canceled")

type canceled struct{ context.Context }

func (canceled) Err() error { return errCanceled }

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000"}]}]}]}`))
	f.Add([]byte(`{"batches":[{"scopeSpans":[{"spans":[{"traceId":"AQAAAAAAAAAAAAAAAAAAAA=="}]}]}]}`))
	f.Add([]byte("{\"trace\":{\"trace\":{}}}\n{"))
	f.Add([]byte(jaegerJSON))
	raw, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(span(1, 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(framed(string(raw))))
	f.Fuzz(func(t *testing.T, content []byte) {
		said := 0
		all, err := Read(t.Context(), []string{"-"}, Options{Stdin: bytes.NewReader(content), MaxBytes: 1 << 20, Report: func(*Problem) { said++ }})
		if err == nil && len(all.List) == 0 && said == 0 {
			t.Fatal("no span, and nothing was said")
		}
	})
}
