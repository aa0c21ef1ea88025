package agents

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// dotenv returns the first of the files named .env that many programs read at their start,
// and the name in it that is one of names. Programs differ in which of the files they read,
// and in what takes precedence, so its value is not used.
func (b *builder) dotenv(names []string) (file, name string) {
	var dirs []string
	for dir := b.Dir; dir != "" && len(dirs) < maxParents; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if b.Home != "" {
		dirs = append(dirs, b.Home)
	}
	for _, dir := range dirs {
		for _, sub := range []string{".env", filepath.Join(".gemini", ".env"), filepath.Join(".qwen", ".env")} {
			path := filepath.Join(dir, sub)
			if name := setIn(path, names); name != "" {
				return path, name
			}
		}
	}
	return "", ""
}

// maxParents bounds how far up files are looked for.
const maxParents = 64

// setIn returns which of names a file of key=value lines sets first, or "".
func setIn(path string, names []string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export "), "=")
		if !ok || strings.Trim(value, ` "'`) == "" {
			continue
		}
		for _, name := range names {
			if strings.TrimSpace(key) == name {
				return name
			}
		}
	}
	return ""
}
