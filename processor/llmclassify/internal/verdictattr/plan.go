package verdictattr

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// plan is the part of a plan that is checked against the verdict beside it: its advice, and the lengths of its lists.
type plan struct {
	send                                                     semconv.ResumeSend
	ask                                                      semconv.RetryReason
	ran, ranNames, outputs, may, mayNames, never, neverNames int
	waits, more                                              bool
	there                                                    bool // any part of it
}

// read reads one attribute of a plan. It returns false for a value that a client does not write, for an attribute that it
// has read before, and for a key of another kind.
func (p *plan) read(key string, v pcommon.Value) bool {
	p.there = true
	switch key {
	case string(semconv.ResumeSendKey):
		return p.send == semconv.ResumeSendUnset && enum(v, semconv.ParseResumeSend, &p.send)
	case string(semconv.ResumeAskKey):
		return p.ask == semconv.RetryReasonUnset && enum(v, semconv.ParseRetryReason, &p.ask)
	case string(semconv.ResumeWaitKey):
		return first(&p.waits) && v.Type() == pcommon.ValueTypeDouble && v.Double() > 0 && !math.IsInf(v.Double(), 0)
	case string(semconv.ResumeMoreKey):
		return first(&p.more) && v.Type() == pcommon.ValueTypeBool && v.Bool()
	case string(semconv.ResumeRanIDsKey):
		return column(v, &p.ran)
	case string(semconv.ResumeRanNamesKey):
		return column(v, &p.ranNames)
	case string(semconv.ResumeRanOutputsKey):
		return column(v, &p.outputs) && outputs(v)
	case string(semconv.ResumeMayHaveRunIDsKey):
		return column(v, &p.may)
	case string(semconv.ResumeMayHaveRunNamesKey):
		return column(v, &p.mayNames)
	case string(semconv.ResumeNeverRanIDsKey):
		return column(v, &p.never)
	case string(semconv.ResumeNeverRanNamesKey):
		return column(v, &p.neverNames)
	default:
		return false
	}
}

// fits reports whether a plan may stand beside a verdict: there is no plan, or it is complete, belongs to a failed run, and
// is not less careful than the verdict.
func (p *plan) fits(d *classify.Diagnosis, run bool) bool {
	if !p.there {
		return true
	}
	return run && d.Failed() && p.send != semconv.ResumeSendUnset &&
		(p.send != semconv.ResumeSendAgain || d.Retry.Safety == classify.SafeAutoRetry) &&
		p.outputs == p.ran && sameLength(p.ranNames, p.ran) && sameLength(p.mayNames, p.may) && sameLength(p.neverNames, p.never)
}

// sameLength reports whether a list of names is as long as the list of ids, or left out.
func sameLength(names, ids int) bool { return names == 0 || names == ids }

// column reads the length of a list whose entries may be empty. It returns false if the list was read before.
func column(v pcommon.Value, length *int) bool {
	if *length != 0 || v.Type() != pcommon.ValueTypeSlice || v.Slice().Len() == 0 || v.Slice().Len() > classify.MaxIDs {
		return false
	}
	*length = v.Slice().Len()
	for _, entry := range v.Slice().All() {
		if empty := entry.Type() == pcommon.ValueTypeStr && entry.Str() == ""; !empty && !text(entry, maxString) {
			return false
		}
	}
	return true
}

// outputs reports whether each entry of a list is a known fate of an output.
func outputs(v pcommon.Value) bool {
	for _, entry := range v.Slice().All() {
		switch entry.Str() {
		case classify.OutputDelivered.String(), classify.OutputKept.String(), classify.OutputLost.String():
		default:
			return false
		}
	}
	return true
}

// first sets read, and reports whether it was unset before.
func first(read *bool) bool {
	before := *read
	*read = true
	return !before
}
