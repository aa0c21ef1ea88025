package event

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// maxEvents bounds the events of one session that are kept. The oldest go first.
const maxEvents = 1 << 17

// Log is what was read of one session.
type Log struct {
	Session string // the agent's id of the session
	Version string // of the agent, as it wrote it; "" if it did not
	PID     int    // of the process that writes, if the session says so
	Folder  Folder // in which it began; zero if it is not recorded
	Events  []Event

	// Began are the sessions of sub-agents by the calls that began them, as far as the agent records them.
	Began map[string]string
	// SubAgents are the logs of sub-agents of which no output shows that they ended well, by the calls that began them.
	SubAgents map[string]*Log

	// Partial: records before these were not read, or were dropped.
	Partial bool
	// Unread counts records that could not be read, or that are not of a known kind.
	Unread int
	// Finished: the session's own record says that its process ended by itself.
	Finished bool
}

// Add adds an event. Strings that are not ids, names or codes by their shape are replaced.
func (l *Log) Add(e Event) {
	e.Turn, e.ID = classify.SanitizeID(e.Turn), classify.SanitizeID(e.ID)
	e.Name, e.Code = name(e.Name), name(e.Code)
	if len(l.Events) >= maxEvents {
		l.Events = append(l.Events[:0], l.Events[len(l.Events)/2:]...)
		l.Partial = true
	}
	l.Events = append(l.Events, e)
}

// SetSession sets the id of the session, unless one is set, and the version of the agent.
func (l *Log) SetSession(id, version string) {
	if l.Session == "" {
		l.Session = classify.SanitizeID(id)
	}
	if v := name(version); v != "" {
		l.Version = v
	}
}

// Folder is a working folder: the SHA-256 of its path.
type Folder [sha256.Size]byte

// FolderOf returns the folder with this path.
func FolderOf(path string) Folder { return sha256.Sum256([]byte(path)) }

// SetFolder sets the folder in which the session began, unless one is set or it is not known.
func (l *Log) SetFolder(path string) {
	if l.Folder == (Folder{}) && path != "" {
		l.Folder = FolderOf(path)
	}
}

// maxBegan bounds the sub-agents of one session whose sessions are known.
const maxBegan = 1_000

// Begin records that a call began a sub-agent with a session of its own.
func (l *Log) Begin(call, session string) {
	call, session = classify.SanitizeID(call), classify.SanitizeID(session)
	if call == "" || session == "" || len(l.Began) >= maxBegan {
		return
	}
	if l.Began == nil {
		l.Began = make(map[string]string)
	}
	l.Began[call] = session
}

// The bounds of the sub-agents of one session that are read.
const (
	maxSubAgents = 100 // in all; the newest calls come first
	maxDepth     = 4   // of a sub-agent below others
)

// AddSubAgents adds the logs of the sub-agents that no output shows to have ended well, and of theirs below them. Tools are the names
// of the tools that begin one. Read returns the log of the sub-agent that a call in a log began; nil if it is not found or cannot be
// read.
func (l *Log) AddSubAgents(tools []string, read func(of *Log, call string) *Log) {
	left := maxSubAgents
	l.addSubAgents(tools, read, &left, 0)
}

func (l *Log) addSubAgents(tools []string, read func(of *Log, call string) *Log, left *int, depth int) {
	for _, call := range slices.Backward(l.unended(tools)) {
		if *left == 0 {
			return
		}
		*left--
		sub := read(l, call)
		if sub == nil {
			continue
		}
		if l.SubAgents == nil {
			l.SubAgents = make(map[string]*Log)
		}
		l.SubAgents[call] = sub
		if depth < maxDepth {
			sub.addSubAgents(tools, read, left, depth+1)
		}
	}
}

// unended returns the calls of these tools whose outputs do not show that they ended well, in order.
func (l *Log) unended(tools []string) (calls []string) {
	for i := range l.Events {
		switch e := &l.Events[i]; {
		case (e.Kind == Call || e.Kind == LateCall) && e.ID != "" && slices.Contains(tools, e.Name) && !slices.Contains(calls, e.ID):
			calls = append(calls, e.ID)
		case e.Kind == Output && e.Outcome == Succeeded:
			calls = slices.DeleteFunc(calls, func(id string) bool { return id == e.ID })
		}
	}
	return calls
}

// name returns a name or a code as it may be shown; "" if it may not.
func name(s string) string {
	if s = classify.SanitizeCode(s); s == classify.Redacted {
		return ""
	}
	return s
}

// ParseTime parses a time as JSON has it; it returns the zero time for another text.
func ParseTime(s string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Millis returns the time of milliseconds since 1970; the zero time for one that is not valid.
func Millis(ms int64) time.Time {
	const most = 1 << 43 // in the year 2248
	if ms <= 0 || ms > most {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// TurnBegan returns when the last turn began; zero if that is not known.
func (l *Log) TurnBegan() time.Time {
	for _, e := range slices.Backward(l.Events) {
		if e.Kind == Turn {
			return e.Time
		}
	}
	return time.Time{}
}

// Last returns the time of the last event; zero for a log without any.
func (l *Log) Last() time.Time {
	for _, e := range slices.Backward(l.Events) {
		if !e.Time.IsZero() {
			return e.Time
		}
	}
	return time.Time{}
}
