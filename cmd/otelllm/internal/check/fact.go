package check

import "go.opentelemetry.io/collector/pdata/pcommon"

// Kind is the kind of a span.
type Kind = kind

// The kinds of spans that have facts.
const (
	Request = kindRequest
	Tool    = kindTool
	Run     = kindRun
)

// Fact reports whether an attribute is a fact of this kind of span, and whether it may have
// this value.
func Fact(k Kind, key string, value pcommon.Value) (known, valid bool) {
	f, ok := factByKey[k][key]
	return ok, ok && f.valid(value) == ""
}

// factByKey are the facts of each kind.
var factByKey = func() map[Kind]map[string]fact {
	all := make(map[Kind]map[string]fact)
	for _, k := range []Kind{Request, Tool, Run} {
		all[k] = make(map[string]fact)
		ordered, others := factsOf(k)
		for _, list := range [][]fact{ordered, others} {
			for _, f := range list {
				all[k][f.key] = f
			}
		}
	}
	return all
}()
