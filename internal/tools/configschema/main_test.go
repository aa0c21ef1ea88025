package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

const root = "../../.."

// compiled returns the schema of a component as its file has it.
func compiled(t *testing.T, c *componentSchema) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(root, c.folder, "config.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestExamples requires that what the README and the shipped configurations say of a component fits its schema.
func TestExamples(t *testing.T) {
	shipped, err := filepath.Glob(root + "/deploy/collector/config*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatal(err, shipped)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, c := range components {
		s, seen := compiled(t, &c), 0
		check := func(where string, text []byte) {
			var all map[string]any
			if err := yaml.Unmarshal(text, &all); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			for _, section := range []string{"processors", "connectors"} {
				in, _ := all[section].(map[string]any)
				for name, options := range in {
					if kind, _, _ := strings.Cut(name, "/"); kind != c.title {
						continue
					}
					seen++
					if err := s.Validate(options); err != nil {
						t.Errorf("%s, %s: %v", where, name, err)
					}
				}
			}
		}
		readme, err := os.ReadFile(filepath.Join(root, c.folder, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllSubmatch(readme, -1) {
			check(c.folder+"/README.md", block[1])
		}
		if seen == 0 {
			t.Errorf("no example of %s in its README", c.title)
		}
		for _, file := range shipped {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			check(file, text)
		}
	}
}

// validate reads options as the Collector does and validates them.
func validate(c *componentSchema, options map[string]any) error {
	config := reflect.New(reflect.TypeOf(c.config).Elem())
	config.Elem().Set(reflect.ValueOf(c.config).Elem())
	cfg := config.Interface().(interface{ Validate() error })
	if err := confmap.NewFromStringMap(options).Unmarshal(cfg); err != nil {
		return err
	}
	return cfg.Validate()
}

// TestConstraints requires that the schema and Validate allow the same values.
func TestConstraints(t *testing.T) {
	word := regexp.MustCompile(`[a-z][a-z0-9_]+`)
	for _, c := range components {
		s := compiled(t, &c)
		both := func(option string, value any, want bool) {
			t.Helper()
			options := map[string]any{option: value}
			schemaErr, configErr := s.Validate(options), validate(&c, options)
			if (schemaErr == nil) != want || (configErr == nil) != want {
				t.Errorf("%s: %s = %v: want valid %v; the schema says %v, Validate says %v", c.title, option, value, want, schemaErr, configErr)
			}
		}
		for option, least := range c.minima {
			both(option, int(least), true)
			both(option, int(least-1), false)
		}
		for option, values := range c.values {
			one := func(value string) any {
				if reflect.ValueOf(c.config).Elem().FieldByNameFunc(func(name string) bool {
					field, _ := reflect.TypeOf(c.config).Elem().FieldByName(name)
					return field.Tag.Get("mapstructure") == option
				}).Kind() == reflect.Slice {
					return []any{value}
				}
				return value
			}
			for _, value := range values {
				both(option, one(value), true)
			}
			both(option, one("?"), false)
			_, said, _ := strings.Cut(validate(&c, map[string]any{option: one("?")}).Error(), "must be")
			said, _, _ = strings.Cut(said, ", is ")
			named := slices.DeleteFunc(word.FindAllString(said, -1), func(w string) bool { return slices.Contains([]string{"one", "of", "or"}, w) })
			slices.Sort(named)
			if want := slices.Sorted(slices.Values(values)); !slices.Equal(named, want) {
				t.Errorf("%s: %s: Validate names %q, the schema %q", c.title, option, named, want)
			}
		}
		both("no_such_option", 1, false)
	}
}
