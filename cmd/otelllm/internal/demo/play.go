package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// patience is the timeout of one run of the agent. It takes milliseconds.
const patience = 10 * time.Second

// ErrUnexpected is the error of a verdict that is not the expected one.
var ErrUnexpected = errors.New("a verdict is not the expected one")

// Broken is a stream that was broken.
type Broken struct {
	Doing   string // what the model or the agent was doing
	Before  string // what the agent's user sees, without otelllm
	Run     report.Run
	Records []report.Record // the same, for a page
}

// Play breaks the streams. If a verdict is not the expected one, it returns ErrUnexpected as
// well.
func Play(ctx context.Context) ([]Broken, error) { return play(ctx, scenes()) }

func play(ctx context.Context, scenes []scene) ([]Broken, error) {
	var all []Broken
	var wrong []error
	for _, s := range scenes {
		b, err := s.broken(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.doing, err)
		}
		if got := verdictOf(&b.Run); got != s.want {
			wrong = append(wrong, fmt.Errorf("%w: %s: got %v, want %v", ErrUnexpected, s.doing, got, s.want))
		}
		all = append(all, b)
	}
	return all, errors.Join(wrong...)
}

// broken plays the scene without and with otelllm.
func (s *scene) broken(ctx context.Context) (Broken, error) {
	before, err := s.play(ctx, nil)
	if err != nil {
		return Broken{}, err
	}
	r, err := newRecorder(ctx)
	if err != nil {
		return Broken{}, err
	}
	after, err := s.play(ctx, r)
	spans, closeErr := r.close(ctx)
	if err := errors.Join(err, closeErr); err != nil {
		return Broken{}, err
	}
	if after != before {
		return Broken{}, fmt.Errorf("the agent got %q without otelllm, and %q with it", before, after)
	}
	runs := spans.All()
	if len(runs) != 1 || runs[0].Decisive() == nil {
		return Broken{}, fmt.Errorf("there are %d runs with a verdict, not 1", len(runs))
	}
	return Broken{Doing: s.doing, Before: before, Run: runs[0], Records: spans.Records(runs[0].TraceID)}, nil
}

// play lets the agent run, and returns what its user sees.
func (s *scene) play(ctx context.Context, record *recorder) (seen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	heard := make(chan struct{}, s.events())
	provider, err := serve(&modelServer{answers: s.answers, heard: heard})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, provider.stop(ctx)) }()
	url := provider.url
	if s.gateway {
		client := newClient(record)
		defer client.CloseIdleConnections()
		between, err := serve(record.handler(&gateway{url, client}))
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, between.stop(ctx)) }()
		url = between.url
	}
	client := newClient(record)
	defer client.CloseIdleConnections()
	seen, failure := (&agent{url: url, client: client, record: record, heard: heard}).run(ctx)
	if failure != nil {
		return withoutAddresses(failure), ctx.Err()
	}
	return seen, nil
}

// newClient returns an HTTP client that the environment's proxies do not change.
func newClient(record *recorder) *http.Client {
	return &http.Client{Transport: record.transport(&http.Transport{})}
}

// withoutAddresses returns the text of an error, of a network's error without the addresses.
func withoutAddresses(err error) string {
	if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network.Err
	}
	return err.Error()
}

// events returns how many events the scene has.
func (s *scene) events() (n int) {
	for _, a := range s.answers {
		n += len(a.events)
	}
	return n
}
