package origin

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/client"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// Caller is the client metadata of a call that brought spans, with the configured keys only. It is never changed.
type Caller struct {
	id   string
	info client.Info
}

// ID is equal for callers with equal metadata, and only for them.
func (c *Caller) ID() string { return c.id }

// Context returns ctx with the metadata of c, and without any if c is nil.
func (c *Caller) Context(ctx context.Context) context.Context {
	if c == nil {
		return client.NewContext(ctx, client.Info{})
	}
	return client.NewContext(ctx, c.info)
}

// Metadata returns the values by key.
func (c *Caller) Metadata() map[string][]string {
	if c == nil {
		return nil
	}
	all := make(map[string][]string)
	for key := range c.info.Metadata.Keys() {
		all[key] = c.info.Metadata.Get(key)
	}
	return all
}

// Callers shares equal callers among the spans of all calls. It is safe for concurrent use.
type Callers struct {
	keys []string

	// mu guards everything declared below
	mu     sync.Mutex
	shared *generations.Cache[string, *Caller]
}

// maxCallers bounds the callers that are shared at a time: beyond that, the older half is shared no longer.
const (
	maxCallers = 1000
	// maxCallerBytes bounds their metadata, in bytes.
	maxCallerBytes = 4 << 20
)

// NewCallers makes a table of callers that differ in these metadata keys.
func NewCallers(keys []string) *Callers {
	t := &Callers{keys: keys, shared: generations.NewCache[string, *Caller](0, maxCallerBytes/2)}
	t.shared.SizeOf = func(c *Caller) int { return max(2*len(c.id), maxCallerBytes/maxCallers) }
	return t
}

// Of returns the caller of a context, nil if no key is configured.
func (t *Callers) Of(ctx context.Context) *Caller {
	if len(t.keys) == 0 {
		return nil
	}
	metadata := client.FromContext(ctx).Metadata
	return t.intern(func(key string) []string { return metadata.Get(key) })
}

// With returns the caller with this metadata, nil if no key is configured.
func (t *Callers) With(metadata map[string][]string) *Caller {
	if len(t.keys) == 0 {
		return nil
	}
	return t.intern(func(key string) []string { return metadata[strings.ToLower(key)] })
}

func (t *Callers) intern(get func(string) []string) *Caller {
	var id []byte // every value with its length before it, so that no two are alike
	for _, key := range t.keys {
		all := get(key)
		id = binary.AppendUvarint(id, uint64(len(all)))
		for _, value := range all {
			id = binary.AppendUvarint(id, uint64(len(value)))
			id = append(id, value...)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var always time.Time // callers are bounded in number alone
	if c, ok := t.shared.Get(always, string(id)); ok {
		return c
	}
	values := make(map[string][]string, len(t.keys))
	for _, key := range t.keys {
		if v := get(key); len(v) > 0 {
			values[key] = v
		}
	}
	c := &Caller{string(id), client.Info{Metadata: client.NewMetadata(values)}}
	t.shared.Put(always, string(id), c)
	return c
}
