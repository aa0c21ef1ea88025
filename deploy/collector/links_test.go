package collector

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	codeBlock      = regexp.MustCompile("(?s)```.*?```")
)

// Every link from one page of this repository to another leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	links := 0
	for _, path := range pages(t) {
		for _, match := range linkPattern.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, path), ""), -1) {
			to, err := url.Parse(match[1])
			if err != nil || to.IsAbs() {
				continue
			}
			links++
			target := path
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s links to %s", path, match[1]) || to.Fragment == "" {
				continue
			}
			assert.Contains(t, anchors(read(t, target)), to.Fragment, "%s links to %s", path, match[1])
		}
	}
	assert.Greater(t, links, 100)
}

// pages returns the pages of this repository, without the template of a page in docs, whose links start there.
func pages(t *testing.T) (found []string) {
	t.Helper()
	const root = "../.."
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (name == "build" || name == "node_modules" || name == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" && !strings.HasSuffix(filepath.ToSlash(path), "e2e/instrumentations/page.md") {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// anchors are what GitHub makes of the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range headingPattern.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				return r
			default:
				return -1
			}
		}, strings.ToLower(heading[1]))
		found[anchor] = true
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
