package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// otelVersion is the version of OpenTelemetry's conventions to which the registry refers:
// the last version with gen_ai.*.
const otelVersion = "1.41.0"

// otelAttributes returns the names of OpenTelemetry's attributes, read from the source of
// the Go package with which this project uses them. The working folder must be inside the
// module.
func otelAttributes() (map[string]bool, error) {
	const path = "go.opentelemetry.io/otel/semconv/v" + otelVersion
	wd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("cannot find the module: %w", err)
	}
	pkg, err := build.Default.Import(path, wd, build.FindOnly)
	if err != nil {
		return nil, fmt.Errorf("cannot find OpenTelemetry's attributes; run this inside the module, whose go.mod must require %s: %w", path, err)
	}
	entries, err := os.ReadDir(pkg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read OpenTelemetry's attributes: %w", err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("cannot read OpenTelemetry's attributes: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := attributeKey(n); ok {
				names[name] = true
			}
			return true
		})
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no attribute was found in %s: has its form changed?", pkg.Dir)
	}
	return names, nil
}

// attributeKey returns the name in an expression attribute.Key("name").
func attributeKey(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Key" {
		return "", false
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}
