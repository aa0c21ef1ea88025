package sessionfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
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

// startOf returns when a process that runs began, in clock ticks since the system's start; "" for one that does not.
func startOf(pid int) string {
	state, start := stateOf(pid)
	if ended(state) {
		return ""
	}
	return start
}

// isZombie reports whether a process has ended, and its parent has not asked for its exit status.
func isZombie(pid int) bool {
	state, _ := stateOf(pid)
	return ended(state)
}

func ended(state string) bool { return state == "Z" || state == "X" }

// stateOf returns the state of a process and when it began: the fields 3 and 22 of its stat, of which the second is the name in
// parentheses.
func stateOf(pid int) (state, start string) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", ""
	}
	const firstField, startTime = 3, 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startTime-firstField {
		return "", ""
	}
	return string(fields[0]), string(fields[startTime-firstField])
}

// ticksPerSecond is the unit of times in /proc, which the kernel gives programs on all processors that Go knows.
const ticksPerSecond = 100

// agentProcesses returns the processes of agents that are this user's, in the namespace of this process.
func agentProcesses() (list []agentProcess) {
	processes, err := os.ReadDir("/proc")
	var uptime unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &uptime) != nil {
		return nil
	}
	booted, namespace := time.Now().Add(-time.Duration(uptime.Nano())), pidNamespace()
	for _, d := range processes {
		pid, dir := number(d.Name()), filepath.Join("/proc", d.Name())
		if pid == 0 || !ownedByUser(dir) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		name := agentOf(strings.Split(string(raw), "\x00"))
		if name == "" {
			continue
		}
		folder, err := os.Readlink(filepath.Join(dir, "cwd"))
		if of, inErr := os.Readlink(filepath.Join(dir, "ns", "pid")); err != nil || inErr != nil || of != namespace {
			continue
		}
		start := startOf(pid)
		if ticks := number(start); ticks > 0 {
			began := booted.Add(time.Duration(ticks) * (time.Second / ticksPerSecond))
			list = append(list, agentProcess{process{pid, start}, name, event.FolderOf(folder), began})
		}
	}
	return list
}
