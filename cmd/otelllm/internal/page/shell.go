package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"strings"
)

//go:embed assets
var assets embed.FS

// scripts are the parts of the page's one script, in order.
var scripts = []string{"base.js", "time.js", "model.js", "data.js", "list.js", "picture.js", "steps.js", "detail.js", "app.js"}

// shell is the page around its data.
type shell struct{ before, after string }

var (
	fileShell = newShell("'none'") // a file has no one to talk to
	liveShell = newShell("'self'")
)

// newShell returns the page that may connect to the given source, and to nothing else. The
// policy has the hashes of the style and of the script, so that nothing that the data contains
// could ever be one.
func newShell(connect string) shell {
	style := asset("page.css")
	parts := []string{"(() => {\n'use strict';\n"}
	for _, name := range scripts {
		parts = append(parts, asset(name))
	}
	script := strings.Join(append(parts, "})();\n"), "")
	policy := strings.Join([]string{
		"default-src 'none'", "style-src " + hash(style), "script-src " + hash(script), "connect-src " + connect,
		"img-src data:", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
	page := strings.NewReplacer("{{policy}}", policy, "{{style}}", style).Replace(asset("page.html"))
	before, after, _ := strings.Cut(page, "{{data}}")
	return shell{before, strings.Replace(after, "{{script}}", script, 1)}
}

func asset(name string) string {
	raw, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(raw)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
}
