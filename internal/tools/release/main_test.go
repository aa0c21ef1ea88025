package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repositoryOf makes a repository with these files, tagged as v0.0.1, as sub/v0.0.1 and as other/v0.0.1.
func repositoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "all"},
		{"tag", "v0.0.1"},
		{"tag", "sub/v0.0.1"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

var twoModules = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26.0\n", "m.go": "package m\n\nconst Word = \"root\"\n",
	"sub/go.mod": "module example.com/m/sub\n\ngo 1.26.0\n", "sub/s.go": "package sub\n",
}

func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, files)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// The go command fetches what proxy wrote, and computes the checksums that sums printed.
func TestGoFetchesFromTheProxy(t *testing.T) {
	repository, target := repositoryOf(t, twoModules), t.TempDir()
	if err := run([]string{"proxy", "-repository", repository, "-out", target, "v0.0.1", ".", "sub"}, nil); err != nil {
		t.Fatal(err)
	}
	t.Chdir(repository)
	var sums strings.Builder
	if err := run([]string{"sums", "v0.0.1", ".", "sub"}, &sums); err != nil {
		t.Fatal(err)
	}
	consumer, cache := t.TempDir(), t.TempDir()
	t.Chdir(consumer)
	goCommand := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOPROXY=file://"+target, "GONOSUMDB=*", "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v: %s", args, err, out)
		}
	}
	goCommand("mod", "init", "example.com/consumer")
	goCommand("get", "example.com/m@v0.0.1", "example.com/m/sub@v0.0.1")
	got, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != sums.String() {
		t.Errorf("go.sum is\n%s, sums printed\n%s", got, sums.String())
	}
}

// Modules that the go command cannot fetch or install.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		folder string
		want   string
	}{
		"a reserved name":   {with(twoModules, "testdata/nul", "x"), ".", "malformed file path"},
		"two cases":         {with(twoModules, "a/x.go", "package a", "A/x.go", "package a"), ".", "case-insensitive"},
		"a replacement":     {with(twoModules, "sub/go.mod", "module example.com/m/sub\n\nreplace example.com/m => ..\n"), "sub", "replace directive, of example.com/m"},
		"another path":      {with(twoModules, "sub/go.mod", "module example.com/m/sub/v2\n"), "sub", "should be v2"},
		"no tag":            {twoModules, "other", "other at v0.0.1: git show"},
		"a broken go.mod":   {with(twoModules, "go.mod", "module example.com/m\n\nrequire\n"), ".", "go.mod:3"},
		"no module's name":  {with(twoModules, "go.mod", "go 1.26.0\n"), ".", "malformed module path"},
		"none of its files": {with(twoModules, "sub/go.mod", ""), "sub", "malformed module path"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run([]string{"proxy", "-repository", repositoryOf(t, tt.files), "-out", t.TempDir(), "v0.0.1", tt.folder}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
	for _, args := range [][]string{nil, {"pack", "v0.0.1", "."}, {"sums"}, {"sums", "v0.0.1"}, {"proxy", "v0.0.1", "."}, {"proxy", "-to", "x", "v0.0.1", "."}} {
		if err := run(args, nil); err == nil {
			t.Errorf("release %v: no error", args)
		}
	}
}
