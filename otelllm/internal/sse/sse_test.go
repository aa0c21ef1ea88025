package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
)

// recorder records what a decoder delivers, one entry per call.
type recorder struct{ got []string }

func (r *recorder) Event(ev Event) {
	s := fmt.Sprintf("%s|%s", ev.Name, ev.Data)
	if ev.Unterminated {
		s += "|cut"
	}
	r.got = append(r.got, s)
}
func (r *recorder) Take([]byte) int { return 0 }
func (r *recorder) Comment()        { r.got = append(r.got, ":") }
func (r *recorder) Stray(line []byte, first bool) {
	word := "more "
	if first {
		word = "stray "
	}
	r.got = append(r.got, word+string(line))
}

func (r *recorder) Dropped(tooLong bool) {
	if tooLong {
		r.got = append(r.got, "too long")
	} else {
		r.got = append(r.got, "no room")
	}
}

// decode feeds in as chunks that end at the given offsets.
func decode(in string, limit int, cuts ...int) []string {
	return decodeInto(&recorder{}, in, limit, cuts...)
}

// written is a sink that records.
type written interface {
	Sink
	entries() []string
}

func (r *recorder) entries() []string { return r.got }

func decodeInto(r written, in string, limit int, cuts ...int) []string {
	d := New(r, limit)
	at := 0
	for _, cut := range append(cuts, len(in)) {
		// A copy, overwritten afterwards: bytes that are retained show.
		p := []byte(in[at:cut])
		d.Write(p)
		for i := range p {
			p[i] = '#'
		}
		at = cut
	}
	d.Close()
	return r.entries()
}

func everyByte(in string) []int {
	cuts := make([]int, 0, len(in))
	for i := range len(in) {
		cuts = append(cuts, i)
	}
	return cuts
}

const unlimited = 1 << 20

func TestFraming(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"blank lines", "\n\n\r\n\r", nil},
		{"one event", "data: a\n\n", []string{"|a"}},
		{"named", "event: x\ndata: a\n\n", []string{"x|a"}},
		{"name after data", "data: a\nevent: x\n\n", []string{"x|a"}},
		{"last name counts", "event: x\nevent: y\ndata: a\n\n", []string{"y|a"}},
		{"the name does not outlive its event", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		{"name alone", "event: ping\n\n", []string{"ping|"}},
		{"empty data", "data:\n\ndata\n\ndata: \n\n", []string{"|", "|", "|"}},
		{"one space belongs to the colon", "data:  a \n\n", []string{"| a "}},
		{"no space", "data:a:b\n\n", []string{"|a:b"}},
		{"several data lines", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}},
		{"crlf", "event: x\r\ndata: a\r\ndata: b\r\n\r\n", []string{"x|a\nb"}},
		{"cr", "event: x\rdata: a\rdata: b\r\rdata: c\r\r", []string{"x|a\nb", "|c"}},
		{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\n", []string{"|a\nb\nc"}},
		{"lf cr is two ends", "data: a\n\rdata: b\n\r", []string{"|a", "|b"}},
		{"comment", ": hi\n\n:\ndata: a\n: in between\ndata: b\n\n", []string{":", ":", ":", "|a\nb"}},
		{"other fields", "id: 1\nretry: 10\nfoo\ndatax: 1\ndat: 2\nevents: 3\n id: 4\n data\ndata: a\n\n", []string{"|a"}},
		{"indented fields", " data: a\n\n\t event: x\n  data:b\n\n", []string{"|a", "x|b"}},
		{"indented fields without a value", " data:\n\n\tevent:\n\n", []string{"|", "|"}},
		{"an indented field after a stray object", "{\n data: a\n\n", []string{"stray {", "|a"}},
		{"events one line end apart", "data: {1}\ndata: {2}\ndata: [DONE]\n", []string{"|{1}", "|{2}", "|[DONE]|cut"}},
		{"events one line end apart, of several blanks", "data: {1} \ndata:\t{2}\n\n", []string{"|{1} ", "|\t{2}"}},
		{"named events one line end apart", "event: x\ndata: {1}\nevent: y\ndata: {2}\nevent: z\n\ndata: {3}\ndata: {4}\n\n", []string{"x|{1}", "z|{2}", "|{3}", "|{4}"}},
		{"a word before an event one line end apart", "data: oops\ndata: {1}\n\n", []string{"|oops", "|{1}"}},
		{"a word after an event one line end apart", "data: {1}\ndata: oops\n\n", []string{"|{1}\noops"}},
		{"an object over several lines", "data: {\ndata: \"a\":\ndata: [\ndata: {},\ndata:\ndata: {}\ndata: ]}\n\n", []string{"|{\n\"a\":\n[\n{},\n\n{}\n]}"}},
		{"only other fields", "id: 1\n\n", nil},
		{"stray object", "{\"error\":1}\n\ndata: a\n{\n\n", []string{"stray {\"error\":1}", "stray {", "|a"}},
		{"stray object on several lines", "{\n  \"a\": 1,\n\t\"b\"\n}\n\n  x\n}\ndata: a\n\n", []string{"stray {", "more   \"a\": 1,", "more \t\"b\"", "more }", "|a"}},
		{"an event ends a stray object", "{\ndata: a\n\n  x\n{\n: c\n}\n{\nretry\n}\n", []string{"stray {", "|a", "stray {", ":", "stray {"}},
		{"stray object at the end", "{\"error\":1}", []string{"stray {\"error\":1}"}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		{"byte order mark alone", "\xEF\xBB\xBF", nil},
		{"half a byte order mark", "\xEF\xBB", nil},
		{"no byte order mark after all", "\xEF\xBBdata: a\n\ndata: b\n\n", []string{"|b"}},
		{"byte order mark later", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", []string{"|a"}},
		{"no blank line at the end", "data: a\n\ndata: b\n", []string{"|a", "|b|cut"}},
		{"no line end at the end", "event: x\ndata: a", []string{"x|a|cut"}},
		{"cr at the end", "data: a\r\r", []string{"|a"}},
		{"cut in a field name", "data: a\nda", []string{"|a|cut"}},
		{"cut in a comment", "data: a\n\n: b", []string{"|a", ":"}},
		{"NUL and bytes that are no UTF-8", "data: \x00\xFF\n\n", []string{"|\x00\xFF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, decode(tt.in, unlimited), "in one piece")
			assert.Equal(t, tt.want, decode(tt.in, unlimited, everyByte(tt.in)...), "byte by byte")
			for cut := range len(tt.in) {
				assert.Equal(t, tt.want, decode(tt.in, unlimited, cut), "cut at %d", cut)
				assert.Equal(t, tt.want, decode(tt.in, unlimited, cut, cut), "nothing written at %d", cut)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"line at the limit", "data: 4567\n\ndata: b\n\n", 10, []string{"|4567", "|b"}},
		{"line past it", "data: a\n\ndata: 45678\n\ndata: b\n\n", 10, []string{"|a", "too long", "|b"}},
		{"line without end", "data: a\n\ndata: 4567890", 10, []string{"|a", "too long"}},
		{"line without end, and more", "data: 45678901\ndata: c\n\ndata: b\n\n", 10, []string{"too long", "|b"}},
		{"comment past it", "data: a\n: 3456789012\n\n", 10, []string{"|a"}},
		{"what is no field past it", "x3456789012\ndata: a\n\n", 10, []string{"|a"}},
		{"stray object past it", "data: a\n\n{3456789012\ndata: b\n\n", 10, []string{"|a", "too long", "|b"}},
		{"data lines add up", "data: 4567\ndata: 8\n\n", 10, []string{"too long"}},
		{"data lines within it", "data: 4\ndata: 6\n\n", 10, []string{"|4\n6"}},
		{"name and data add up", "event: a\ndata: 567\n\n", 10, []string{"a|567"}},
		{"name and data past it", "event: ab\ndata: 567\n\n", 10, []string{"too long"}},
		{"name line past it", "event: 8901\ndata: \n\n", 10, []string{"too long"}},
		{"a name after data adds up", "data: a\nevent: b\ndata: cd\n\n", 10, []string{"b|a\ncd"}},
		{"a name after data past it", "data: a\nevent: b\ndata: cde\n\n", 10, []string{"too long"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, decode(tt.in, tt.limit), "in one piece")
			assert.Equal(t, tt.want, decode(tt.in, tt.limit, everyByte(tt.in)...), "byte by byte")
			for cut := range len(tt.in) {
				assert.Equal(t, tt.want, decode(tt.in, tt.limit, cut), "cut at %d", cut)
			}
		})
	}
}

func TestLimitHoldsWhileALineGrows(t *testing.T) {
	var r recorder
	d := New(&r, 1000)
	d.Write([]byte("event: x\ndata: " + strings.Repeat("y", 400) + "\n"))
	chunk := bytes.Repeat([]byte("data"), 25)
	for range 100 {
		d.Write(chunk)
		assert.LessOrEqual(t, len(d.name)+len(d.data)+len(d.line), 1000)
		assert.LessOrEqual(t, cap(d.line), 2048)
	}
	assert.Equal(t, []string{"too long"}, r.got)
}

// After the call in which the sink stops the decoder there is no other, whichever it is.
func TestStopFromTheSink(t *testing.T) {
	const (
		in    = "data: a\n\n: c\ndata: {1}\nevent: x\ndata: {2}\n\n{\n }\n\ndata: 678901234567890\ndata: a\n\ndata: b\n\ndata: c\n: d\n"
		limit = 15
	)
	want := decode(in, limit)
	require.Equal(t, []string{"|a", ":", "|{1}", "x|{2}", "stray {", "more  }", "too long", "|b", ":", "|c|cut"}, want)
	for calls := range len(want) {
		for size := range len(in) {
			s := &stopper{left: calls + 1}
			s.d = New(s, limit)
			for at := 0; at < len(in); at += size + 1 {
				s.d.Write([]byte(in[at:min(at+size+1, len(in))]))
			}
			s.d.Close()
			require.Equal(t, want[:calls+1], s.got, "chunks of %d", size+1)
		}
	}
}

// stopper stops its decoder in the call that leaves none.
type stopper struct {
	recorder

	d    *Decoder
	left int
}

func (s *stopper) called() {
	if s.left--; s.left == 0 {
		s.d.Stop()
	}
}

func (s *stopper) Event(ev Event)                { s.recorder.Event(ev); s.called() }
func (s *stopper) Comment()                      { s.recorder.Comment(); s.called() }
func (s *stopper) Stray(line []byte, first bool) { s.recorder.Stray(line, first); s.called() }
func (s *stopper) Dropped(tooLong bool)          { s.recorder.Dropped(tooLong); s.called() }

// The memory of a long event is not held for the rest of the stream.
func TestLongBufferIsLetGo(t *testing.T) {
	var r recorder
	d := New(&r, unlimited)
	long := "data: " + strings.Repeat("x", 4*carry.Keep)
	d.Write([]byte(long[:100]))
	d.Write([]byte(long[100:]))
	d.Write([]byte("\n"))
	d.Write([]byte("\ndata: a\nda"))
	require.Len(t, r.got, 1)
	assert.LessOrEqual(t, cap(d.line), carry.Keep)
	assert.LessOrEqual(t, cap(d.dataBuf), carry.Keep)
}

// Neither is that of a long line that is not part of an event.
func TestLongLineIsLetGo(t *testing.T) {
	for _, line := range []string{": ", "id: ", "nothing: "} {
		var r recorder
		d := New(&r, unlimited)
		d.Write([]byte(line + strings.Repeat("x", 2*carry.Keep)))
		d.Write([]byte("xx\n\ndata: a\n\n"))
		assert.Contains(t, r.got, "|a")
		assert.LessOrEqual(t, cap(d.line), carry.Keep)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	in := []byte(strings.Repeat("event: message\ndata: {\"delta\":\"some words\"}\n\n: ping\n\ndata: a\ndata: b\n\n", 20))
	for _, size := range []int{len(in), 7, 61} {
		var c counter
		d := New(&c, unlimited)
		run := func() {
			for at := 0; at < len(in); at += size {
				d.Write(in[at:min(at+size, len(in))])
			}
		}
		run()
		assert.Zero(t, testing.AllocsPerRun(10, run), "chunks of %d bytes", size)
	}
}

type counter struct{ events, bytes int }

func (c *counter) Event(ev Event)     { c.events++; c.bytes += len(ev.Data) }
func (c *counter) Take([]byte) int    { return 0 }
func (c *counter) Comment()           {}
func (c *counter) Stray([]byte, bool) {}
func (c *counter) Dropped(bool)       {}

// reference is the framing in the simplest way, on the whole input at once.
func reference(in string) []string {
	in = strings.TrimPrefix(in, bom)
	if in == bom[:1] || in == bom[:2] {
		return nil // half a byte order mark and the end: a field without a meaning
	}
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	var got []string
	var name, later *string // the event line before the data, and the one after
	var data []string
	dispatch := func(name *string, suffix string) {
		if name != nil {
			got = append(got, *name+"|"+strings.Join(data, "\n")+suffix)
		} else if len(data) > 0 {
			got = append(got, "|"+strings.Join(data, "\n")+suffix)
		}
		data = nil
	}
	blank := func(suffix string) {
		if later != nil {
			name = later
		}
		dispatch(name, suffix)
		name, later = nil, nil
	}
	stray := false
	for i, line := range lines {
		if trimmed := strings.TrimLeft(line, " \t"); strings.HasPrefix(trimmed, "data:") || strings.HasPrefix(trimmed, "event:") {
			line = trimmed
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		stray = stray && line != "" && strings.Contains(" \t}]\"", line[:1])
		switch {
		case line == "" && i == len(lines)-1: // what follows the last line end is not a line
		case line == "":
			blank("")
		case stray:
			got = append(got, "more "+line)
		case field == "":
			got = append(got, ":")
		case field == "data":
			begins := strings.TrimLeft(value, " \t")
			ends := strings.TrimRight(strings.Join(data, "\n"), " \t\n")
			if ends != "" && begins != "" && strings.Contains("{[", begins[:1]) && !strings.Contains("{[,:", ends[len(ends)-1:]) {
				dispatch(name, "")
				name, later = later, nil
			}
			data = append(data, value)
		case field == "event" && len(data) > 0:
			later = &value
		case field == "event":
			name = &value
		case line[0] == '{':
			got = append(got, "stray "+line)
			stray = true
		}
	}
	blank("|cut")
	return got
}

func FuzzFraming(f *testing.F) {
	f.Add("event: x\r\ndata: a\rdata: b\n\n: c\n\ndata", uint64(1))
	f.Add("\xEF\xBB\xBFdata\n\r\n{}\r\r", uint64(2))
	f.Add("\xEF\xBBdata: a\n\n", uint64(3))
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		want := reference(in)
		assert.Equal(t, want, decode(in, unlimited), "in one piece")
		assert.Equal(t, want, decode(in, unlimited, randomCuts(len(in), seed)...), "in pieces")
		assert.Equal(t, want, decodeInto(&taker{every: 1 + seed%3}, in, unlimited, randomCuts(len(in), seed)...), "with a sink that takes some itself")
		limit := 1 + int(seed%40)
		assert.Equal(t, decode(in, limit), decode(in, limit, everyByte(in)...), "limit %d", limit)
	})
}

// taker takes plain events itself, one in every n.
type taker struct {
	recorder

	every, asked uint64
}

func (s *taker) Take(p []byte) int {
	head, _, whole := strings.Cut(string(p), "\n\n")
	end := 2
	if crlf, _, ok := strings.Cut(string(p), "\r\n\r\n"); ok && !strings.ContainsAny(crlf, "\r\n") {
		head, whole, end = crlf, true, 4
	}
	name, data, named := strings.Cut(head, "\n")
	if !named {
		name, data = "", head
	}
	name, isName := strings.CutPrefix(name, "event: ")
	data, isData := strings.CutPrefix(data, "data: ")
	if s.asked++; s.asked%s.every != 0 || !whole || !isData || named && !isName || strings.ContainsAny(head, "\r") || strings.ContainsAny(data, "\n") {
		return 0
	}
	s.Event(Event{Name: []byte(name), Data: []byte(data)})
	return len(head) + end
}

func TestTaker(t *testing.T) {
	const in = ": a\n\nevent: x\ndata: 1\n\ndata: 2\n\n{\"error\":\ndata: 3\n\n }\n\ndata: 4\ndata: 5\n\ndata: 6\r\n\r\ndata: 6b\r\n\r\n\rdata: 7\n\nevent: y\n\ndata: 8"
	want := reference(in)
	for every := range uint64(4) {
		for size := range len(in) {
			s := &taker{every: every + 1}
			require.Equal(t, want, decodeInto(s, in, unlimited, cutsOf(len(in), size+1)...), "chunks of %d", size+1)
			require.NotZero(t, s.asked)
		}
	}
	s := &taker{every: 1}
	assert.Equal(t, decode("data: 12345678\n\n", 9), decodeInto(s, "data: 12345678\n\n", 9), "longer than the limit")
}

func cutsOf(n, size int) []int {
	var cuts []int
	for at := size; at < n; at += size {
		cuts = append(cuts, at)
	}
	return cuts
}

func randomCuts(n int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 1))
	var cuts []int
	for at := 0; at < n; at += r.IntN(9) {
		cuts = append(cuts, at)
	}
	return cuts
}

func BenchmarkFraming(b *testing.B) {
	payload := `{"type":"response.output_text.delta","item_id":"msg_0001","output_index":0,"content_index":0,"delta":" word"}`
	for _, bm := range []struct{ name, event string }{
		{"data", "data: " + payload + "\n\n"},
		{"event+data", "event: response.output_text.delta\ndata: " + payload + "\n\n"},
		{"crlf", "data: " + payload + "\r\n\r\n"},
	} {
		for _, size := range []int{32 << 10, 1 << 10} {
			b.Run(fmt.Sprintf("%s/chunk=%d", bm.name, size), func(b *testing.B) {
				in := []byte(strings.Repeat(bm.event, 1000))
				var c counter
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					d := New(&c, 32<<20)
					for at := 0; at < len(in); at += size {
						d.Write(in[at:min(at+size, len(in))])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(c.events), "ns/event")
			})
		}
	}
}
