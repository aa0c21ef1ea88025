package live

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
)

// unrecordedTool is the unknown effects of a tool that was not reported.
var unrecordedTool = func() classify.Effects {
	e := classify.Judge(&classify.Run{
		AnnouncedRequests: classify.Counted(0), AnnouncedTools: classify.Counted(1), Tools: []classify.Tool{{}},
	}).Effects
	e.Requests, e.Tools = 0, 0
	return e
}()

// ranUnrecorded reports whether calls of the run were executed without a tool span: a later request has their output, or
// may have it.
func (r *run) ranUnrecorded() bool {
	parts := slices.Clone(r.members)
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(a.orderedBy(), b.orderedBy()) })
	executed, owed := make(map[string]bool), make(map[string]bool)
	strays, nameless := 0, 0
	for _, p := range parts {
		switch {
		case p.kind == KindTool:
			id := p.item.Known.Facts(noSpan, dialect.Tool).Tool.CallID
			if id == "" {
				nameless++
				continue
			}
			executed[id] = true
			delete(owed, id)
		case !p.open:
			q := p.item.Known.Facts(noSpan, dialect.Request).Request
			if q.HistoryCalls == nil { // it may have any output
				strays += len(owed)
				clear(owed)
			}
			for _, id := range q.HistoryOutputs {
				if owed[id] {
					strays++
					delete(owed, id)
				}
			}
			for _, id := range q.CallIDs {
				if !executed[id] {
					owed[id] = true
				}
			}
		}
	}
	return strays > nameless
}

// orderedBy is when a request ended, or a tool began.
func (p *part) orderedBy() pcommon.Timestamp {
	if p.kind == KindTool {
		return p.item.Start
	}
	return p.item.End
}
