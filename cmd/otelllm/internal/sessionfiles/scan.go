package sessionfiles

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// Session is one session, judged.
type Session struct {
	Agent   *Agent
	ID      string
	Version string // of the agent; "" if its files do not have it
	Known   bool   // sessions of this version were compared with what had really happened
	Unread  int    // records that could not be read
	Turns   []turns.Judged
}

// Last returns the last turn, or nil.
func (s *Session) Last() *turns.Judged {
	if len(s.Turns) == 0 {
		return nil
	}
	return &s.Turns[len(s.Turns)-1]
}

// Scan is how files are read.
type Scan struct {
	Since  time.Time // sessions that changed before it are left out
	Now    time.Time
	All    bool // all turns are judged, not only the last of each session and the one before it
	Around *Processes
	// Report gets what could not be read. It is called by one goroutine at a time.
	Report func(*Problem)
}

// Sessions reads and judges the sessions of files, in the order of the files. Each gets a session as
// soon as the ones before it are there, so that they need not all be kept.
func (s *Scan) Sessions(ctx context.Context, files []File, each func(*Session)) {
	type result struct {
		sessions []*Session
		problem  *Problem
	}
	workers := min(len(files), runtime.GOMAXPROCS(0))
	results := make([]chan result, len(files))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	const ahead = 16 // files that may be read before those that are waited for
	room := make(chan struct{}, workers+ahead)
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range files {
			select {
			case room <- struct{}{}:
				next <- i
			case <-ctx.Done():
				return
			}
		}
	}()
	var looking sync.Mutex
	for range workers {
		go func() {
			for i := range next {
				list, problem := s.read(ctx, &files[i], &looking)
				results[i] <- result{list, problem}
			}
		}()
	}
	for i := range files {
		select {
		case r := <-results[i]:
			<-room
			if r.problem != nil {
				s.Report(r.problem)
			}
			for _, one := range r.sessions {
				each(one)
			}
		case <-ctx.Done():
			return
		}
	}
}

// read reads and judges the sessions of a file.
func (s *Scan) read(ctx context.Context, f *File, looking *sync.Mutex) ([]*Session, *Problem) {
	since := int64(0)
	if !s.Since.IsZero() {
		since = s.Since.UnixMilli()
	}
	logs, err := Read(ctx, f, since)
	if err != nil {
		return nil, &Problem{f.Agent.Title + ", " + filepath.Base(f.Path), err}
	}
	var list []*Session
	for _, log := range logs {
		looking.Lock() // what is known of the processes is completed on the way
		writer, idle := s.Around.WriterOf(f, log, s.Now)
		looking.Unlock()
		list = append(list, s.judge(f, log, writer, idle))
	}
	return list, nil
}

// judge judges a session.
func (s *Scan) judge(f *File, log *event.Log, writer turns.Writer, idle bool) *Session {
	session := &Session{Agent: f.Agent, ID: log.Session, Version: log.Version, Known: f.Agent.Known(log.Version), Unread: log.Unread}
	all := turns.Build(log, f.Agent.Profile)
	from := 0
	if !s.All {
		from = max(0, len(all)-2)
	}
	for i, t := range all[from:] {
		j := turns.Judge(t, turns.Source{
			Profile: f.Agent.Profile, Session: log.Session, Number: from + i, Writer: writer,
			Careful: log.Unread > 0 || !session.Known,
		})
		if j.State == turns.Running && idle {
			j.State = turns.Waits
		}
		session.Turns = append(session.Turns, j)
	}
	return session
}
