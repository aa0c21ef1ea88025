package llmclassify

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// maxTenants is how many tenants are told apart. All others share one lane.
const maxTenants = 256

// tenant is a producer, or several. Its spans are judged apart from those of other tenants,
// and memory and work are shared fairly among tenants.
type tenant struct {
	index int32        // 0 for those that are not told apart
	used  atomic.Int64 // bytes of its spans that are held or wait to be sent again
}

// tenants finds the tenant that a span belongs to. It is safe for concurrent use.
type tenants struct {
	callers   bool   // they are the tenants
	attribute string // of resources; empty where that does not tell tenants apart
	others    *tenant
	budget    *budget

	// mu guards everything declared below
	mu    sync.RWMutex
	known map[string]*tenant
}

// Values of Config.TenantFrom. What follows tenantFromResource is the key of an attribute.
const (
	tenantFromMetadata = "metadata"
	tenantFromResource = "resource."
)

// newTenants tells tenants apart by a value of Config.TenantFrom. They share a budget.
func newTenants(from string, b *budget) *tenants {
	t := &tenants{budget: b, callers: from == tenantFromMetadata, others: new(tenant), known: make(map[string]*tenant)}
	if key, ok := strings.CutPrefix(from, tenantFromResource); ok {
		t.attribute = key
	}
	return t
}

// byResource reports whether the spans of a call may be of several tenants.
func (t *tenants) byResource() bool { return t.attribute != "" }

// ofCaller is the tenant of a call, unless tenants are told apart by their resources.
func (t *tenants) ofCaller(c *origin.Caller) *tenant {
	if c == nil || !t.callers {
		return t.others
	}
	return t.named(c.ID())
}

// ofResource is the tenant of a resource, where tenants are told apart by it.
func (t *tenants) ofResource(r pcommon.Resource) *tenant {
	v, ok := r.Attributes().Get(t.attribute)
	if !ok {
		return t.others
	}
	return t.named(v.AsString())
}

func (t *tenants) named(name string) *tenant {
	if name == "" {
		return t.others
	}
	t.mu.RLock()
	found := t.known[name]
	full := len(t.known) == maxTenants
	t.mu.RUnlock()
	switch {
	case found != nil:
		return found
	case full:
		return t.others
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.known[name]; found == nil {
		if len(t.known) == maxTenants {
			return t.others
		}
		found = &tenant{index: int32(len(t.known) + 1)} //nolint:gosec // at most maxTenants
		t.known[strings.Clone(name)] = found
		t.budget.known.Store(int64(len(t.known)))
	}
	return found
}
