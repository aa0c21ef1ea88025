package wire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A released decoder decodes the next stream as a new one does, and the slices of its
// former state stay valid.
func TestRelease(t *testing.T) {
	for name, stream := range benchStreams(3) {
		t.Run(name, func(t *testing.T) {
			p, ok := ByName(name)
			require.True(t, ok)
			fresh := *decode(p, sseType, stream)
			for range 100 { // under the race detector a pool drops some
				cut := p.NewDecoder(sseType)
				cut.Write([]byte(stream[:2*len(stream)/3]))
				kept := *cut.State()
				calls, reasons := append([]Call(nil), kept.Calls...), append([]string(nil), kept.FinishReasons...)
				cut.Release()

				again := p.NewDecoder(sseType)
				require.Equal(t, *p.NewDecoder(sseType).State(), *again.State())
				again.Write([]byte(stream))
				again.Close()
				require.Equal(t, fresh, *again.State())
				assert.Equal(t, calls, append([]Call(nil), kept.Calls...))
				assert.Equal(t, reasons, append([]string(nil), kept.FinishReasons...))
				again.Release()
			}
		})
	}
}

// A decoder keeps little memory for the next response, however much one response needs.
func TestReleaseKeepsLittle(t *testing.T) {
	d := chatDecoders.get(sseType, 0)
	for i := range 2 * maxOpen {
		text := fmt.Sprintf(`data: {"id":"%0*d","choices":[{"index":%d,"delta":{"content":"a","tool_calls":[{"index":0,"function":{"arguments":"b"}}]}}]}`+"\n\n", i%1500, i, i)
		d.Write([]byte(text))
	}
	d.Release()
	kept := cap(d.reader.choices.list) + cap(d.reader.open.list)
	for _, sh := range d.fast.shapes {
		if sh != nil {
			kept += cap(sh.literal)
		}
	}
	assert.LessOrEqual(t, kept, maxLiterals+32)
}
