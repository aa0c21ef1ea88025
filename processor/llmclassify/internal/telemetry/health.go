package telemetry

import (
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// health reports the component's status when the next consumer or the storage begins to
// fail, and when both work again.
type health struct {
	// mu guards everything declared below
	mu      sync.Mutex
	host    component.Host // nil before Start
	next    int            // shards whose next consumer fails
	storage bool           // the storage fails
}

func (h *health) Start(host component.Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = host
}

// NextFails is called by a shard when the next consumer begins to refuse its spans.
func (h *health) NextFails(err error) {
	h.change(err, func() { h.next++ })
}

// NextWorks is called by a shard whose next consumer had failed.
func (h *health) NextWorks() {
	h.change(nil, func() { h.next-- })
}

// StorageResult is called with the error of each access to the storage.
func (h *health) StorageResult(err error) {
	h.mu.Lock()
	same := h.storage == (err != nil)
	h.mu.Unlock()
	if !same {
		h.change(err, func() { h.storage = err != nil })
	}
}

func (h *health) change(err error, change func()) {
	h.mu.Lock()
	before := h.failing()
	change()
	after, host := h.failing(), h.host
	h.mu.Unlock()
	switch {
	case host == nil || before == after:
	case after:
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
	default:
		componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
}

func (h *health) failing() bool { return h.next > 0 || h.storage }
