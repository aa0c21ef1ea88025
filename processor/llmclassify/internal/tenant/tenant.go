// Package tenant tells the producers of spans apart, and shares memory among them.
package tenant

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// Max is how many tenants are told apart. All others share one lane.
const Max = 256

// Tenant is a producer, or several. Its spans are judged apart from the spans of other tenants, and memory and work are
// shared fairly among tenants.
type Tenant struct {
	Index int32        // 0 for the tenants that are not told apart
	Used  atomic.Int64 // bytes of its spans that are held or wait to be sent again
}

// Set finds the tenant that a span belongs to. It is safe for concurrent use.
type Set struct {
	callers   bool   // tenants are callers
	attribute string // of resources; empty unless it tells tenants apart
	Others    *Tenant
	Budget    *Budget

	// mu guards everything declared below
	mu    sync.RWMutex
	Known map[string]*Tenant
}

// Values of Config.TenantFrom. FromResource is followed by the key of an attribute.
const (
	FromMetadata = "metadata"
	FromResource = "resource."
)

// NewSet tells tenants apart by a value of Config.TenantFrom. They share a budget.
func NewSet(from string, b *Budget) *Set {
	t := &Set{Budget: b, callers: from == FromMetadata, Others: new(Tenant), Known: make(map[string]*Tenant)}
	if key, ok := strings.CutPrefix(from, FromResource); ok {
		t.attribute = key
	}
	return t
}

// ByResource reports whether the spans of a call may be of several tenants.
func (t *Set) ByResource() bool { return t.attribute != "" }

// OfCaller returns the tenant of a call, unless tenants are told apart by their resources.
func (t *Set) OfCaller(c *origin.Caller) *Tenant {
	if c == nil || !t.callers {
		return t.Others
	}
	return t.Named(c.ID())
}

// OfResource returns the tenant of a resource, if tenants are told apart by it.
func (t *Set) OfResource(r pcommon.Resource) *Tenant {
	v, ok := r.Attributes().Get(t.attribute)
	if !ok {
		return t.Others
	}
	return t.Named(v.AsString())
}

// Named returns the tenant with a name, or the one that all others share.
func (t *Set) Named(name string) *Tenant {
	if name == "" {
		return t.Others
	}
	t.mu.RLock()
	found := t.Known[name]
	full := len(t.Known) == Max
	t.mu.RUnlock()
	switch {
	case found != nil:
		return found
	case full:
		return t.Others
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.Known[name]; found == nil {
		if len(t.Known) == Max {
			return t.Others
		}
		found = &Tenant{Index: int32(len(t.Known) + 1)} //nolint:gosec // at most maxTenants
		t.Known[strings.Clone(name)] = found
		t.Budget.known.Store(int64(len(t.Known)))
	}
	return found
}
