package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pipeline"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
)

// instances are the processors that one factory made. A processor that several pipelines
// name has one instance in each, all with the same id and configuration. Each needs a
// journal of its own, which it finds again at the next start: what came in one pipeline
// must not go out by another. It is safe for concurrent use.
type instances struct {
	mu   sync.Mutex
	made map[component.ID]int
	main map[mainKey]*classifier // who has the main client
}

type mainKey struct{ extension, processor component.ID }

// mainClient is the name of the storage client of a processor that is in one pipeline. If
// it is in several, one of them has this client, and the others have their own.
const mainClient = "traces"

// clientOf is the name of the client of a pipeline that does not have the main one.
func clientOf(p pipeline.ID) string { return mainClient + "_" + p.Name() }

func newInstances() *instances {
	return &instances{made: map[component.ID]int{}, main: map[mainKey]*classifier{}}
}

func (i *instances) add(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]++
	p.instances = i
}

// remove forgets an instance whose journal is closed.
func (i *instances) remove(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]--
	for key, holder := range i.main {
		if holder == p {
			delete(i.main, key)
		}
	}
}

// openJournal opens the journal of an instance in the storage extension of its
// configuration.
func (i *instances) openJournal(ctx context.Context, p *classifier, host component.Host) (*journal.Journal, error) {
	extension, err := storageExtension(host, *p.cfg.Storage)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	o := opener{processor: p, extension: extension, several: i.made[p.id] > 1}
	o.pipeline, o.known = pipelineOf(host)
	if o.several && !o.known {
		return nil, fmt.Errorf("%q is in several pipelines, and this host does not tell in which one each instance is: what they store cannot be kept apart; name it differently in each pipeline, as in %[1]s/a and %[1]s/b", p.id)
	}
	key := mainKey{*p.cfg.Storage, p.id}
	if i.main[key] == nil {
		j, err := o.open(ctx, mainClient)
		if !errors.Is(err, errOther) {
			if err == nil {
				i.main[key] = p
			}
			return j, err
		}
	}
	return o.open(ctx, clientOf(o.pipeline))
}

// opener opens a journal for an instance.
type opener struct {
	processor *classifier
	extension storage.Extension
	several   bool        // other instances have the same id
	pipeline  pipeline.ID // of this one
	known     bool        // the host tells the pipeline
}

// errOther says that a journal is another pipeline's.
var errOther = errors.New("the journal is another pipeline's")

// open opens the journal in the client with this name. A damaged storage may panic here:
// bbolt checks its file when it opens it.
func (o *opener) open(ctx context.Context, name string) (j *journal.Journal, err error) {
	id, storageID := o.processor.id, *o.processor.cfg.Storage
	defer func() {
		if r := recover(); r != nil { // the client is in an unknown state: it is not touched again
			j, err = nil, fmt.Errorf("the storage extension %q panicked when it opened what it has for %q (client %q): its data is damaged, move it aside: %v", storageID, id, name, r)
		}
	}()
	client, err := o.extension.GetClient(ctx, component.KindProcessor, id, name)
	if err != nil {
		return nil, fmt.Errorf("failed to get the client %q of the storage extension %q: %w", name, storageID, err)
	}
	if j, err = o.openIn(ctx, client, name); err != nil {
		return nil, errors.Join(err, client.Close(ctx))
	}
	return j, nil
}

func (o *opener) openIn(ctx context.Context, client storage.Client, name string) (*journal.Journal, error) {
	logger := o.processor.logger.With(zap.String("client", name))
	owner, err := journal.ReadOwner(ctx, client)
	if err != nil {
		return nil, err
	}
	if !o.mayTake(&owner) {
		if owner.Used {
			logger.Info("The storage has the journal of another pipeline; this one has its own",
				zap.String("of", owner.Name), zap.Stringer("pipeline", o.pipeline), zap.NamedError("unreadable", owner.Unreadable))
		}
		return nil, errOther
	}
	j, err := journal.Open(ctx, client, logger)
	if err != nil || !o.known || owner.Name == o.pipeline.String() {
		return j, err
	}
	if owner.Used && o.several {
		logger.Warn("What is in the storage does not say from which pipeline it is: this one takes it over",
			zap.Stringer("pipeline", o.pipeline))
	}
	return j, j.SetOwner(ctx, o.pipeline.String())
}

// mayTake reports whether the journal of this owner may be the one of this instance.
func (o *opener) mayTake(owner *journal.Ownership) bool {
	switch {
	case !o.known: // it is alone
		return true
	case owner.Unreadable != nil:
		return !o.several
	default:
		return owner.Name == "" || owner.Name == o.pipeline.String()
	}
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

// pipelineOf is the pipeline of the instance that is started with this host. No API of the
// Collector tells; its host has the id of the instance that it was made for, in an exported
// field of a type that is not.
func pipelineOf(host component.Host) (p pipeline.ID, known bool) {
	v := reflect.Indirect(reflect.ValueOf(host))
	if v.Kind() != reflect.Struct {
		return p, false
	}
	field := v.FieldByName("InstanceID")
	if !field.IsValid() || !field.CanInterface() {
		return p, false
	}
	id, ok := reflect.TypeAssert[*componentstatus.InstanceID](field)
	if !ok || id == nil {
		return p, false
	}
	n := 0
	id.AllPipelineIDs(func(each pipeline.ID) bool {
		p = each
		n++
		return true
	})
	return p, n == 1
}
