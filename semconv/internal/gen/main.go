// Command gen reads the semantic-convention registry under semconv/model, checks it, and
// writes the Go vocabulary of package semconv and the reference page.
//
// go generate runs it in the folder of package semconv.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	semconv := flag.String("semconv", ".", "folder of package semconv, with the registry in its folder model")
	docs := flag.String("docs", filepath.Join("..", "docs", "reference"), "folder of the reference page")
	flag.Parse()
	if err := run(*semconv, *docs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run generates all files from the registry in semconv/model. If the registry has any
// problem, run writes nothing.
func run(semconv, docs string) error {
	files, err := generate(filepath.Join(semconv, "model"))
	if err != nil {
		return err
	}
	for _, f := range files {
		path := f.path(semconv, docs)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot make the folder of %s: %w", path, err)
		}
		if err := os.WriteFile(path, f.content, 0o644); err != nil {
			return fmt.Errorf("cannot write a generated file: %w", err)
		}
	}
	return nil
}

// file is one generated file.
type file struct {
	name    string
	page    bool // it is part of the documentation
	content []byte
}

func (f file) path(semconv, docs string) string {
	if f.page {
		return filepath.Join(docs, f.name)
	}
	return filepath.Join(semconv, f.name)
}

// generate generates all files from the registry in the folder model. The result depends
// only on the content of the registry.
func generate(model string) ([]file, error) {
	reg, err := load(os.DirFS(model))
	if err != nil {
		return nil, err
	}
	standard, err := otelAttributes()
	if err != nil {
		return nil, err
	}
	if err := reg.check(standard); err != nil {
		return nil, err
	}
	return render(reg)
}

// render generates all files from a valid registry.
func render(reg *registry) ([]file, error) {
	files := []file{{name: "attributes.md", page: true, content: page(reg)}}
	for _, source := range []struct {
		name  string
		write func(*registry) []byte
	}{
		{"attributes_generated.go", goAttributes},
		{"enums_generated.go", goEnums},
		{"events_generated.go", goEvents},
	} {
		content, err := gofmt(source.write(reg))
		if err != nil {
			return nil, fmt.Errorf("%s: the generator wrote Go that does not parse: %w", source.name, err)
		}
		files = append(files, file{name: source.name, content: content})
	}
	return files, nil
}
