package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ourModules is the prefix of the paths of this repository's modules.
const ourModules = "github.com/otelllm/otelllm-go"

// allowed are the licences that a dependency may have. Each is one under which a binary may be passed on with a notice.
// MPL-2.0 asks for the source of the files that are under it, which the module proxy has. SQLite is in the public domain.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", publicDomain}

const publicDomain = "public domain"

// texts are words by which a licence is known, with one blank between words and in lower case. The first that fits is
// the licence of a file. Those that are not allowed come first: a file may quote an allowed one beside them.
var texts = []struct {
	license string
	words   []string
}{
	{"AGPL", []string{"gnu affero general public license version"}},
	{"LGPL", []string{"gnu lesser general public license version"}},
	{"GPL", []string{"gnu general public license version"}},
	{"SSPL", []string{"server side public license"}},
	{"BUSL", []string{"business source license"}},
	{"Commons Clause", []string{"commons clause"}},
	{"Elastic", []string{"elastic license"}},
	{"MPL-2.0", []string{"mozilla public license", "2.0", "covered software"}},
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "may not be used to endorse"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "without restriction"}},
	{publicDomain, []string{"all of the code and documentation in sqlite has been dedicated to the public domain by the authors"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"}},
}

// licenseOf returns the licence of a file by its text, or "" if it is not known.
func licenseOf(text []byte) string {
	words := strings.ToLower(strings.Join(strings.Fields(string(text)), " "))
	for _, t := range texts {
		if !slices.ContainsFunc(t.words, func(w string) bool { return !strings.Contains(words, w) }) {
			return t.license
		}
	}
	return ""
}

// licenseFile is how files with a licence, or with what has to be passed on beside it, are named.
var licenseFile = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// dependency is a module that is compiled in, with its files that have to be passed on.
type dependency struct {
	path, version string
	license       string            // of its first file that has one
	files         map[string][]byte // by path from the root of the module
}

// printLicenses checks the licences of what the programs and libraries in a folder consist of on all three systems,
// without tests, and writes all notices to a file if it has a name.
func printLicenses(out io.Writer, folder, notices string) error {
	found := map[string]*dependency{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		if err := addDependencies(found, folder, system); err != nil {
			return err
		}
	}
	if err := checkLicenses(found); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, d := range found {
		counts[d.license]++
	}
	fmt.Fprintf(out, "%s: %d modules", folder, len(found))
	for _, license := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, ", %d %s", counts[license], license)
	}
	fmt.Fprintln(out)
	if notices == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(notices), 0o755); err != nil {
		return err
	}
	text, err := noticesOf(found)
	if err != nil {
		return err
	}
	return os.WriteFile(notices, text, 0o644)
}

// addDependencies adds the modules that are compiled in on a system.
func addDependencies(found map[string]*dependency, folder, system string) error {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./...")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var said strings.Builder
	cmd.Stderr = &said
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(said.String()))
	}
	for packages := json.NewDecoder(bytes.NewReader(list)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main || p.Module.Path == ourModules || strings.HasPrefix(p.Module.Path, ourModules+"/") {
			continue
		}
		d := found[p.Module.Path]
		if d == nil {
			d = &dependency{path: p.Module.Path, version: p.Module.Version, files: map[string][]byte{}}
			found[p.Module.Path] = d
		}
		if err := d.addFiles(p.Module.Dir, p.Dir); err != nil {
			return err
		}
	}
}

// addFiles adds the files of a package's folder and of all those above it, up to that of the module.
func (d *dependency) addFiles(root, dir string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			if d.files[filepath.ToSlash(name)], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if dir == root || len(dir) <= len(root) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// isLicense reports whether a file is a licence of what is compiled in, rather than a notice beside one or the source of
// a picture.
func isLicense(name string) bool {
	base := strings.ToLower(filepath.Base(name))
	return base != "license-logo" && !strings.HasPrefix(base, "notice") && !strings.HasPrefix(base, "patents") && !strings.HasPrefix(base, "copyright")
}

// checkLicenses requires a licence of every module, and that all its licences are allowed.
func checkLicenses(found map[string]*dependency) error {
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(found)) {
		d := found[path]
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			if !isLicense(name) {
				continue
			}
			license := licenseOf(d.files[name])
			switch {
			case license == "":
				errs = append(errs, fmt.Errorf("%s %s: the licence in %s is not known", path, d.version, name))
			case !slices.Contains(allowed, license):
				errs = append(errs, fmt.Errorf("%s %s: %s is %s, which is not allowed", path, d.version, name, license))
			}
			if d.license == "" || !strings.Contains(name, "/") {
				d.license = license
			}
		}
		if d.license == "" {
			errs = append(errs, fmt.Errorf("%s %s: there is no licence", path, d.version))
		}
	}
	return errors.Join(errs...)
}

// noticesOf returns what has to be passed on with a binary, that of Go's own library first.
func noticesOf(found map[string]*dependency) ([]byte, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("This binary contains the following software, under these licences.\n")
	write := func(title string, text []byte) {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), title, bytes.TrimSpace(text))
	}
	write("Go, LICENSE", own)
	for _, path := range slices.Sorted(maps.Keys(found)) {
		for _, name := range slices.Sorted(maps.Keys(found[path].files)) {
			write(path+" "+found[path].version+", "+name, found[path].files[name])
		}
	}
	return b.Bytes(), nil
}
