package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// followedFile is what was known of a file when it was read last.
type followedFile struct {
	size     int64
	changed  time.Time
	open     bool // a session in it may go on: its process may die without another write
	sessions map[string]followedSession
}

// followedSession is what was said of a session last.
type followedSession struct {
	state turns.State
	turn  time.Time // when its last turn began
}

// follow prints what is not well now, and a line whenever a session dies, ends badly or can be
// judged, at every tick.
func (s *sessionScan) follow(ctx context.Context, now func() time.Time, ticks <-chan time.Time) error {
	known, watch := make(map[string]*followedFile), &sessionfiles.Watch{}
	if err := s.round(ctx, now(), known, watch); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "following; Ctrl-C ends it")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
			if err := s.round(ctx, now(), known, watch); err != nil {
				return err
			}
		}
	}
}

// round reads the files that changed, and those with a session that may go on.
func (s *sessionScan) round(ctx context.Context, now time.Time, known map[string]*followedFile, watch *sessionfiles.Watch) error {
	quiet := *s // what could not be read is said once
	if len(known) > 0 {
		quiet.err = io.Discard
	}
	files, err := quiet.files(s.options.sinceOf(now))
	if err != nil {
		return err
	}
	var due []sessionfiles.File
	for _, f := range files {
		if before := known[f.Path]; before == nil || before.open || before.size != f.Size || !before.changed.Equal(f.Changed) {
			due = append(due, f)
		}
	}
	if len(due) == 0 {
		return nil
	}
	scan := sessionfiles.Scan{Since: s.options.sinceOf(now), Now: now, Around: watch.LookAround(), Report: quiet.problem}
	for i := range due {
		f := &due[i]
		before := known[f.Path]
		entry := &followedFile{size: f.Size, changed: f.Changed, sessions: make(map[string]followedSession)}
		known[f.Path] = entry
		scan.Sessions(ctx, due[i:i+1], func(one *sessionfiles.Session) { s.news(one, before, entry, now) })
	}
	s.bad = s.bad || quiet.bad
	return nil
}

// news prints what is new of a session.
func (s *sessionScan) news(one *sessionfiles.Session, before, entry *followedFile, now time.Time) {
	j := one.Last()
	if j == nil {
		return
	}
	current := followedSession{j.State, j.Start}
	entry.sessions[one.ID] = current
	entry.open = entry.open || j.State == turns.Running || j.State == turns.Waits || j.State == turns.Undetermined && j.Writer == turns.WriterUnknown
	if before != nil && before.sessions[one.ID] == current {
		return
	}
	r := sessionfiles.RecordOf(j)
	if r != nil {
		s.all.take([]report.Record{*r})
	}
	if line, ok := lineOf(one, r); ok && (j.State != turns.Undetermined || !entry.open && !hidesCalls(one)) {
		line.print(s.out, now)
	}
}
