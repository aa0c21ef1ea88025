package eventstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
)

const unlimited = 1 << 30

// header is one header of a message to be encoded.
type header struct {
	name  string
	kind  byte
	value string // its bytes, preceded by their length if the type requires it
}

func str(name, value string) header {
	return header{name, typeString, string(binary.BigEndian.AppendUint16(nil, uint16(len(value)))) + value}
}

// encode is the inverse of the framing.
func encode(payload string, headers ...header) string {
	var h []byte
	for _, x := range headers {
		h = append(h, byte(len(x.name)))
		h = append(h, x.name...)
		h = append(h, x.kind)
		h = append(h, x.value...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(h)+len(payload)+prelude+checksum))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func event(name, payload string) string {
	return encode(payload, str(":event-type", name), str(":content-type", "application/json"), str(":message-type", "event"))
}

type recorder struct {
	got  []string
	stop func()
}

func (r *recorder) Message(m *Message) {
	r.got = append(r.got, fmt.Sprintf("%s|%s|%s|%s|%s", m.Type, m.Event, m.Exception, m.ErrorCode, m.Payload))
	if r.stop != nil {
		r.stop()
	}
}
func (r *recorder) Malformed() { r.got = append(r.got, "malformed") }
func (r *recorder) TooLong()   { r.got = append(r.got, "too long") }
func (r *recorder) NoRoom()    { r.got = append(r.got, "no room") }

// decode feeds in as chunks that end at the given offsets.
func decode(in string, limit int, cuts ...int) []string {
	var r recorder
	d := New(&r, limit)
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
	whole := d.Close()
	d.Write([]byte(event("late", "")))
	if !whole {
		r.got = append(r.got, "cut")
	}
	return r.got
}

func everyByte(in string) []int {
	cuts := make([]int, len(in))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func randomCuts(n int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 1))
	var cuts []int
	for at := 0; at < n; at += r.IntN(60) {
		cuts = append(cuts, at)
	}
	return cuts
}

func TestFraming(t *testing.T) {
	a, b := event("a", "{}"), event("b", `{"x":1}`)
	gotA, gotB := "event|a|||{}", `event|b|||{"x":1}`
	flip := func(s string, i int) string { return s[:i] + string(s[i]^1) + s[i+1:] }
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"a message", a, []string{gotA}},
		{"messages", a + b + a + a, []string{gotA, gotB, gotA, gotA}},
		{"the smallest", encode(""), []string{"||||"}},
		{"headers, then none", a + encode("x") + a, []string{gotA, "||||x", gotA}},
		{"no payload", event("a", ""), []string{"event|a|||"}},
		{"an exception", encode("{}", str(":exception-type", "throttlingException"), str(":message-type", "exception")), []string{"exception||throttlingException||{}"}},
		{"an error", encode("", str(":message-type", "error"), str(":error-code", "500"), str(":error-message", "secret")), []string{"error|||500|"}},
		{
			"headers of every type", encode("x", header{"t", typeTrue, ""}, header{"f", typeFalse, ""}, header{"b", typeByte, "1"}, header{"s", typeInt16, "12"},
				header{"i", typeInt32, "1234"}, header{"l", typeInt64, "12345678"}, header{"d", typeTimestamp, "12345678"}, header{"u", typeUUID, "1234567890123456"},
				header{"y", typeBytes, "\x00\x03abc"}, str(":message-type", "event"), str("", "")),
			[]string{"event||||x"},
		},
		{"a name that is no string", encode("x", header{":event-type", typeBytes, "\x00\x01a"}), []string{"||||x"}},

		{"the prelude's checksum", a + flip(b, 3), []string{gotA, "malformed"}},
		{"the header length", a + flip(b, 7) + a, []string{gotA, "malformed"}},
		{"a byte of a header", a + flip(b, 20), []string{gotA, "malformed"}},
		{"a byte of the payload", flip(b, len(b)-6) + a, []string{"malformed"}},
		{"the checksum", flip(a, len(a)-1), []string{"malformed"}},
		{"a header longer than the headers", encode("x", header{"a", typeString, "\x00\x09b"}), []string{"malformed"}},
		{"a header without a type", raw("\x03abc", "x"), []string{"malformed"}},
		{"a header without a length", raw("\x01a\x07\x00", "x"), []string{"malformed"}},
		{"a header of no type", raw("\x01a\x0a", "x"), []string{"malformed"}},
		{"a message too short", lengths(15, 0), []string{"malformed"}},
		{"headers longer than the message", lengths(20, 5), []string{"malformed"}},
		{"headers far longer than the message", lengths(20, 1<<32-1), []string{"malformed"}},
		{"html", "<!DOCTYPE html><html>", []string{"malformed"}},

		{"cut in the prelude", a + b[:5], []string{gotA, "cut"}},
		{"cut after the prelude", a + b[:12], []string{gotA, "cut"}},
		{"cut in the payload", a + b[:len(b)-6], []string{gotA, "cut"}},
		{"cut before the last byte", b[:len(b)-1], []string{"cut"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, decode(tt.in, unlimited), "in one piece")
			assert.Equal(t, tt.want, decode(tt.in, unlimited, everyByte(tt.in)...), "byte by byte")
			for seed := range uint64(20) {
				assert.Equal(t, tt.want, decode(tt.in, unlimited, randomCuts(len(tt.in), seed)...), "seed %d", seed)
			}
		})
	}
}

// raw returns a message with these bytes as its headers.
func raw(headers, payload string) string {
	b := []byte(lengths(uint32(len(headers)+len(payload)+prelude+checksum), uint32(len(headers))))
	b = append(b, headers+payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// lengths returns a prelude with these lengths.
func lengths(total, headers uint32) string {
	b := binary.BigEndian.AppendUint32(nil, total)
	b = binary.BigEndian.AppendUint32(b, headers)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func TestLimit(t *testing.T) {
	a := encode("12345")
	for _, cuts := range [][]int{nil, everyByte(a + a)} {
		assert.Equal(t, []string{"||||12345", "||||12345"}, decode(a+a, len(a), cuts...))
		assert.Equal(t, []string{"too long"}, decode(a+a, len(a)-1, cuts...))
	}
	// The announced length is enough: nothing is kept.
	assert.Equal(t, []string{"too long"}, decode(lengths(1<<32-1, 0), unlimited))
}

// Headers that are too long to be remembered are read, and so are later ones.
func TestLongHeaders(t *testing.T) {
	long := encode("x", str(":event-type", strings.Repeat("e", 2*maxHeaders)))
	in := long + encode("y") + long + event("a", "") + event("b", "") + encode("z")
	gotLong := "|" + strings.Repeat("e", 2*maxHeaders) + "|||x"
	want := []string{gotLong, "||||y", gotLong, "event|a|||", "event|b|||", "||||z"}
	assert.Equal(t, want, decode(in, unlimited))

	var r recorder
	d := New(&r, unlimited)
	d.Write([]byte(in))
	d.Write([]byte(long + long))
	for _, h := range d.known {
		assert.LessOrEqual(t, cap(h.bytes), maxHeaders, "remembered")
	}
}

// The bound of all streams together limits what is kept of an unfinished message. A message
// that arrives in one piece is not kept.
func TestNoRoom(t *testing.T) {
	others, ok := carry.Append(nil, make([]byte, carry.Most-carry.Held()))
	require.True(t, ok)
	defer carry.Drop(others)
	long := event("a", strings.Repeat("x", 2*carry.Keep))
	whole := "event|a|||" + strings.Repeat("x", 2*carry.Keep)
	assert.Equal(t, []string{whole, whole}, decode(long+long, unlimited, len(long)))
	assert.Equal(t, []string{whole, "no room"}, decode(long+long+long, unlimited, len(long), 2*len(long)-1))
}

func TestStop(t *testing.T) {
	for _, size := range []int{1, 7, 1000} {
		var r recorder
		d := New(&r, unlimited)
		r.stop = d.Stop
		in := []byte(event("a", "{}") + event("b", "{}"))
		for chunk := range chunks(in, size) {
			d.Write(chunk)
		}
		assert.True(t, d.Close())
		assert.Equal(t, []string{"event|a|||{}"}, r.got)
	}
}

func chunks(in []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for at := 0; at < len(in); at += size {
			if !yield(in[at:min(at+size, len(in))]) {
				return
			}
		}
	}
}

type counter struct{ messages int }

func (c *counter) Message(*Message) { c.messages++ }
func (c *counter) Malformed()       { panic("malformed") }
func (c *counter) TooLong()         { panic("too long") }
func (c *counter) NoRoom()          { panic("no room") }

func TestSteadyStateAllocatesNothing(t *testing.T) {
	in := []byte(strings.Repeat(event("contentBlockDelta", `{"delta":{"text":"some words"}}`)+event("x", "{}"), 20))
	for _, size := range []int{len(in), 7, 61} {
		var c counter
		d := New(&c, unlimited)
		run := func() {
			for chunk := range chunks(in, size) {
				d.Write(chunk)
			}
		}
		run()
		assert.Zero(t, testing.AllocsPerRun(10, run), "chunks of %d bytes", size)
	}
}

// reference reads messages in the simplest way, from the whole input at once.
func reference(in []byte, limit int) (got []string) {
	for len(in) > 0 {
		if len(in) < 12 {
			return append(got, "cut")
		}
		total, headers := int(binary.BigEndian.Uint32(in)), int(binary.BigEndian.Uint32(in[4:]))
		if crc32.ChecksumIEEE(in[:8]) != binary.BigEndian.Uint32(in[8:]) || total < 16 || headers > total-16 {
			return append(got, "malformed")
		}
		if total > limit {
			return append(got, "too long")
		}
		if len(in) < total {
			return append(got, "cut")
		}
		values, ok := referenceHeaders(bytes.NewBuffer(in[12 : 12+headers]))
		if !ok || crc32.ChecksumIEEE(in[:total-4]) != binary.BigEndian.Uint32(in[total-4:]) {
			return append(got, "malformed")
		}
		got = append(got, strings.Join([]string{values[":message-type"], values[":event-type"], values[":exception-type"], values[":error-code"], string(in[12+headers : total-4])}, "|"))
		in = in[total:]
	}
	return got
}

func referenceHeaders(b *bytes.Buffer) (map[string]string, bool) {
	values := map[string]string{}
	for b.Len() > 0 {
		n, _ := b.ReadByte()
		name := string(b.Next(int(n)))
		kind, err := b.ReadByte()
		if err != nil || kind > 9 {
			return nil, false
		}
		size := []int{0, 0, 1, 2, 4, 8, 0, 0, 8, 16}[kind]
		if kind == typeBytes || kind == typeString {
			if b.Len() < 2 {
				return nil, false
			}
			size = int(binary.BigEndian.Uint16(b.Next(2)))
		}
		if b.Len() < size {
			return nil, false
		}
		if value := string(b.Next(size)); kind == typeString {
			values[name] = value
		}
	}
	return values, true
}

func FuzzFraming(f *testing.F) {
	f.Add([]byte("\x01a\x04"), []byte("{}"), uint64(1), -1)
	f.Add([]byte("\x0b:event-type\x07\x00\x01a\x0d:message-type\x07\x00\x05event"), []byte(`{"a":1}`), uint64(2), 3)
	f.Add([]byte("\x01t\x00\x01f\x01\x01y\x06\x00\x01x\x01u\x091234567890123456"), []byte(""), uint64(3), 200)
	f.Fuzz(func(t *testing.T, headers, payload []byte, seed uint64, flip int) {
		in := []byte(event("a", "{}") + raw(string(headers), string(payload)) + raw(string(headers), string(payload)) + event("b", "{}"))
		if flip >= 0 {
			in[flip%len(in)] ^= 1 << (seed % 8)
		}
		in = in[:len(in)-int(seed/8%uint64(len(in)))*int(seed%2)]
		for _, limit := range []int{unlimited, 64} {
			want := reference(in, limit)
			assert.Equal(t, want, decode(string(in), limit), "in one piece")
			assert.Equal(t, want, decode(string(in), limit, randomCuts(len(in), seed)...), "in pieces")
		}
		assert.Equal(t, reference(payload, unlimited), decode(string(payload), unlimited, randomCuts(len(payload), seed)...), "bytes that may be anything")
	})
}

func BenchmarkFraming(b *testing.B) {
	in := []byte(strings.Repeat(event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" the connection"},"p":"abcdefghijklmnopqrst"}`), 1000))
	for _, size := range []int{32 << 10, 1 << 10} {
		b.Run(fmt.Sprintf("chunk=%d", size), func(b *testing.B) {
			var c counter
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				d := New(&c, 32<<20)
				for chunk := range chunks(in, size) {
					d.Write(chunk)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(c.messages), "ns/event")
		})
	}
}
