// Package caller keeps in whose name spans came: the client metadata that the
// configuration lists, shared by the spans of all calls that had the same.
package caller

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/client"
)

// Caller is client metadata, the listed keys only. It is never changed.
type Caller struct{ info client.Info }

// Context has the metadata of c, and none where c is nil.
func (c *Caller) Context(ctx context.Context) context.Context {
	if c == nil {
		return client.NewContext(ctx, client.Info{})
	}
	return client.NewContext(ctx, c.info)
}

// Metadata are the values by key.
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

// Table shares equal callers. It is safe for concurrent use.
type Table struct {
	keys []string

	// mu guards everything declared below
	mu            sync.Mutex
	now, previous map[string]*Caller
}

// limit bounds the callers that are shared at a time: of more the older half is
// shared no longer.
const limit = 1000

// NewTable makes a table of callers that differ in these metadata keys.
func NewTable(keys []string) *Table {
	return &Table{keys: keys, now: make(map[string]*Caller)}
}

// Of is the caller in whose name ctx is, nil where no key is listed.
func (t *Table) Of(ctx context.Context) *Caller {
	if len(t.keys) == 0 {
		return nil
	}
	metadata := client.FromContext(ctx).Metadata
	return t.intern(func(key string) []string { return metadata.Get(key) })
}

// With is the caller of this metadata, nil where no key is listed.
func (t *Table) With(metadata map[string][]string) *Caller {
	if len(t.keys) == 0 {
		return nil
	}
	return t.intern(func(key string) []string { return metadata[strings.ToLower(key)] })
}

func (t *Table) intern(get func(string) []string) *Caller {
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
	c := t.now[string(id)]
	if c == nil {
		c = t.previous[string(id)]
	}
	if c == nil {
		values := make(map[string][]string, len(t.keys))
		for _, key := range t.keys {
			if v := get(key); len(v) > 0 {
				values[key] = v
			}
		}
		c = &Caller{client.Info{Metadata: client.NewMetadata(values)}}
	}
	if len(t.now) >= limit {
		t.previous, t.now = t.now, make(map[string]*Caller)
	}
	t.now[string(id)] = c
	return c
}
