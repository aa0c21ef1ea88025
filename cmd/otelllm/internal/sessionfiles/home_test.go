package sessionfiles

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHomesTable compares the table of docs/sessions.md with where the files are searched: without a
// variable, and with each one that it names.
func TestHomesTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "sessions.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "## Where the files are")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	home := t.TempDir()
	places := make(map[string]Place)
	for _, p := range Places(home, func(string) string { return "" }) {
		places[p.Agent.Title] = p
	}
	code := regexp.MustCompile("`([^`]+)`")
	texts := func(cell string) (list []string) {
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			list = append(list, m[1])
		}
		return list
	}
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || len(texts(cells[2])) != 1 {
			continue
		}
		rows++
		title := strings.TrimSpace(cells[1])
		p, ok := places[title]
		require.True(t, ok, title)
		assert.Equal(t, filepath.Join(home, filepath.FromSlash(texts(cells[2])[0])), p.Home, title)
		assert.Equal(t, texts(cells[3]), p.Patterns, title)
		for _, variable := range texts(cells[4]) {
			set := filepath.Join(home, "elsewhere")
			for _, changed := range Places(home, func(key string) string {
				if key == variable {
					return set
				}
				return ""
			}) {
				moved := changed.Home == set || strings.HasPrefix(changed.Home, set+string(filepath.Separator)) || filepath.Join(changed.Home, changed.Patterns[0]) == set
				assert.Equal(t, changed.Agent.Title == title, moved, "%s of %s, set by %s", changed.Home, changed.Agent.Title, variable)
			}
		}
	}
	assert.Equal(t, len(Agents), rows)
}
