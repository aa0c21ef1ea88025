package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
)

// instances counts the processors of each name that one factory made: a processor that several pipelines
// name has an instance in each. It is safe for concurrent use.
type instances struct {
	mu   sync.Mutex
	made map[component.ID]int
}

// clientName is the name of the storage client.
const clientName = "traces"

func newInstances() *instances { return &instances{made: map[component.ID]int{}} }

func (i *instances) add(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]++
	p.instances = i
}

func (i *instances) remove(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]--
}

// openJournal opens the journal of a processor in the storage extension of its configuration. The spans of
// one pipeline must not go out by another, and no API of the Collector tells an instance its pipeline: of
// several instances of one name none starts.
func (i *instances) openJournal(ctx context.Context, p *classifier, host component.Host) (*journal.Journal, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made[p.id] > 1 {
		return nil, fmt.Errorf("%q is in several pipelines and has a storage: name it differently in each pipeline, as in %[1]s/a and %[1]s/b", p.id)
	}
	extension, err := storageExtension(host, *p.cfg.Storage)
	if err != nil {
		return nil, err
	}
	return p.open(ctx, extension)
}

// open opens the journal. A damaged storage may panic here: bbolt checks its file when it opens it.
func (p *classifier) open(ctx context.Context, extension storage.Extension) (j *journal.Journal, err error) {
	defer func() {
		if r := recover(); r != nil { // the client is in an unknown state: it is not touched again
			j, err = nil, fmt.Errorf("the storage extension %q panicked when it opened what it has for %q (client %q): its data is damaged, move it aside: %v", *p.cfg.Storage, p.id, clientName, r)
		}
	}()
	client, err := extension.GetClient(ctx, component.KindProcessor, p.id, clientName)
	if err != nil {
		return nil, fmt.Errorf("failed to get the client %q of the storage extension %q: %w", clientName, *p.cfg.Storage, err)
	}
	if j, err = journal.Open(ctx, client, p.logger.With(zap.String("client", clientName))); err != nil {
		return nil, errors.Join(err, client.Close(ctx))
	}
	return j, nil
}

func storageExtension(host component.Host, id component.ID) (storage.Extension, error) {
	found, ok := host.GetExtensions()[id]
	if !ok {
		return nil, fmt.Errorf("storage extension %q not found: add it to extensions and to service::extensions", id)
	}
	extension, ok := found.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("requested extension is not a storage extension: %q", id)
	}
	return extension, nil
}
