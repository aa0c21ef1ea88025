package sessionfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is a file with one session, or with many.
type File struct {
	Agent   *Agent
	Path    string
	Home    string // the agent's own folder; "" if it is not known
	Size    int64
	Changed time.Time
}

// maxFiles bounds the files of one scan; the newest are read.
const maxFiles = 20_000

// Problem is a file or folder that could not be read. It names no path of a user beyond the file's
// own name.
type Problem struct {
	Name string
	Err  error
}

// Error implements error.
func (p *Problem) Error() string { return p.Name + ": " + cause(p.Err).Error() }

// cause returns an error without the path that it is about.
func cause(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// Discover returns the files in the places that changed since then, the newest first. What cannot
// be read is reported. Symbolic links are not followed.
func Discover(places []Place, since time.Time, report func(*Problem)) []File {
	var files []File
	for _, p := range places {
		root, err := filepath.EvalSymlinks(p.Home) // the home itself may be a link, nothing below it
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			report(&Problem{p.Agent.Title + ", its folder", err})
			continue
		}
		// What cannot be read is reported on the way: the walk itself does not fail.
		_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				report(&Problem{p.Agent.Title + ", a folder of its sessions", err}) // named as a project may be
				return skip(d)
			}
			below, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			below = filepath.ToSlash(below)
			if d.IsDir() {
				if below != "." && !slices.ContainsFunc(p.Patterns, func(pattern string) bool { return leadsTo(pattern, below) }) {
					return fs.SkipDir
				}
				return nil
			}
			if d.Type().IsRegular() && slices.ContainsFunc(p.Patterns, func(pattern string) bool { return matches(pattern, below) }) {
				if f, ok := fileOf(p.Agent, name, p.Home); ok && !f.Changed.Before(since) {
					files = append(files, f)
				}
			}
			return nil
		})
	}
	return newest(files)
}

func skip(d fs.DirEntry) error {
	if d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// newest sorts the files, and drops the oldest if there are too many.
func newest(files []File) []File {
	slices.SortFunc(files, func(a, b File) int {
		if c := b.Changed.Compare(a.Changed); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return files[:min(len(files), maxFiles)]
}

// fileOf returns a file that is one, or that is part of a session's.
func fileOf(a *Agent, name, home string) (File, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return File{}, false
	}
	changed := info.ModTime()
	switch a.Name {
	case Cline:
		if strings.HasSuffix(name, ".messages.json") || filepath.Base(filepath.Dir(name))+".json" != filepath.Base(name) {
			return File{}, false
		}
		changed = latest(changed, messagesOf(name))
	case OpenCode:
		changed = latest(changed, name+"-wal")
	}
	return File{Agent: a, Path: name, Home: home, Size: info.Size(), Changed: changed}, true
}

// latest returns the later of a time and of the time at which a file changed.
func latest(at time.Time, name string) time.Time {
	if info, err := os.Stat(name); err == nil && info.ModTime().After(at) {
		return info.ModTime()
	}
	return at
}

// matches reports whether a path with slashes has a pattern.
func matches(pattern, name string) bool {
	return match(strings.Split(pattern, "/"), strings.Split(name, "/"), false)
}

// leadsTo reports whether what is below a folder may have a pattern.
func leadsTo(pattern, folder string) bool {
	return match(strings.Split(pattern, "/"), strings.Split(folder, "/"), true)
}

func match(pattern, name []string, begins bool) bool {
	switch {
	case len(name) == 0:
		return begins || len(pattern) == 0
	case len(pattern) == 0:
		return false
	case pattern[0] == "**":
		return match(pattern[1:], name, begins) || match(pattern, name[1:], begins)
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && match(pattern[1:], name[1:], begins)
}

// Named returns the files that a user names: files, and folders with an agent's sessions or home.
// Only limits them to one agent; nil for all.
func Named(names []string, only *Agent, since time.Time, report func(*Problem)) ([]File, error) {
	var files []File
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, cause(err))
		}
		if info.IsDir() {
			files = append(files, inFolder(name, only, since, report)...)
			continue
		}
		a := only
		if a == nil {
			if a, err = recognise(name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		f, ok := fileOf(a, name, "")
		if !ok {
			return nil, fmt.Errorf("%s: this is not a session of %s", name, a.Title)
		}
		f.Home = homeOf(a, name)
		files = append(files, f)
	}
	return newest(files), nil
}

// inFolder returns the files of sessions in a folder: a home of an agent, or any other folder.
func inFolder(name string, only *Agent, since time.Time, report func(*Problem)) (files []File) {
	for _, place := range Places(name, func(string) string { return "" }) {
		if only != nil && place.Agent != only {
			continue
		}
		asHome := place
		asHome.Home = name
		for _, f := range Discover([]Place{place, asHome}, since, report) {
			if a, err := recognise(f.Path); err == nil && a == place.Agent { // a user's own folders have such names, too
				files = append(files, f)
			}
		}
	}
	if len(files) > 0 {
		return files
	}
	// What cannot be read is left out: the folder is of any kind.
	_ = filepath.WalkDir(name, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return skip(d)
		case !d.Type().IsRegular() || len(files) >= maxFiles:
			return nil
		}
		a := only
		if a == nil {
			if a, err = recognise(file); err != nil {
				return nil
			}
		}
		if f, ok := fileOf(a, file, homeOf(a, file)); ok && !f.Changed.Before(since) {
			files = append(files, f)
		}
		return nil
	})
	return files
}

// homeOf returns the agent's own folder that a file lies in; "" if its path does not show it.
func homeOf(a *Agent, name string) string {
	full, err := filepath.Abs(name)
	if err != nil {
		return ""
	}
	for _, p := range Places("/", func(string) string { return "" }) {
		if p.Agent != a {
			continue
		}
		for dir := filepath.Dir(full); ; dir = filepath.Dir(dir) {
			below, err := filepath.Rel(dir, full)
			if err == nil && slices.ContainsFunc(p.Patterns, func(pattern string) bool { return matches(pattern, filepath.ToSlash(below)) }) {
				return dir
			}
			if dir == filepath.Dir(dir) {
				return ""
			}
		}
	}
	return ""
}

// errNotKnown is the error for a file of another kind.
var errNotKnown = errors.New("this is not a session of an agent that is known; name it with --agent if it is one")

// maxHead bounds what is read of a file to recognise it.
const maxHead = 64 << 10

// recognise returns the agent whose session a file is, by its content.
func recognise(name string) (*Agent, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxHead))
	if err != nil {
		return nil, cause(err)
	}
	if bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return Find(OpenCode), nil
	}
	if strings.HasSuffix(name, ".zst") {
		return Find(Codex), nil
	}
	for line := range bytes.Lines(head) {
		if a := ofLine(line); a != nil {
			return a, nil
		}
	}
	return nil, errNotKnown
}

// ofLine returns the agent that writes such a line, or nil.
func ofLine(line []byte) *Agent {
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil {
		return nil
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := keys[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("payload", "type", "timestamp"):
		return Find(Codex)
	case has("session_id", "pid", "messages_path"):
		return Find(Cline)
	case has("provenance", "sessionId"):
		return Find(Qwen)
	case has("sessionId", "projectHash"):
		return Find(Gemini)
	case has("type", "sessionId"):
		return Find(Claude)
	case has("type", "id", "version", "cwd"), has("type", "id", "parentId", "message"):
		return Find(Pi)
	default:
		return nil
	}
}

// messagesOf returns the file of the messages of a session of Cline.
func messagesOf(name string) string { return strings.TrimSuffix(name, ".json") + ".messages.json" }
