package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Jaeger is a client of Jaeger 2, over the HTTP API that its UI also uses.
type Jaeger struct{ client }

// NewJaeger returns a client of the Jaeger at base, such as http://127.0.0.1:16686.
func NewJaeger(base string) (*Jaeger, error) {
	c, err := newClient("Jaeger", base)
	return &Jaeger{c}, err
}

// Trace reads a whole trace as it was stored, without the adjustments that Jaeger makes
// for display. Jaeger's API v3 returns OTLP JSON.
func (j *Jaeger) Trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	body, err := j.get(ctx, []string{"api", "v3", "traces", id.String()}, url.Values{"raw_traces": {"true"}}, "application/json")
	if err != nil {
		return ptrace.Traces{}, err
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return ptrace.Traces{}, fmt.Errorf("the response of Jaeger for trace %s is not JSON: %w", id, err)
	}
	var decoder ptrace.JSONUnmarshaler
	td, err := decoder.UnmarshalTraces(answer.Result)
	if err != nil {
		return ptrace.Traces{}, fmt.Errorf("the response of Jaeger for trace %s is not OTLP JSON: %w", id, err)
	}
	return whole("Jaeger", td, id)
}

// Search returns the ids of the newest traces, at most limit, of a service that have a
// span with all of these tags.
func (j *Jaeger) Search(ctx context.Context, service string, tags map[string]string, limit int) ([]pcommon.TraceID, error) {
	query, err := searchQuery(service, tags, limit)
	if err != nil {
		return nil, err
	}
	body, err := j.get(ctx, []string{"api", "traces"}, query, "application/json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data []struct {
			TraceID string `json:"traceID"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the response of Jaeger to a search is not JSON: %w", err)
	}
	ids := make([]pcommon.TraceID, len(answer.Data))
	for i, found := range answer.Data {
		if ids[i], err = ParseTraceID(found.TraceID); err != nil {
			return nil, fmt.Errorf("the response of Jaeger to a search: %w", err)
		}
	}
	return ids, nil
}

// Services returns the services that Jaeger has spans of.
func (j *Jaeger) Services(ctx context.Context) ([]string, error) {
	body, err := j.get(ctx, []string{"api", "services"}, nil, "application/json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data []string `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the list of services of Jaeger is not JSON: %w", err)
	}
	return answer.Data, nil
}

// TraceURL returns the URL of a trace, in the UI or as JSON from the API.
func (j *Jaeger) TraceURL(id pcommon.TraceID, pages bool) string {
	if pages {
		return j.base.JoinPath("trace", id.String()).String()
	}
	return j.base.JoinPath("api", "traces", id.String()).String()
}

// SearchURL returns the URL of [Jaeger.Search], in the UI or as JSON from the API.
func (j *Jaeger) SearchURL(service string, tags map[string]string, limit int, pages bool) (string, error) {
	query, err := searchQuery(service, tags, limit)
	if err != nil {
		return "", err
	}
	u := j.base.JoinPath("api", "traces")
	if pages {
		u = j.base.JoinPath("search")
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func searchQuery(service string, tags map[string]string, limit int) (url.Values, error) {
	query := url.Values{"service": {service}, "limit": {strconv.Itoa(limit)}, "lookback": {"1h"}}
	if len(tags) > 0 {
		text, err := json.Marshal(tags)
		if err != nil {
			return nil, err
		}
		query.Set("tags", string(text))
	}
	return query, nil
}
