package main

import (
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// follower writes files while runs end, at most once a second.
type follower struct {
	stop, stopped chan struct{}
}

// follow calls ended with the runs that have ended, whenever there are some: a run with later changes comes again.
func follow(store *runs.Store, ended func([]report.Record)) *follower {
	f := &follower{stop: make(chan struct{}), stopped: make(chan struct{})}
	go f.run(store, ended)
	return f
}

const (
	// followPause is the least time between two calls.
	followPause = time.Second
	// followShare bounds the time that the calls take, to a twentieth.
	followShare = 20
)

func (f *follower) run(store *runs.Store, ended func([]report.Record)) {
	defer close(f.stopped)
	var seen uint64 // number of the last change
	wait := time.Duration(0)
	for {
		changed := store.Changed()
		traces, _ := store.Since(seen, maxFollowed)
		var records []report.Record
		for _, t := range traces {
			seen = t.Change
			for i := range t.Records {
				if t.Records[i].Kind == report.RecordRun && text(&t.Records[i], semconv.RunOutcomeKey) != "" {
					records = append(records, t.Records[i])
				}
			}
		}
		if len(records) > 0 {
			began := time.Now()
			ended(records)
			wait = max(followPause, followShare*time.Since(began))
		}
		if len(traces) == 0 {
			select {
			case <-changed:
			case <-f.stop:
				return
			}
		}
		select {
		case <-time.After(wait):
		case <-f.stop:
			return
		}
	}
}

// maxFollowed bounds how many records are written in one go.
const maxFollowed = 1000

// close returns when nothing is written any more. A nil follower follows nothing.
func (f *follower) close() {
	if f != nil {
		close(f.stop)
		<-f.stopped
	}
}
