package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wordRates counts, per 1,000 words of comment, words that often stand where a noun should: "what", "those", "of which" (also
// "of whose" and "of whom"), and "it" with "its".
type wordRates struct{ what, those, ofWhich, it float64 }

// commentBars are the bars for every package that is not in commentRatchets: twice the highest rates in the OpenTelemetry
// Collector's processors, Refinery and otelhttp.
var commentBars = wordRates{what: 4.8, those: 0.6, ofWhich: 0.2, it: 46}

// minCommentWords is how many words of comment a package needs to be counted alone: in fewer, one word weighs too much. The
// smaller packages are counted together, as the row smallPackages.
const (
	minCommentWords = 300
	smallPackages   = "small packages"
)

// commentRatchets has the packages above a bar, with their rates on the day of the first count, rounded up. No rate may rise,
// and a package that has come below all bars leaves the table.
var commentRatchets = map[string]wordRates{
	"cmd/otelllm/engine":                         {9, 3, 0.2, 46},
	"cmd/otelllm/internal/agents":                {11, 3, 1, 46},
	"cmd/otelllm/internal/check":                 {14, 5, 0.2, 46},
	"cmd/otelllm/internal/demo":                  {25, 2, 0.2, 46},
	"cmd/otelllm/internal/explain":               {16, 8, 4, 46},
	"cmd/otelllm/internal/input":                 {11, 0.6, 0.2, 46},
	"cmd/otelllm/internal/judge":                 {9, 3, 0.2, 46},
	"cmd/otelllm/internal/page":                  {9, 2, 0.2, 46},
	"cmd/otelllm/internal/proxy":                 {8, 2, 1, 46},
	"cmd/otelllm/internal/session":               {11, 3, 0.2, 46},
	"cmd/otelllm/internal/sessionfiles":          {18, 5, 3, 46},
	"cmd/otelllm/internal/sessionfiles/claude":   {15, 0.6, 0.2, 46},
	"cmd/otelllm/internal/sessionfiles/event":    {11, 0.6, 0.2, 46},
	"cmd/otelllm/internal/sessionfiles/opencode": {10, 0.6, 0.2, 46},
	"cmd/otelllm/internal/sessionfiles/turns":    {15, 1, 3, 58},
	"cmd/otelllm/report":                         {17, 3, 2, 46},
	"deploy/collector/grafana":                   {10, 6, 0.2, 46},
	"deploy/collector/internal/traffic":          {10, 4, 0.2, 46},
	"internal/tools/release":                     {17, 5, 0.2, 46},
	"otelllm":                                    {9, 2, 0.2, 46},
	"otelllm/classify":                           {7, 3, 1, 46},
	"otelllm/internal/catalogue":                 {12, 3, 0.2, 46},
	"otelllm/internal/catalogue/internal/gen":    {5, 13, 0.2, 46},
	"otelllm/internal/catalogue/source":          {14, 2, 0.2, 46},
	"otelllm/internal/client":                    {9, 2, 0.2, 46},
	"otelllm/internal/gateway":                   {12, 2, 0.2, 46},
	"otelllm/internal/httpcall":                  {13, 2, 2, 46},
	"otelllm/internal/live":                      {14, 0.6, 0.2, 46},
	"otelllm/internal/record":                    {13, 2, 1, 46},
	"otelllm/internal/redact":                    {4.8, 1, 3, 46},
	"otelllm/internal/spanfacts":                 {9, 3, 0.2, 46},
	"otelllm/internal/wire":                      {6, 3, 2, 46},
	"otelllm/realtime":                           {6, 1, 0.2, 49},
	"otelllm/responses":                          {7, 4, 0.2, 46},
	"otelllm/retry":                              {9, 3, 1, 46},
	"processor/llmclassify":                      {8, 4, 0.2, 46},
	"processor/llmclassify/internal/dialect":     {4.8, 2, 0.2, 46},
	smallPackages:                                {11, 2, 0.2, 46},
	"test/incidents/incident":                    {10, 1, 0.2, 46},
	"test/internal/acceptance":                   {10, 1, 0.2, 46},
	"test/oracle":                                {7, 1, 1, 46},
	"test/soak":                                  {8, 0.6, 0.2, 46},
	"test/soak/internal/attack":                  {12, 0.6, 2, 46},
	"test/soak/internal/ledger":                  {8, 2, 0.2, 46},
	"test/soak/internal/wire":                    {7, 0.6, 0.2, 46},
}

// commentCount is the number of words in the comments of a package, and of the counted ones among them.
type commentCount struct{ words, what, those, ofWhich, it int }

var (
	commentWord = regexp.MustCompile(`[a-z']+`)
	ofWhich     = regexp.MustCompile(`\bof (which|whose|whom)\b`)
)

func (c *commentCount) add(text string) {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, word := range commentWord.FindAllString(text, -1) {
		c.words++
		switch word {
		case "what":
			c.what++
		case "those":
			c.those++
		case "it", "its":
			c.it++
		}
	}
	c.ofWhich += len(ofWhich.FindAllString(text, -1))
}

func (c *commentCount) join(o *commentCount) {
	c.words, c.what, c.those, c.ofWhich, c.it = c.words+o.words, c.what+o.what, c.those+o.those, c.ofWhich+o.ofWhich, c.it+o.it
}

func (c *commentCount) rates() wordRates {
	rate := func(n int) float64 { return 1000 * float64(n) / float64(max(c.words, 1)) }
	return wordRates{rate(c.what), rate(c.those), rate(c.ofWhich), rate(c.it)}
}

// above returns the counts above their bars, in words. A bar allows a whole number of words, rounded up.
func (c *commentCount) above(bars wordRates) (problems []string) {
	for _, one := range [...]struct {
		word string
		n    int
		bar  float64
	}{
		{`"what"`, c.what, bars.what},
		{`"those"`, c.those, bars.those},
		{`"of which"`, c.ofWhich, bars.ofWhich},
		{`"it" and "its"`, c.it, bars.it},
	} {
		if most := int(math.Ceil(one.bar * float64(c.words) / 1000)); one.n > most {
			problems = append(problems, fmt.Sprintf("%s %d times (at most %d)", one.word, one.n, most))
		}
	}
	return problems
}

// ratchet returns the row of commentRatchets for these rates: rounded up if above the bar, else the bar.
func (r wordRates) ratchet() string {
	up := func(now, bar float64) float64 {
		if now <= bar {
			return bar
		}
		return math.Ceil(now)
	}
	return fmt.Sprintf("{%v, %v, %v, %v}", up(r.what, commentBars.what), up(r.those, commentBars.those), up(r.ofWhich, commentBars.ofWhich), up(r.it, commentBars.it))
}

// TestCommentWords holds the comments of every package to the bars: a comment names its subject, so that it can be read aloud
// to a person who has not seen the code. Tests, generated files and directives do not count.
func TestCommentWords(t *testing.T) {
	counts := map[string]*commentCount{}
	for _, file := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(file)), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if ast.IsGenerated(parsed) {
			continue
		}
		folder := path.Dir(file)
		if counts[folder] == nil {
			counts[folder] = &commentCount{}
		}
		for _, group := range parsed.Comments {
			counts[folder].add(group.Text()) // without directives
		}
	}
	small := &commentCount{}
	for folder, count := range counts {
		if count.words < minCommentWords {
			small.join(count)
			delete(counts, folder)
		}
	}
	counts[smallPackages] = small
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		count := counts[folder]
		bars, ratcheted := commentRatchets[folder]
		if !ratcheted {
			bars = commentBars
		} else if len(count.above(commentBars)) == 0 {
			t.Errorf("%s is below all bars: take it out of commentRatchets", folder)
		}
		if problems := count.above(bars); len(problems) > 0 {
			t.Errorf("the comments of %s have in %d words: %s. Name the subject instead", folder, count.words, strings.Join(problems, ", "))
			t.Logf("%q: %s,", folder, count.rates().ratchet())
		}
	}
	for folder := range commentRatchets {
		assert.Contains(t, counts, folder, "commentRatchets has a package that is not counted alone")
	}
}
