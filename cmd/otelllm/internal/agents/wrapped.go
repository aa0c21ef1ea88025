package agents

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// wrapper is a command that starts another one, which its arguments name.
type wrapper struct {
	words  []string // subcommands that come before the command, as run of `uv run`
	valued []string // flags whose value is the argument after them
	shell  string   // the flag whose value is a line for a shell; its letter counts, as in -lc
	module string   // the flag whose value names the program
	code   string   // the flag whose value is the program
	first  int      // arguments of its own before the command
	assign bool     // NAME=VALUE may come before the command
}

var (
	npx    = wrapper{valued: []string{"-p", "--package"}, shell: "-c"}
	shell  = wrapper{valued: []string{"-o", "-O", "--rcfile", "--init-file"}, shell: "-c"}
	python = wrapper{valued: []string{"-W", "-X"}, module: "-m", code: "-c"}
	uv     = wrapper{
		words:  []string{"run", "tool"},
		valued: []string{"--from", "--with", "-p", "--python", "--directory", "--project", "--env-file", "--extra", "--group", "-i", "--index"},
	}
)

// wrappers are the commands that are looked through for the agent.
var wrappers = map[string]wrapper{
	"env": {valued: []string{"-u", "--unset", "-C", "--chdir"}, assign: true},
	"npx": npx, "bunx": npx, "pnpx": npx,
	"npm":  {words: []string{"exec", "x"}, valued: npx.valued, shell: npx.shell},
	"pnpm": {words: []string{"dlx", "exec"}, valued: npx.valued},
	"yarn": {words: []string{"dlx", "exec", "run"}, valued: npx.valued},
	"bun":  {words: []string{"x", "run"}},
	"deno": {words: []string{"run"}},
	"node": {valued: []string{"-r", "--require", "--import", "--loader", "-C", "--conditions"}, code: "-e"},
	"tsx":  {},
	"uv":   uv, "uvx": uv,
	"pipx":   {words: []string{"run"}, valued: []string{"--spec", "--python"}},
	"poetry": {words: []string{"run"}},
	"python": python, "python3": python,
	"bash": shell, "sh": shell, "zsh": shell, "dash": shell, "ksh": shell,
	"nice":    {valued: []string{"-n"}},
	"nohup":   {},
	"setsid":  {},
	"stdbuf":  {valued: []string{"-i", "-o", "-e"}},
	"time":    {valued: []string{"-f", "-o"}},
	"timeout": {valued: []string{"-s", "--signal", "-k", "--kill-after"}, first: 1},
	"command": {}, "exec": {},
}

// place is where a command names the agent: an argument, or words of a line for a shell that
// an argument is.
type place struct {
	arg      int
	ends     []int    // in the line, where the words end that name the agent; nil: the argument names it
	line     []string // the words of the line after the first of these
	assigned []int    // the arguments NAME=VALUE on the way to it
}

// locate returns the agent that a command starts, also through wrappers, and where it is named.
func locate(args []string) (agent Agent, at place, ok bool) {
	table := Table()
	for i := 0; i < len(args); {
		if j := slices.IndexFunc(table, func(a Agent) bool { return a.startedBy(args[i]) }); j >= 0 {
			at.arg = i
			return table[j], at, true
		}
		w, known := wrappers[path.Base(filepath.ToSlash(args[i]))]
		if !known {
			return Agent{}, place{}, false
		}
		next, line := w.command(args, i+1, &at)
		if line {
			return locateInLine(args, next, at)
		}
		i = next
	}
	return Agent{}, place{}, false
}

// command returns the index of the argument that names the command of a wrapper, whose
// arguments begin at i. Line is set if that argument is a line for a shell.
func (w *wrapper) command(args []string, i int, at *place) (command int, line bool) {
	for ; i < len(args); i++ {
		arg := args[i]
		name, _, assigns := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return i + 1 + w.first, false
		case w.shell != "" && isShellFlag(arg, w.shell):
			return i + 1, true
		case w.module != "" && arg == w.module:
			return i + 1, false
		case w.code != "" && arg == w.code:
			return len(args), false
		case slices.Contains(w.valued, arg):
			i++
		case strings.HasPrefix(arg, "-"), slices.Contains(w.words, arg):
		case w.assign && assigns && name != "":
			at.assigned = append(at.assigned, i)
		default:
			return i + w.first, false
		}
	}
	return i, false
}

// isShellFlag reports whether arg is the flag, alone or with others: -c, -lc.
func isShellFlag(arg, flag string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.HasSuffix(arg, flag[1:])
}

// locateInLine looks for the agent in an argument that is a line for a shell.
func locateInLine(args []string, i int, at place) (Agent, place, bool) {
	if i >= len(args) {
		return Agent{}, place{}, false
	}
	at.arg = i
	var found Agent
	for _, command := range shellCommands(args[i]) {
		words := make([]string, len(command))
		for j, w := range command {
			words[j] = w.text
		}
		agent, inner, ok := locate(words)
		if !ok || inner.ends != nil || found.Name != "" && agent.Name != found.Name {
			continue
		}
		if found.Name == "" {
			found, at.line = agent, words[inner.arg+1:]
		}
		at.ends = append(at.ends, command[inner.arg].end)
	}
	return found, at, found.Name != ""
}

// word is a word of a line for a shell.
type word struct {
	text string // as it is written, without quotes around it
	end  int
}

// beforeCommand are words after which a command comes.
var beforeCommand = []string{"if", "then", "else", "elif", "while", "until", "do", "!", "{"}

// shellCommands returns the words of the commands of a line for a shell. It knows quotes and
// what stands between commands, and leaves assignments before a command out.
func shellCommands(line string) (commands [][]word) {
	var command []word
	flush := func() {
		if len(command) > 0 {
			commands = append(commands, command)
		}
		command = nil
	}
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case strings.IndexByte("\n;&|()", c) >= 0:
			flush()
			i++
		default:
			end := wordEnd(line, i)
			text := strings.Trim(line[i:end], `"'`)
			name, _, assigns := strings.Cut(text, "=")
			switch {
			case len(command) == 0 && slices.Contains(beforeCommand, text):
			case len(command) == 0 && assigns && isBareKey(name):
			default:
				command = append(command, word{text, end})
			}
			i = end
		}
	}
	flush()
	return commands
}

// wordEnd returns where the word ends that begins at i.
func wordEnd(line string, i int) int {
	var quote byte
	for ; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte(" \t\n;&|()", c) >= 0:
			return i
		}
	}
	return min(i, len(line))
}

// quoted returns an argument as a word of a line for a shell.
func quoted(arg string) string {
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
