package dialect

import (
	"fmt"
	"runtime"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// all are all dialects, in the order in which they are tried: those that know more about
// their producer first, the conventions last.
var all = [...]Dialect{
	OTelLLM{},
	Anthropic{},
	Opencode{},
	Codex{},
	ClaudeCode{},
	GeminiCLI{},
	QwenCode{},
	ADK{},
	VLLM{},
	OBI{},
	Vercel{},
	OpenAIAgents{},
	Vercel7{},
	OpenInference{},
	OpenLLMetry{},
	OpenAIJS{},
	GoCompile{},
	GenAI{},
}

// Names are the names of all dialects, in the order in which they are tried.
func Names() []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name()
	}
	return names
}

// scoped is a dialect that reads the spans of several producers, which differ by their
// scopes only.
type scoped interface {
	Dialect
	in(s scope) Dialect
}

// Registry tries dialects in order; the first that recognises a span reads it. It is safe
// for concurrent use.
type Registry struct {
	dialects []entry
}

type entry struct {
	Dialect
	needs claims
}

// NewRegistry makes a registry of dialects, in the order in which they are tried.
func NewRegistry(dialects ...Dialect) *Registry {
	r := &Registry{}
	for _, d := range dialects {
		r.dialects = append(r.dialects, entry{d, d.claims()})
	}
	return r
}

// Default is the registry of all dialects. A WebAssembly module judges facts alone, and is linked without the others.
func Default() *Registry {
	if runtime.GOOS == "wasip1" {
		return NewRegistry(OTelLLM{})
	}
	return NewRegistry(all[:]...)
}

// NewSet makes a registry of the dialects with these names, in any order; of all if there
// is no name. A span of a dialect that is left out is read by another one that recognises
// it (gen_ai reads all spans that follow the conventions), or is not an LLM span. A name
// that is unknown or given twice is an error.
func NewSet(names ...string) (*Registry, error) {
	if len(names) == 0 {
		return Default(), nil
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if wanted[name] {
			return nil, fmt.Errorf("duplicate dialect %q", name)
		}
		wanted[name] = true
	}
	var dialects []Dialect
	for _, d := range all {
		if wanted[d.Name()] {
			dialects = append(dialects, d)
			delete(wanted, d.Name())
		}
	}
	for _, name := range names {
		if wanted[name] {
			return nil, fmt.Errorf("unknown dialect %q: must be one of %s", name, strings.Join(Names(), ", "))
		}
	}
	return NewRegistry(dialects...), nil
}

// In returns the recogniser for the spans of one instrumentation scope, by its name.
func (r *Registry) In(name string) *Scope {
	return &Scope{registry: r, scope: scopeOf(name)}
}

// Scope recognises the spans of one instrumentation scope. It is not safe for
// concurrent use.
type Scope struct {
	registry *Registry
	scope    scope
	scan     AttributeScan // of the current span
}

// Recognise returns the head of a span and the dialect that reads it, in one pass over
// its attributes; the dialect is nil for Other.
func (s *Scope) Recognise(span ptrace.Span) (Head, Dialect) {
	s.scan.read(s.scope, span)
	if !s.scan.empty() {
		for i := range s.registry.dialects {
			d := &s.registry.dialects[i]
			if !d.needs.fit(&s.scan) {
				continue
			}
			if head := d.Recognise(&s.scan); head.Kind != Other {
				head.Judged = s.scan.judged
				if by, ok := d.Dialect.(scoped); ok {
					return head, by.in(s.scope)
				}
				return head, d.Dialect
			}
		}
	}
	return s.scan.other(span), nil
}
