// Package origin keeps the origins of spans apart from the spans: their resource and scope, and the client metadata of the
// call that brought them. Held spans share one copy of each, and are grouped by them again when they are released.
package origin

import (
	"strings"
	"sync"
	"sync/atomic"
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
	size      int // estimated memory, bytes
}

// Scope is an instrumentation scope of a resource that spans came from. It is never changed.
type Scope struct {
	Resource *Resource

	key       [16]byte
	scope     pcommon.InstrumentationScope
	schemaURL string
	size      int // estimated memory without the resource, bytes

	slim atomic.Pointer[Scope] // see Slim
}

// Table shares equal resources and scopes, in bounded memory. An entry that is not used for one to two periods is shared no
// longer; spans that still have it keep it alive. It is safe for concurrent use.
type Table struct {
	// mu guards everything declared below
	mu        sync.Mutex
	resources *generations.Cache[[16]byte, *Resource]
	scopes    *generations.Cache[[16]byte, *Scope]
}

// NewTable makes a table of resources and scopes of at most this many bytes, as estimated.
func NewTable(period time.Duration, bytes int) *Table {
	t := &Table{
		resources: generations.NewCache[[16]byte, *Resource](period, bytes/4),
		scopes:    generations.NewCache[[16]byte, *Scope](period, bytes/4),
	}
	t.resources.SizeOf = func(r *Resource) int { return r.size }
	t.scopes.SizeOf = func(s *Scope) int { return s.Size() } // it keeps its resource
	return t
}

// Intern returns the scope of the spans of ss under rs, shared with equal ones.
func (t *Table) Intern(now time.Time, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) *Scope {
	resourceKey := pdatautil.Hash(pdatautil.WithMap(rs.Resource().Attributes()), pdatautil.WithString(rs.SchemaUrl()))
	scopeKey := pdatautil.Hash(
		pdatautil.WithString(string(resourceKey[:])), pdatautil.WithString(ss.SchemaUrl()),
		pdatautil.WithString(ss.Scope().Name()), pdatautil.WithString(ss.Scope().Version()),
		pdatautil.WithMap(ss.Scope().Attributes()),
	)

	t.mu.Lock()
	defer t.mu.Unlock()
	resource, ok := t.resources.Get(now, resourceKey)
	if !ok || !resource.equals(rs) {
		resource = &Resource{Key: resourceKey, resource: pcommon.NewResource(), schemaURL: rs.SchemaUrl()}
		rs.Resource().CopyTo(resource.resource)
		resource.measure()
		if !ok { // a key that another resource has, by chance or on purpose, stays with that resource
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
		scope.measure()
		t.scopes.Put(now, scopeKey, scope)
	}
	return scope
}

// Rotate forgets entries that have not been used for long enough.
func (t *Table) Rotate(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resources.Rotate(now)
	t.scopes.Rotate(now)
}

// Bytes is the estimated memory of the shared entries. Resources that are in both tables count twice.
func (t *Table) Bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resources.Size() + t.scopes.Size()
}

// Size is the estimated memory of the scope and its resource, in bytes.
func (s *Scope) Size() int { return s.size + s.Resource.size }

func (r *Resource) measure() {
	r.size = resourceSize + len(r.schemaURL) + MapSize(r.resource.Attributes())
}

func (s *Scope) measure() {
	s.size = scopeSize + len(s.scope.Name()) + len(s.scope.Version()) + len(s.schemaURL) + MapSize(s.scope.Attributes())
}

// maxSlim bounds the memory of a slim scope, in bytes, see [Scope.Slim].
const maxSlim = 4 << 10

// Slim returns the scope with as many attributes of it and its resource as fit into 4 KiB, the service's first. Mostly that
// is the scope itself.
func (s *Scope) Slim() *Scope {
	if s == nil || s.Size() <= maxSlim {
		return s
	}
	if slim := s.slim.Load(); slim != nil {
		return slim
	}
	room := maxSlim - resourceSize - scopeSize - 4*maxName
	slim := &Scope{
		Resource: &Resource{Key: s.Resource.Key, resource: pcommon.NewResource(), schemaURL: cut(s.Resource.schemaURL)},
		key:      s.key, scope: pcommon.NewInstrumentationScope(), schemaURL: cut(s.schemaURL),
	}
	slim.scope.SetName(cut(s.scope.Name()))
	slim.scope.SetVersion(cut(s.scope.Version()))
	dropped := copySome(slim.Resource.resource.Attributes(), s.Resource.resource.Attributes(), &room)
	slim.Resource.resource.SetDroppedAttributesCount(s.Resource.resource.DroppedAttributesCount() + dropped)
	dropped = copySome(slim.scope.Attributes(), s.scope.Attributes(), &room)
	slim.scope.SetDroppedAttributesCount(s.scope.DroppedAttributesCount() + dropped)
	slim.Resource.measure()
	slim.measure()
	if !s.slim.CompareAndSwap(nil, slim) {
		return s.slim.Load()
	}
	return slim
}

// maxName bounds a name in a slim scope, in bytes.
const maxName = 256

func cut(name string) string { return strings.Clone(name[:min(len(name), maxName)]) }

// copySome copies the attributes that there is room for, the service's first, and returns how many it left out.
func copySome(to, from pcommon.Map, room *int) (dropped uint32) {
	for _, service := range [...]bool{true, false} {
		for key, v := range from.All() {
			if strings.HasPrefix(key, "service.") != service {
				continue
			}
			size := attributeSize + stringSize + len(key) + valueSize(v)
			if size > *room {
				dropped++
				continue
			}
			*room -= size
			v.CopyTo(to.PutEmpty(key))
		}
	}
	return dropped
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
