package traffic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Clock tells the time and waits for one.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Play sends each run at its time, as one OTLP/HTTP request to url, which ends in /v1/traces. A run that is refused for
// now is sent again.
func Play(ctx context.Context, clock Clock, runs []*Run, url string) error {
	for _, r := range runs {
		if d := r.At.Sub(clock.Now()); d > 0 {
			if err := clock.Sleep(ctx, d); err != nil {
				return err
			}
		}
		if err := post(ctx, clock, url, r.body); err != nil {
			return fmt.Errorf("run %s (%s): %w", r.TraceID, r.Story, err)
		}
	}
	return nil
}

// attempts bounds how often a run is sent.
const attempts = 5

func post(ctx context.Context, clock Clock, url string, body []byte) error {
	var last error
	for n := range attempts {
		if n > 0 {
			if err := clock.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusOK:
			return nil
		case resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
			return fmt.Errorf("%s", resp.Status)
		}
		last = fmt.Errorf("%s", resp.Status)
	}
	return last
}
