package agents

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// dotenv returns the first of the files named .env that many programs read at their start,
// and the name in it that is one of names. Programs differ in which of the files they read,
// and in what takes precedence, so its value is not used.
func (b *builder) dotenv(names []string) (file, name string) {
	for _, dir := range b.dirs() {
		for _, sub := range []string{".env", filepath.Join(".gemini", ".env"), filepath.Join(".qwen", ".env")} {
			path := filepath.Join(dir, sub)
			if name := setIn(path, names); name != "" {
				return path, name
			}
		}
	}
	return "", ""
}

// dirs returns the working directory, those above it, and the home directory.
func (b *builder) dirs() (dirs []string) {
	for dir := b.Dir; dir != "" && len(dirs) < maxParents; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if b.Home != "" {
		dirs = append(dirs, b.Home)
	}
	return dirs
}

// The variables that say which HTTP proxy is used, and for which hosts none is.
var (
	exceptVars = []string{"NO_PROXY", "no_proxy"}
	proxyVars  = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}
)

// takeDotenv takes the HTTP proxy from the file of variables that the agent reads at its start: the first named .env, or
// FOLDER/.env. One of a project, which the agent may not trust, is only named.
func (b *builder) takeDotenv(folder string) {
	for _, dir := range b.dirs() {
		for _, path := range []string{filepath.Join(dir, folder, ".env"), filepath.Join(dir, ".env")} {
			switch info, err := os.Stat(path); {
			case err != nil || !info.Mode().IsRegular():
				continue
			case dir == b.Home:
				b.file = proxiesIn(path)
			default:
				if name := setIn(path, proxyVars); name != "" {
					b.note("%s sets %s, which otelllm does not use: set it in the environment, too", path, name)
				}
			}
			return
		}
	}
}

// proxiesIn returns the variables of a file of key=value lines that say which HTTP proxy is used.
func proxiesIn(path string) map[string]string {
	found := map[string]string{}
	scan(path, slices.Concat(proxyVars, exceptVars), func(name, value string) bool {
		found[name] = value
		return true
	})
	return found
}

// maxParents bounds how far up files are looked for.
const maxParents = 64

// setIn returns which of names a file of key=value lines sets first, or "".
func setIn(path string, names []string) (first string) {
	scan(path, names, func(name, _ string) bool {
		first = name
		return false
	})
	return first
}

// scan calls found for each of names that a file of key=value lines sets to something, for as long as that returns true.
func scan(path string, names []string, found func(name, value string) bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export "), "=")
		value = strings.Trim(value, ` "'`)
		if key = strings.TrimSpace(key); ok && value != "" && slices.Contains(names, key) && !found(key, value) {
			return
		}
	}
}
