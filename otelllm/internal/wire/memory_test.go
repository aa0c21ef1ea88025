package wire

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The memory of an open stream that waits for its next bytes, with everything that the
// decoder holds, is bounded. It is largest in the middle of an event.
func TestRetainedPerOpenStream(t *testing.T) {
	const (
		open  = 500
		limit = 4 << 10
	)
	for name, stream := range benchStreams(40) {
		p, _ := ByName(name)
		ct := sseType
		switch name {
		case ollama{}.Name():
			ct = linesType
		case bedrockConverse{}.Name():
			ct = awsType
		}
		body := []byte(stream[:len(stream)/2])
		decoders := make([]Decoder, open)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range decoders {
			decoders[i] = p.NewDecoder(ct)
			decoders[i].Write(body)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / open
		t.Logf("%s: %d bytes", name, each)
		assert.LessOrEqual(t, each, int64(limit), name)
		runtime.KeepAlive(decoders)
	}
}
