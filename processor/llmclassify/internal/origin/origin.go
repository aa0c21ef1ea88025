// Package origin keeps where spans came from, their resource and scope, apart
// from the spans, so that held spans share one copy and go out grouped again.
package origin

import (
	"sync"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatautil"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Resource is a resource that spans came from. It is never changed.
type Resource struct {
	// Key tells resources apart, and so services.
	Key [16]byte

	resource  pcommon.Resource
	schemaURL string
}

// Scope is an instrumentation scope of a resource that spans came from. It is
// never changed.
type Scope struct {
	Resource *Resource

	key       [16]byte
	scope     pcommon.InstrumentationScope
	schemaURL string
}

// Table shares equal resources and scopes. An entry that is not asked for in one
// to two periods is forgotten; a span that still holds it keeps it alive. It is safe
// for concurrent use.
type Table struct {
	period time.Duration
	limit  int

	// mu guards everything declared below
	mu        sync.Mutex
	began     time.Time
	resources generations[*Resource]
	scopes    generations[*Scope]
}

// NewTable makes a table of at most limit scopes a period.
func NewTable(period time.Duration, limit int) *Table {
	t := &Table{period: period, limit: limit}
	t.resources.turn()
	t.scopes.turn()
	return t
}

// Intern returns the scope of spans of ss under rs, shared with equal ones, and
// what it adds to memory in bytes: 0 where it was there.
func (t *Table) Intern(now time.Time, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) (*Scope, int) {
	resourceKey := pdatautil.Hash(pdatautil.WithMap(rs.Resource().Attributes()), pdatautil.WithString(rs.SchemaUrl()))
	scopeKey := pdatautil.Hash(
		pdatautil.WithString(string(resourceKey[:])), pdatautil.WithString(ss.SchemaUrl()),
		pdatautil.WithString(ss.Scope().Name()), pdatautil.WithString(ss.Scope().Version()),
		pdatautil.WithMap(ss.Scope().Attributes()),
	)

	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.began) >= t.period || len(t.scopes.now) >= t.limit {
		t.began = now
		t.resources.turn()
		t.scopes.turn()
	}
	added := 0
	resource, ok := t.resources.get(resourceKey)
	if !ok || !resource.equals(rs) {
		resource = &Resource{Key: resourceKey, resource: pcommon.NewResource(), schemaURL: rs.SchemaUrl()}
		rs.Resource().CopyTo(resource.resource)
		added += resourceSize + MapSize(resource.resource.Attributes())
		if !ok { // a key that another resource has, by chance or by malice, stays that one's
			t.resources.put(resourceKey, resource)
		}
	}
	scope, ok := t.scopes.get(scopeKey)
	if !ok || scope.Resource != resource || !scope.equals(ss) {
		scope = &Scope{
			Resource: resource, key: scopeKey,
			scope: pcommon.NewInstrumentationScope(), schemaURL: ss.SchemaUrl(),
		}
		ss.Scope().CopyTo(scope.scope)
		added += scopeSize + MapSize(scope.scope.Attributes())
		t.scopes.put(scopeKey, scope)
	}
	return scope, added
}

func (r *Resource) equals(rs ptrace.ResourceSpans) bool {
	return r.schemaURL == rs.SchemaUrl() &&
		r.resource.DroppedAttributesCount() == rs.Resource().DroppedAttributesCount() &&
		r.resource.Attributes().Equal(rs.Resource().Attributes())
}

func (s *Scope) equals(ss ptrace.ScopeSpans) bool {
	return s.schemaURL == ss.SchemaUrl() &&
		s.scope.Name() == ss.Scope().Name() && s.scope.Version() == ss.Scope().Version() &&
		s.scope.DroppedAttributesCount() == ss.Scope().DroppedAttributesCount() &&
		s.scope.Attributes().Equal(ss.Scope().Attributes())
}

// generations is a map that forgets what is not asked for between two turns.
type generations[V any] struct{ now, previous map[[16]byte]V }

func (g *generations[V]) turn() {
	g.previous, g.now = g.now, make(map[[16]byte]V)
}

func (g *generations[V]) get(key [16]byte) (V, bool) {
	v, ok := g.now[key]
	if !ok {
		if v, ok = g.previous[key]; ok {
			g.now[key] = v
		}
	}
	return v, ok
}

func (g *generations[V]) put(key [16]byte, v V) { g.now[key] = v }
