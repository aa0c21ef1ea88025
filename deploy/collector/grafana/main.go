package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := generate("grafana"); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no dashboards in %s: run it in deploy/collector", dir)
	}
	for _, name := range sources {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		out, err := build(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".yaml")+".json", out, 0o644); err != nil {
			return err
		}
	}
	return nil
}
