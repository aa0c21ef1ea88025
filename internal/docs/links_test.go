package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	codeBlock      = regexp.MustCompile("(?s)```.*?```")
)

// TestLinks: every link from one page of this repository to another leads to a file, and to a heading where it names one.
// Links lead from the index to every page of docs.
func TestLinks(t *testing.T) {
	links, from := 0, map[string][]string{}
	for _, page := range files(t, ".md") {
		if strings.HasPrefix(page, "test/e2e/agents/") || path.Base(page) == "page.md" && strings.HasPrefix(page, "test/e2e/") {
			continue // the template of a page in docs, where its links start
		}
		for _, match := range linkPattern.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
			to, err := url.Parse(match[1])
			if err != nil || to.IsAbs() {
				continue
			}
			links++
			target := page
			if to.Path != "" {
				target = path.Join(path.Dir(page), to.Path)
			}
			from[page] = append(from[page], target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); !assert.NoError(t, err, "%s links to %s", page, match[1]) || to.Fragment == "" {
				continue
			}
			assert.Contains(t, anchors(read(t, target)), to.Fragment, "%s links to %s", page, match[1])
		}
	}
	assert.Greater(t, links, 100)

	const index = "docs/README.md"
	reached := map[string]bool{index: true}
	for next := []string{index}; len(next) > 0; next = next[1:] {
		for _, target := range from[next[0]] {
			if !reached[target] {
				reached[target] = true
				next = append(next, target)
			}
		}
	}
	for _, page := range files(t, ".md") {
		if strings.HasPrefix(page, "docs/") {
			assert.True(t, reached[page], "no link leads from %s to %s", index, page)
		}
	}
}

// anchors returns the anchors that GitHub makes from a page's headings.
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
