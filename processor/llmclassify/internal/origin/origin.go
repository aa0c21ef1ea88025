// Package origin keeps where spans came from apart from the spans: their resource and
// scope, and the client metadata of the call that brought them. Held spans share one
// copy of each, and go out grouped by them again.
package origin

import (
	"sync"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatautil"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// Resource is a resource that spans came from. It is never changed.
type Resource struct {
	// Key identifies the resource, and so the service.
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

// Table shares equal resources and scopes. One that is not used for one to two periods
// is shared no longer; spans that still have it keep it alive. It is safe for
// concurrent use.
type Table struct {
	// mu guards everything declared below
	mu        sync.Mutex
	resources *generations.Cache[[16]byte, *Resource]
	scopes    *generations.Cache[[16]byte, *Scope]
}

// NewTable makes a table of at most limit scopes, and as many resources, a period.
func NewTable(period time.Duration, limit int) *Table {
	return &Table{
		resources: generations.NewCache[[16]byte, *Resource](period, limit),
		scopes:    generations.NewCache[[16]byte, *Scope](period, limit),
	}
}

// Intern returns the scope of the spans of ss under rs, shared with equal ones, and the
// memory that it adds, in bytes: 0 where it was there.
func (t *Table) Intern(now time.Time, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) (*Scope, int) {
	resourceKey := pdatautil.Hash(pdatautil.WithMap(rs.Resource().Attributes()), pdatautil.WithString(rs.SchemaUrl()))
	scopeKey := pdatautil.Hash(
		pdatautil.WithString(string(resourceKey[:])), pdatautil.WithString(ss.SchemaUrl()),
		pdatautil.WithString(ss.Scope().Name()), pdatautil.WithString(ss.Scope().Version()),
		pdatautil.WithMap(ss.Scope().Attributes()),
	)

	t.mu.Lock()
	defer t.mu.Unlock()
	added := 0
	resource, ok := t.resources.Get(now, resourceKey)
	if !ok || !resource.equals(rs) {
		resource = &Resource{Key: resourceKey, resource: pcommon.NewResource(), schemaURL: rs.SchemaUrl()}
		rs.Resource().CopyTo(resource.resource)
		added += resourceSize + MapSize(resource.resource.Attributes())
		if !ok { // a key that another resource has, by chance or on purpose, stays that one's
			t.resources.Put(now, resourceKey, resource)
		}
	}
	scope, ok := t.scopes.Get(now, scopeKey)
	if !ok || scope.Resource != resource || !scope.equals(ss) {
		scope = &Scope{
			Resource: resource, key: scopeKey,
			scope: pcommon.NewInstrumentationScope(), schemaURL: ss.SchemaUrl(),
		}
		ss.Scope().CopyTo(scope.scope)
		added += scopeSize + MapSize(scope.scope.Attributes())
		t.scopes.Put(now, scopeKey, scope)
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
