package sessionfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// writable is the permission of the link to an open file that can be written.
const writable = 0o200

// openFiles returns the files that processes have open for writing: a program that only reads a session
// is not its writer. Complete: those of all processes of this user were read.
func openFiles() (open map[string]bool, complete bool) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	open, complete = make(map[string]bool), true
	for _, p := range processes {
		if number(p.Name()) == 0 {
			continue
		}
		folder := filepath.Join("/proc", p.Name(), "fd")
		files, err := os.ReadDir(folder)
		if err != nil {
			if !missing(err) && ownedByUser(filepath.Join("/proc", p.Name())) {
				complete = false
			}
			continue
		}
		for _, f := range files {
			name, err := os.Readlink(filepath.Join(folder, f.Name()))
			if err != nil || name[0] != '/' {
				continue
			}
			if link, err := f.Info(); err == nil && link.Mode()&writable != 0 {
				open[name] = true
			}
		}
	}
	return open, complete
}

// ownedByUser reports whether a file is the user's who runs this program.
func ownedByUser(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// pidNamespace returns the namespace of process ids, as "pid:[4026531836]".
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// startOf returns when a process began, in clock ticks since the system's start: the field 22 of
// its stat, after the name in parentheses.
func startOf(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	const startTime = 22 - 3 // fields after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startTime {
		return ""
	}
	return string(fields[startTime])
}
