// Command configschema writes config.schema.json of the Collector's components from their configuration structs: mdatagen
// can write one only together with the struct, whose comments and fields that programs alone set would be lost.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

// schema is the part of JSON Schema that is used, in the order of the keys in the files.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int64             `json:"minimum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	UniqueItems bool               `json:"uniqueItems,omitempty"`
	Default     any                `json:"default,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

// componentSchema is what is written for one component.
type componentSchema struct {
	folder, title string
	config        component.Config
	// values are the values of options, and of the elements of lists, that have no others. The tests compare them with
	// what Validate says.
	values map[string][]string
	// minima are the least values of numbers, likewise.
	minima map[string]int64
}

var components = []componentSchema{
	{
		folder: "processor/llmclassify", title: "llm_classify", config: llmclassify.NewFactory().CreateDefaultConfig(),
		values: map[string][]string{
			"incoming_verdicts": {"keep_client", "strip", "keep"},
			"mark_status":       {"failed_runs", "unset"},
			"dialects": {
				"anthropic", "claude_code", "codex", "ebpf", "gemini_cli", "gen_ai", "go_compile", "google_adk", "openai_agents",
				"openai_js", "opencode", "openinference", "openllmetry", "otelllm", "qwen_code", "vercel_ai", "vercel_ai_v7", "vllm",
			},
		},
		minima: map[string]int64{"max_held_bytes": 1, "max_fact_bytes": 1, "max_spans_per_run": 1, "shards": 0},
	},
	{
		folder: "connector/llmagentlogs", title: "llm_agent_logs", config: llmagentlogs.NewFactory().CreateDefaultConfig(),
		values: map[string][]string{"agents": {"codex", "claude_code", "gemini_cli"}},
		minima: map[string]int64{"max_bytes": 64 << 10},
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configschema ROOT, the root of the repository")
		os.Exit(2)
	}
	for _, c := range components {
		if err := c.write(os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "configschema: %s: %v\n", c.folder, err)
			os.Exit(1)
		}
	}
}

func (c *componentSchema) write(root string) error {
	folder := filepath.Join(root, filepath.FromSlash(c.folder))
	s, err := c.schema(folder)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "config.schema.json"), b.Bytes(), 0o644)
}

// durations and ids are what the Collector reads as a time.Duration and as a component.ID.
const (
	durations = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	ids       = `^[a-zA-Z][0-9a-zA-Z_]*(/.+)?$`
)

func (c *componentSchema) schema(folder string) (*schema, error) {
	docs, err := docsOf(filepath.Join(folder, "config.go"))
	if err != nil {
		return nil, err
	}
	no := false
	s := &schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: "github.com/otelllm/otelllm-go/" + c.folder,
		Title: c.title, Type: []string{"object", "null"}, Properties: map[string]*schema{}, Additional: &no,
	}
	defaults := reflect.ValueOf(c.config).Elem()
	names := map[string]string{} // of fields → of options
	for i := range defaults.NumField() {
		if option := defaults.Type().Field(i).Tag.Get("mapstructure"); option != "-" {
			names[defaults.Type().Field(i).Name] = option
		}
	}
	fields := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(names)), "|") + `)\b`)
	for i := range defaults.NumField() {
		field := defaults.Type().Field(i)
		option, ok := names[field.Name]
		if !ok {
			continue // programs set it
		}
		p, err := c.property(option, defaults.Field(i).Interface())
		if err != nil {
			return nil, err
		}
		doc, ok := docs[field.Name]
		if !ok {
			return nil, fmt.Errorf("%s has no comment", field.Name)
		}
		p.Description = fields.ReplaceAllStringFunc(strings.ReplaceAll(doc, field.Name+" ", option+" "), func(name string) string { return names[name] })
		s.Properties[option] = p
	}
	return s, nil
}

// property returns the schema of an option with this default.
func (c *componentSchema) property(option string, value any) (*schema, error) {
	switch v := value.(type) {
	case time.Duration:
		return &schema{Type: "string", Pattern: durations, Default: shortest(v)}, nil
	case *component.ID:
		return &schema{Type: "string", Pattern: ids}, nil
	case bool:
		return &schema{Type: "boolean", Default: v}, nil
	case int:
		least, ok := c.minima[option]
		if !ok {
			return nil, fmt.Errorf("%s: which minimum has it?", option)
		}
		return &schema{Type: "integer", Minimum: &least, Default: v}, nil
	case string:
		p := &schema{Type: "string", Enum: c.values[option]}
		if v != "" {
			p.Default = v
		}
		return p, nil
	case []string:
		return &schema{Type: "array", Items: &schema{Type: "string", Enum: c.values[option]}, UniqueItems: true}, nil
	default:
		return nil, fmt.Errorf("%s is a %T: add what that is in JSON", option, value)
	}
}

// shortest returns a duration as people write it: 30m, not 30m0s.
func shortest(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// docsOf returns the comments of the fields of Config, each as one line.
func docsOf(file string) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	object := parsed.Scope.Lookup("Config")
	if object == nil {
		return nil, errors.New("there is no Config")
	}
	docs := map[string]string{}
	for _, field := range object.Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		for _, name := range field.Names {
			docs[name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
	return docs, nil
}
