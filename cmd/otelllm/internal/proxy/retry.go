package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	maxAttempts  = 3
	firstPause   = 500 * time.Millisecond
	maxPause     = 30 * time.Second // a longer wait is the agent's to decide
	maxRepeat    = 32 << 20         // of the body of a request that may be sent again, in bytes
	maxRepeats   = 256 << 20        // of all such bodies at the same time
	maxErrorBody = 64 << 10         // of a response that may be replaced by another attempt, in bytes
)

// retrying sends a request again if the verdict on the failed attempt is that this is safe.
// Nothing of a response has been passed on then.
type retrying struct {
	next http.RoundTripper
	log  *slog.Logger
	room atomic.Int64 // in bytes, for bodies
}

// take takes room for n more bytes of a body. It reports whether there was.
func (t *retrying) take(n int) bool {
	if t.room.Add(-int64(n)) < 0 {
		t.room.Add(int64(n))
		return false
	}
	return true
}

// RoundTrip implements http.RoundTripper.
func (t *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Upgrade") != "" {
		return t.next.RoundTrip(req)
	}
	body, whole, err := t.readBody(req.Body)
	defer func() { t.room.Add(int64(cap(body))) }()
	if err != nil {
		return nil, err
	}
	if !whole {
		return t.next.RoundTrip(withBody(req, io.MultiReader(bytes.NewReader(body), req.Body)))
	}
	exchangeOf(req.Context()).whole = true
	for attempt := 1; ; attempt++ {
		resp, d, err := t.try(req, body)
		pause, again := pauseAfter(&d, attempt)
		if !again {
			return resp, err
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		t.log.Info("trying again", "upstream", req.URL.Host, "cause", d.Cause.String(), "after", pause)
		select {
		case <-time.After(pause):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// readBody reads a body that fits into memory, and takes room for what it returns. Otherwise it
// returns the first part of it.
func (t *retrying) readBody(body io.Reader) (read []byte, whole bool, err error) {
	if body == nil {
		return nil, true, nil
	}
	for {
		if len(read) == cap(read) {
			larger := max(bufferSize, 2*cap(read))
			if larger > maxRepeat || !t.take(larger-cap(read)) {
				return read, false, nil
			}
			read = append(make([]byte, 0, larger), read...)
		}
		n, err := body.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		if err == io.EOF {
			return read, true, nil
		}
		if err != nil {
			return read, false, err
		}
	}
}

// withBody returns req with another body.
func withBody(req *http.Request, body io.Reader) *http.Request {
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(body)
	return again
}

// try makes an attempt, and returns the verdict on it as far as it failed.
func (t *retrying) try(req *http.Request, body []byte) (*http.Response, classify.Diagnosis, error) {
	ctx, last := otelllm.WithLastRequest(req.Context())
	sent := req.WithContext(ctx)
	if req.Body != nil {
		sent = withBody(sent, bytes.NewReader(body))
	}
	resp, err := t.next.RoundTrip(sent)
	if err != nil {
		return nil, last.Diagnosis(), err
	}
	resp.Request = req
	if resp.StatusCode < 400 {
		return resp, classify.Diagnosis{}, nil
	}
	// The verdict on an error rests on its body.
	read, readErr := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	rest := resp.Body
	resp.Body = &joined{io.MultiReader(bytes.NewReader(read), &failing{rest, readErr}), rest}
	return resp, last.Diagnosis(), nil
}

// joined is a body of which a part has been read.
type joined struct {
	io.Reader
	io.Closer
}

// failing reads on, unless that has failed before.
type failing struct {
	rest io.Reader
	err  error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.rest.Read(p)
}

// pauseAfter returns whether to try again after an attempt, and after which pause.
func pauseAfter(d *classify.Diagnosis, attempt int) (pause time.Duration, again bool) {
	if attempt >= maxAttempts || !d.Failed() || d.Retry.Safety != semconv.RetrySafetySafeAutoRetry {
		return 0, false
	}
	if pause = d.Retry.After; pause == 0 {
		pause = firstPause << (attempt - 1)
		pause += rand.N(pause / 2)
	}
	return pause, pause <= maxPause
}
