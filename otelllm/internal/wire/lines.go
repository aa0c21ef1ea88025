package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
	"github.com/otelllm/otelllm-go/semconv"
)

// writeLines takes the next bytes of a stream of one JSON object a line. A line
// that lies wholly in p is not copied.
func (d *bodyDecoder) writeLines(p []byte) {
	for d.mode == lined {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			d.keepLine(p)
			return
		}
		line := p[:end]
		p = p[end+1:]
		if len(d.line) > 0 {
			if !d.keepLine(line) {
				return
			}
			line = d.line
		}
		d.payload(nil, line, false)
		d.line = carry.Reset(d.line)
	}
}

// keepLine adds b to the line that is not finished. It reports whether the line is
// within the limit of an event.
func (d *bodyDecoder) keepLine(b []byte) bool {
	if len(d.line)+len(b) > MaxEvent {
		d.violate(semconv.TransportCauseEventTooLong)
		return false
	}
	d.line = carry.Append(d.line, b)
	return true
}
