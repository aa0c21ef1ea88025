// Package backend reads traces from Jaeger and Tempo over their public HTTP APIs.
package backend

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ErrNotFound is returned for a trace that the backend does not have.
var ErrNotFound = errors.New("the backend has no such trace")

// maxAnswer is the maximum size of a response in bytes.
const maxAnswer = 256 << 20

// ParseTraceID parses the hexadecimal id of a trace. Jaeger shows ids without leading
// zeros, which ParseTraceID restores.
func ParseTraceID(text string) (pcommon.TraceID, error) {
	const digits = 2 * len(pcommon.TraceID{})
	var id pcommon.TraceID
	if len(text) == 0 || len(text) > digits {
		return id, fmt.Errorf("%q is not a trace id: it has %d characters, not 1 to %d hexadecimal digits", text, len(text), digits)
	}
	raw, err := hex.DecodeString(strings.Repeat("0", digits-len(text)) + text)
	if err != nil {
		return id, fmt.Errorf("%q is not a trace id: it does not consist of hexadecimal digits", text)
	}
	if copy(id[:], raw); id.IsEmpty() {
		return id, fmt.Errorf("%q is not a trace id: it is zero", text)
	}
	return id, nil
}

// client sends requests to one backend.
type client struct {
	name string // in errors
	base *url.URL
	http *http.Client
}

func newClient(name, base string) (client, error) {
	u, err := url.Parse(base)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New("it has to begin with http:// or https:// and a host")
	}
	if err != nil {
		return client{}, fmt.Errorf("%q is not the address of a %s: %w", base, name, err)
	}
	return client{name, u, &http.Client{}}, nil
}

// get requests a path below the base URL. The error for a 404 is ErrNotFound.
func (c *client) get(ctx context.Context, path []string, query url.Values, accept string) ([]byte, error) {
	u := c.base.JoinPath(path...)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the response of %s to %s: %w", c.name, u.Redacted(), err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s, %s: %w", c.name, u.Redacted(), ErrNotFound)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s responded with %s to %s: %.200s", c.name, resp.Status, u.Redacted(), bytes.TrimSpace(body))
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the response of %s to %s is larger than %d MiB", c.name, u.Redacted(), maxAnswer>>20)
	case strings.HasPrefix(http.DetectContentType(body), "text/html"):
		return nil, fmt.Errorf("%s responded with a web page, not with data: is %s the address of its API?", u.Redacted(), c.base.Redacted())
	}
	return body, nil
}

// whole returns an error if the response has no span of the trace.
func whole(name string, td ptrace.Traces, id pcommon.TraceID) (ptrace.Traces, error) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.TraceID() == id {
					return td, nil
				}
			}
		}
	}
	return td, fmt.Errorf("%s, trace %s: %w", name, id, ErrNotFound)
}

// String returns the address of the backend.
func (c *client) String() string { return c.base.String() }
