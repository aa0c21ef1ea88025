package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
)

// writeLines reads the next bytes of a stream of JSON objects, one per line. A line that
// lies wholly in p is not copied.
func (d *bodyDecoder) writeLines(p []byte) {
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			d.keepLine(p)
			return
		}
		line := p[:end]
		p = p[end+1:]
		if len(d.line) > 0 {
			d.keepLine(line)
			line = d.line
		}
		if !d.cutLine {
			d.payload(nil, line, false)
		}
		d.line, d.cutLine = carry.Reset(d.line), false
	}
}

// keepLine adds b to the unfinished line, unless that becomes too long.
func (d *bodyDecoder) keepLine(b []byte) {
	if d.cutLine {
		return
	}
	why := notDropped
	if len(d.line)+len(b) > MaxEvent {
		why = droppedTooLong
	} else {
		line, ok := carry.Append(d.line, b)
		if d.line = line; !ok {
			why = droppedNoMemory
		}
	}
	if why != notDropped {
		d.eventDropped(why)
		d.line, d.cutLine = carry.Reset(d.line), true
	}
}
