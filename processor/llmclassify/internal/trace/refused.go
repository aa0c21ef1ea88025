package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Refuse notes that a call with spans of a trace was refused. Its sender sends it again, or has lost it. Runs of the trace
// that wait for Config.Settle wait on, for Config.MaxHold at most, and a run that announces no numbers lacks parts from
// here on.
func (b *Buffer) Refuse(now time.Time, trace pcommon.TraceID) {
	b.judged.Refuse(trace)
	if t := b.traces[trace]; t != nil {
		t.patient = b.age(now.Add(b.cfg.MaxHold))
		t.doubt |= Refused
	}
}

// waitLonger lets settled runs and roots wait for Config.Settle once more while the trace is patient. Complete runs do not
// wait.
func (b *Buffer) waitLonger(t *Trace, now age) {
	if now >= t.patient {
		return
	}
	var longer []settling
	for len(t.settling) > 0 && t.settling[0].until <= now {
		s := t.settling[0]
		if s.why == Complete && s.span.Role == Run {
			break
		}
		t.settling = t.settling[1:]
		s.until = now + age(b.cfg.Settle)
		longer = append(longer, s)
	}
	t.settling = append(t.settling, longer...)
	b.work += len(longer)
}
