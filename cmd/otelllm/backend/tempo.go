package backend

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Tempo is a client of Grafana Tempo's HTTP API.
type Tempo struct{ client }

// NewTempo returns a client of the Tempo at base, such as http://127.0.0.1:3200.
func NewTempo(base string) (*Tempo, error) {
	c, err := newClient("Tempo", base)
	return &Tempo{c}, err
}

// Trace reads a whole trace. Tempo's JSON is not quite OTLP's: its ids are in base64.
// Its protobuf, a message with the resource spans in field 1, is compatible with OTLP's
// TracesData.
func (t *Tempo) Trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	body, err := t.get(ctx, []string{"api", "traces", id.String()}, nil, "application/protobuf")
	if err != nil {
		return ptrace.Traces{}, err
	}
	var decoder ptrace.ProtoUnmarshaler
	td, err := decoder.UnmarshalTraces(body)
	if err != nil {
		return ptrace.Traces{}, fmt.Errorf("the response of Tempo for trace %s is not OTLP: %w", id, err)
	}
	return whole("Tempo", td, id)
}
