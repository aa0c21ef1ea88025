package sessionfiles

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// Watch knows when the process of a session is gone of which its agent leaves no sign, such as a lock: by the processes of that
// agent that were seen in the session's working folder, on Linux. Of a process that it has not seen, such as one in a container
// or on another machine, it knows nothing. It keeps no name, command line or path.
type Watch struct {
	sessions map[watchedSession]*sighting
}

type watchedSession struct{ file, session string }

// sighting is what was seen of the processes that may write the last turn of a session.
type sighting struct {
	turn      time.Time // when it began
	processes []process
	gone      int // times in a row that none of them ran
	// The file when they were gone. A later change is not theirs.
	size    int64
	changed time.Time
	others  bool // another process writes it
}

const (
	// goneAfter is how many times in a row no process is there until it counts as gone.
	goneAfter = 2
	// clockError is how much later than a turn the process that writes it may seem to have begun.
	clockError = time.Second
)

// process is one that runs, or has run.
type process struct {
	pid   int
	start string // in the system's clock ticks
}

// agentProcess is a process of an agent.
type agentProcess struct {
	process
	agent  string
	folder event.Folder
	began  time.Time
}

// LookAround returns what is known of processes now.
func (w *Watch) LookAround() *Processes {
	p := LookAround()
	p.watch, p.agents = w, agentProcesses()
	return p
}

// writer returns what the processes that were seen say of the writer of a session: dead, alive, or unknown. A process that began
// after the turn does not write it.
func (w *Watch) writer(f *File, log *event.Log, now *Processes) turns.Writer {
	turn := log.TurnBegan()
	if w == nil || log.Folder == (event.Folder{}) || turn.IsZero() {
		return turns.WriterUnknown
	}
	key := watchedSession{f.Path, log.Session}
	s := w.sessions[key]
	if s == nil || !s.turn.Equal(turn) {
		s = &sighting{turn: turn}
		if w.sessions == nil {
			w.sessions = make(map[watchedSession]*sighting)
		}
		w.sessions[key] = s
	}
	for _, p := range now.agents {
		if p.agent == f.Agent.Name && p.folder == log.Folder && !p.began.After(turn.Add(clockError)) && !slices.Contains(s.processes, p.process) {
			s.processes = append(s.processes, p.process)
		}
	}
	return s.writer(f)
}

func (s *sighting) writer(f *File) turns.Writer {
	switch {
	case len(s.processes) == 0 || s.others:
		return turns.WriterUnknown
	case slices.ContainsFunc(s.processes, process.runs):
		s.gone = 0
		return turns.WriterAlive
	}
	switch s.gone++; {
	case s.gone == goneAfter:
		s.size, s.changed = f.Size, f.Changed
	case s.gone > goneAfter:
		s.others = s.size != f.Size || !s.changed.Equal(f.Changed)
	}
	if s.gone < goneAfter || s.others {
		return turns.WriterUnknown
	}
	return turns.WriterDead
}

// runs reports whether the process runs.
func (p process) runs() bool { return startOf(p.pid) == p.start }

// interpreters run agents that are scripts.
var interpreters = []string{"node", "nodejs", "bun"}

// agentOf returns the name of the agent that a command line is of, as its program or as the script of an interpreter, which may be
// of the agent's npm package; "" for another program.
func agentOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	name := programName(args[0])
	if slices.Contains(interpreters, name) {
		script := slices.IndexFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		if script < 0 {
			return ""
		}
		name = programName(args[1+script])
		if of := packageOf(args[1+script]); of != "" {
			name = of
		}
	}
	for _, a := range Agents {
		if name == a.Name || name == a.Profile.Agent {
			return a.Name
		}
	}
	return ""
}

// packageOf returns the name of the npm package that a script is of, without its scope; "" for none.
func packageOf(script string) string {
	const folder = "/node_modules/"
	script = filepath.ToSlash(script)
	at := strings.LastIndex(script, folder)
	if at < 0 {
		return ""
	}
	below := strings.TrimPrefix(script[at:], folder)
	if strings.HasPrefix(below, ".bin/") {
		return ""
	}
	if scope, rest, _ := strings.Cut(below, "/"); strings.HasPrefix(scope, "@") {
		below = rest
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

// programName returns the name of a program without its folder, and without the end of a script's name.
func programName(file string) string {
	name := path.Base(filepath.ToSlash(file))
	for _, end := range []string{".js", ".mjs", ".cjs"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
