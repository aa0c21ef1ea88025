package harness

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// Disk is a storage extension whose content outlives processors.
type Disk struct {
	component.StartFunc
	component.ShutdownFunc

	Mu      sync.Mutex
	Content map[string][]byte
	Fail    error
	Wrote   func()   // called for each write, if set
	asks    func()   // called before each operation, if set
	Asked   []string // names under which clients were asked for
}

// NewDisk makes an empty disk.
func NewDisk() *Disk { return &Disk{Content: map[string][]byte{}} }

// Copied is another disk of the same content.
func (d *Disk) Copied() *Disk {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	c := NewDisk()
	c.Content = maps.Clone(d.Content)
	return c
}

// GetClient implements storage.Extension.
func (d *Disk) GetClient(_ context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	d.Asked = append(d.Asked, kind.String()+" "+id.String()+" "+name)
	return DiskClient{d}, nil
}

// Entries are the keys that hold spans.
func (d *Disk) Entries() []string {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	keys := slices.Sorted(maps.Keys(d.Content))
	return slices.DeleteFunc(keys, func(key string) bool { return key == "bounds" || key == "owner" || strings.HasPrefix(key, "judged") })
}

// DiskClient is a storage client that reads and writes a disk.
type DiskClient struct{ *Disk }

// Get implements storage.Client.
func (d DiskClient) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := d.Batch(ctx, op)
	return op.Value, err
}

// Set implements storage.Client.
func (d DiskClient) Set(ctx context.Context, key string, value []byte) error {
	return d.Batch(ctx, storage.SetOperation(key, value))
}

// Delete implements storage.Client.
func (d DiskClient) Delete(ctx context.Context, key string) error {
	return d.Batch(ctx, storage.DeleteOperation(key))
}

// Batch implements storage.Client.
func (d DiskClient) Batch(_ context.Context, ops ...*storage.Operation) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.asks != nil {
		d.asks()
	}
	if d.Fail != nil {
		return d.Fail
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = d.Content[op.Key]
		case storage.Set:
			d.Content[op.Key] = slices.Clone(op.Value)
		case storage.Delete:
			delete(d.Content, op.Key)
		}
	}
	if d.Wrote != nil && ops[0].Type != storage.Get {
		d.Wrote()
	}
	return nil
}

// Close implements storage.Client.
func (DiskClient) Close(context.Context) error { return nil }
