package llmclassify_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/release"
)

func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// Every YAML block of the README is a configuration that works: what it says of this
// processor is valid, what its pipelines name is there, and the order is the one
// that the README asks for.
func TestReadmeConfigurations(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t, "README.md"), -1)
	require.GreaterOrEqual(t, len(blocks), 5)
	classifies := 0
	for i, block := range blocks {
		var all map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(block[1]), &all), "block %d", i+1)
		section := func(name string) map[string]any {
			found, _ := all[name].(map[string]any)
			return found
		}
		for name, value := range section("processors") {
			var id component.ID
			require.NoError(t, id.UnmarshalText([]byte(name)))
			if id.Type() != metadata.Type {
				continue
			}
			classifies++
			cfg := llmclassify.NewFactory().CreateDefaultConfig().(*llmclassify.Config)
			options, _ := value.(map[string]any)
			require.NoError(t, confmap.NewFromStringMap(options).Unmarshal(cfg), "block %d", i+1)
			require.NoError(t, cfg.Validate(), "block %d", i+1)
			if cfg.Storage != nil {
				assert.Contains(t, section("extensions"), cfg.Storage.String(), "block %d", i+1)
				assert.Contains(t, section("service")["extensions"], cfg.Storage.String(), "block %d", i+1)
			}
		}
		order := []string{"memory_limiter", "llm_classify", "tail_sampling", "batch"}
		pipelines, _ := section("service")["pipelines"].(map[string]any)
		for name, pipeline := range pipelines {
			last := -1
			for _, processor := range pipeline.(map[string]any)["processors"].([]any) {
				at := slices.Index(order, processor.(string))
				assert.Greater(t, at, last, "block %d, pipeline %s: %s", i+1, name, processor)
				last = at
			}
		}
	}
	assert.GreaterOrEqual(t, classifies, 4)
}

// The table of options has each of them, with its default.
func TestReadmeOptions(t *testing.T) {
	text := page(t, "README.md")
	table := text[strings.Index(text, "## Configuration"):]
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.*?) \\|").FindAllStringSubmatch(table[:strings.Index(table, "```")], -1) {
		rows[row[1]] = row[2]
	}
	defaults := reflect.ValueOf(llmclassify.NewFactory().CreateDefaultConfig()).Elem()
	for i := range defaults.NumField() {
		option := defaults.Type().Field(i).Tag.Get("mapstructure")
		if option == "-" { // programs alone set it
			continue
		}
		want := ""
		switch value := defaults.Field(i).Interface().(type) {
		case time.Duration:
			want = "`" + strings.TrimSuffix(strings.TrimSuffix(value.String(), "0s"), "0m") + "`"
			if value < time.Hour {
				want = "`" + value.String() + "`"
			}
		case []string:
			want = "`[]`"
		case *component.ID:
			want = "none"
		case string:
			if want = "`" + value + "`"; value == "" {
				want = "none"
			}
		default:
			want = fmt.Sprintf("`%v`", value)
		}
		said, ok := rows[option]
		assert.True(t, ok, "%s is not in the table", option)
		assert.True(t, strings.HasPrefix(said, want), "%s: the table says %s, it is %s", option, said, want)
		delete(rows, option)
	}
	assert.Empty(t, rows, "options that do not exist")
}

// The tables of triggers and of dialects have each of them.
func TestReadmeNames(t *testing.T) {
	text := page(t, "README.md")
	for _, trigger := range release.TriggerOf {
		assert.Contains(t, text, "| `"+trigger.String()+"` |")
	}
	for _, name := range dialect.Names() {
		assert.Contains(t, text, "`"+name+"`", "a dialect")
	}
}
