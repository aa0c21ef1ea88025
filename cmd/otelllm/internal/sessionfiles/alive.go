package sessionfiles

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// silentAfter is how long nothing may be written until a session of which no process is known
// counts as left alone. A tool may run for long.
const silentAfter = time.Hour

// retriesWithin is how long after an error an agent may try again by itself.
const retriesWithin = 2 * time.Minute

// Processes is what is known of the processes of this machine, at one moment. The zero value knows
// nothing.
type Processes struct {
	watch *Watch // nil without --follow

	open     map[string]bool         // files that a process has open for writing
	complete bool                    // those of all processes of this user are in open
	writers  map[string]claudeWriter // of Claude Code, by session
	homes    map[string]bool         // whose writers are in writers
	agents   []agentProcess          // with --follow

	ended *agentProcess // nil: of no process it is known that it has ended
}

// claudeWriter is a process of Claude Code that writes a session.
type claudeWriter struct {
	alive bool
	idle  bool // it waits for a person
}

// LookAround returns what is known of processes now.
func LookAround() *Processes {
	p := &Processes{writers: make(map[string]claudeWriter), homes: make(map[string]bool)}
	p.open, p.complete = openFiles()
	return p
}

// WriterOf returns what is known of the process that writes a session. Idle: it waits for a person.
func (p *Processes) WriterOf(f *File, log *event.Log, now time.Time) (w turns.Writer, idle bool) {
	switch f.Agent.Name {
	case Codex:
		w = lockOf(f, log)
	case Claude:
		w, idle = p.claude(f, log)
	case OpenCode:
		w = p.holder(f.Path)
		if w == turns.WriterAlive && quiet(log.Last(), now) {
			w = turns.WriterUnknown // it has another session open
		}
	case Cline:
		w = ofPID(log.PID)
	}
	if w != turns.WriterUnknown {
		return w, idle
	}
	switch seen := p.watch.writer(f, log, p); {
	case p.hasEnded(f, log), seen == turns.WriterDead, seen == turns.WriterUnknown && quiet(f.Changed, now):
		w = turns.WriterGone
	case seen == turns.WriterAlive && now.Sub(log.Last()) < retriesWithin: // later it may be at work on another session
		w = turns.WriterAlive
	}
	return w, idle
}

// Ended tells that the process of an agent that worked in this folder has ended, as the caller has waited for it.
func (p *Processes) Ended(agent, folder string) {
	if actual, err := filepath.EvalSymlinks(folder); err == nil {
		folder = actual
	}
	p.ended, p.agents = &agentProcess{agent: agent, folder: event.FolderOf(folder)}, agentProcesses()
}

// hasEnded reports whether the process that wrote a session has ended. It may have been a launcher, whose child goes on, and
// another may be at work in the same folder: none may be left.
func (p *Processes) hasEnded(f *File, log *event.Log) bool {
	writes := func(of agentProcess) bool { return of.agent == f.Agent.Name && of.folder == log.Folder }
	return p.complete && p.ended != nil && writes(*p.ended) && !slices.ContainsFunc(p.agents, writes)
}

// quiet reports whether something happened too long ago for a process to be at work.
func quiet(last, now time.Time) bool { return now.Sub(last) > silentAfter }

// lockOf returns what the lock of Codex says, which it holds while it writes a session.
func lockOf(f *File, log *event.Log) turns.Writer {
	if f.Home == "" || log.Session == "" || strings.ContainsAny(log.Session, `/\`) {
		return turns.WriterUnknown
	}
	folder := filepath.Join(f.Home, "thread-writer-locks")
	held, err := locked(filepath.Join(folder, log.Session+".lock"))
	switch {
	case missing(err) && f.Agent.Known(log.Version) && isFolder(folder):
		return turns.WriterDead // the next process has removed what the dead one left
	case err != nil: // older versions have no locks
		return turns.WriterUnknown
	case held:
		return turns.WriterAlive
	default:
		return turns.WriterDead
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// holder returns what the open files say of the writer of a file that is open while it is written.
func (p *Processes) holder(name string) turns.Writer {
	full, err := filepath.Abs(name)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	switch {
	case err != nil:
		return turns.WriterUnknown
	case p.open[full]:
		return turns.WriterAlive
	case p.complete && ownedByUser(full):
		return turns.WriterDead
	default:
		return turns.WriterUnknown
	}
}

// ofPID returns whether a process runs.
func ofPID(pid int) turns.Writer {
	switch running, known := runs(pid); {
	case pid <= 0 || !known:
		return turns.WriterUnknown
	case running:
		return turns.WriterAlive
	default:
		return turns.WriterDead
	}
}

// claude returns what the folder sessions of Claude Code says. It has a file for each process, which
// a process that is killed leaves there.
func (p *Processes) claude(f *File, log *event.Log) (turns.Writer, bool) {
	if f.Home == "" {
		return turns.WriterUnknown, false
	}
	if !p.homes[f.Home] {
		p.homes[f.Home] = true
		p.readClaude(filepath.Join(f.Home, "sessions"))
	}
	w, ok := p.writers[log.Session]
	switch {
	case !ok:
		return turns.WriterUnknown, false
	case w.alive:
		return turns.WriterAlive, w.idle
	default:
		return turns.WriterDead, false
	}
}

const (
	maxClaudeFile  = 64 << 10
	maxClaudeFiles = 1_000
)

// readClaude reads the files of the processes of Claude Code.
func (p *Processes) readClaude(folder string) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, d := range files[:min(len(files), maxClaudeFiles)] {
		info, err := d.Info()
		if filepath.Ext(d.Name()) != ".json" || err != nil || !info.Mode().IsRegular() || info.Size() > maxClaudeFile {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, d.Name()))
		if err != nil {
			continue
		}
		var file struct {
			PID       int    `json:"pid"`
			SessionID string `json:"sessionId"`
			ProcStart string `json:"procStart"`
			Domain    string `json:"pidDomain"`
			Status    string `json:"status"`
		}
		if json.Unmarshal(raw, &file) != nil || file.PID <= 0 || file.SessionID == "" || elsewhere(file.Domain) {
			continue
		}
		running, known := runs(file.PID)
		if !known {
			continue
		}
		if start := startOf(file.PID); running && start != "" && file.ProcStart != "" && start != file.ProcStart {
			running = false // another process has its id now
		}
		if before := p.writers[file.SessionID]; !before.alive {
			p.writers[file.SessionID] = claudeWriter{alive: running, idle: running && file.Status != "busy" && file.Status != ""}
		}
	}
}

// elsewhere reports whether a process with an id of this domain is on another machine, or in
// another namespace of process ids. Claude Code writes linux:MACHINE:pid:[NUMBER].
func elsewhere(domain string) bool {
	at := strings.LastIndex(domain, "pid:[")
	here := pidNamespace()
	return at >= 0 && here != "" && domain[at:] != here
}

// missing reports whether an error says that a file is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// number parses a positive number; 0 for anything else.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
