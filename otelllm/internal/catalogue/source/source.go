// Package source reads the catalogue's files. The generator and the tests use it; what runs
// beside an application has the generated tables only.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/semconv"
)

// Entry is one error that a provider, or what stands in front of it, really sends.
type Entry struct {
	ID       string `yaml:"id"`
	Provider string `yaml:"provider"` // one of Providers: who sends it; matching does not look at it
	Status   int    `yaml:"status"`   // of the HTTP response; 0: it comes inside a 200
	InBand   bool   `yaml:"in_band"`  // it also comes inside a 200
	Code     string `yaml:"code"`     // the error's own code, as sent
	Type     string `yaml:"type"`     // the error's own type or status name, as sent
	Phrase   string `yaml:"phrase"`   // words of the message that decide, in lower case
	Kind     string `yaml:"kind"`     // an llm.provider_error.kind
	History  string `yaml:"history"`  // an llm.provider_error.history; the kind is then invalid_request by default
	Passes   bool   `yaml:"passes"`   // the same request may succeed within minutes: the kind decides, see catalogue.Passes
	Wait     string `yaml:"wait"`     // where the wait stands: header, body, message; "": nowhere
	Source   string `yaml:"source"`   // the page, file or issue that shows it
	// Example is a body. Without one the test uses the usual form of an OpenAI error.
	Example string            `yaml:"example"`
	Headers map[string]string `yaml:"headers"` // those that matter to what is decided

	// By is "status" if the code and the type do not decide, although the error has them, and
	// "period" if that the message names a limit of a long period does: see Periods.
	By string `yaml:"by"`
	// Yields says what outweighs the code or the type: "phrase" or "status" (and phrases).
	Yields string `yaml:"yields"`
	// Exact: the code, the type or the phrase counts only under this status.
	Exact bool `yaml:"exact"`
	// Host: the phrase counts only in errors of this domain. BrokenInput: it counts only if the
	// history of the request has a call whose input is not JSON.
	Host        string `yaml:"host"`
	BrokenInput bool   `yaml:"broken_input"`
	// Intermediary: the error is that of a server in front of the provider.
	Intermediary bool `yaml:"intermediary"`
}

// FinishReason is one reason for which an answer ends.
type FinishReason struct {
	ID       string `yaml:"id"`
	Provider string `yaml:"provider"`
	Protocol string `yaml:"protocol"` // a key of Protocols
	Reason   string `yaml:"reason"`   // as sent
	Means    string `yaml:"means"`    // a key of Meanings
	Source   string `yaml:"source"`
}

// Providers are the names that the files use for who sends an error.
var Providers = strings.Fields(`any openai azure anthropic bedrock vertex gemini codeassist xai mistral groq deepseek dashscope
	moonshot minimax zai cohere together fireworks openrouter litellm vllm sglang llamacpp ollama lmstudio copilot cloudflare
	huggingface nvidia cerebras perplexity sambanova portkey`)

// Protocols maps the files' names of protocols to wire.Protocol's; "": any.
var Protocols = map[string]string{
	"any": "", "chat": "openai_chat", "completions": "openai_completions", "responses": "openai_responses",
	"messages": "anthropic_messages", "gemini": "gemini", "interactions": "gemini_interactions", "bedrock": "bedrock_converse",
	"ollama": "ollama", "cohere": "cohere_chat", "mistral": "mistral_conversations", "realtime": "openai_realtime",
}

// Meanings maps the files' meanings of finish reasons to the names in package catalogue.
var Meanings = map[string]string{
	"good": "FinishGood", "nothing_due": "FinishNothingDue", "tool_calls": "FinishToolCalls", "compacted": "FinishCompacted",
	"limited": "FinishLimited", "max_tokens": "FinishMaxTokens", "content_filter": "FinishContentFilter", "refusal": "FinishRefusal",
	"context_window": "FinishContextWindow", "paused": "FinishPaused", "waiting": "FinishWaiting", "error": "FinishError",
	"overloaded": "FinishOverloaded", "timeout": "FinishTimeout", "cancelled": "FinishCancelled",
}

// Intermediaries are what is known of servers in front of providers.
type Intermediaries struct {
	Servers  []string `yaml:"servers"`  // values of the header Server, in lower case
	Statuses []int    `yaml:"statuses"` // that only such a server has
	// Own is what only the answers have that such a server makes itself.
	Own struct {
		Servers []string `yaml:"servers"`
		Headers []string `yaml:"headers"`
		Types   []string `yaml:"types"` // of error objects
		Words   []string `yaml:"words"` // in their bodies
	} `yaml:"own"`
}

// Periods are the words for limits of a long period.
type Periods struct {
	Long    []string `yaml:"long"`
	Short   []string `yaml:"short"`
	Limits  []string `yaml:"limits"`
	Counted []string `yaml:"counted"`
	Spent   []string `yaml:"spent"`
	Owners  []string `yaml:"owners"`
}

// LoadPeriods reads and checks the words for limits of a long period.
func LoadPeriods(dir string) (p Periods, err error) {
	if err := decode(filepath.Join(dir, periodsFile), &p); err != nil {
		return p, err
	}
	var problems []error
	seen := map[string]bool{}
	for _, list := range [...][]string{p.Long, p.Short, p.Limits, p.Counted, p.Spent, p.Owners} {
		if len(list) == 0 {
			problems = append(problems, errors.New("a list of words for limits of a long period is empty"))
		}
		for _, word := range list {
			if word == "" || word != strings.ToLower(word) || strings.ContainsAny(word, "-_") || word != regexp.QuoteMeta(word) || seen[word] {
				problems = append(problems, fmt.Errorf("the word %q is unique and in lower case, with blanks, and no sign of it has a meaning in an expression", word))
			}
			seen[word] = true
		}
	}
	return p, errors.Join(problems...)
}

// Files.
const (
	errorsFile         = "errors.yaml"
	finishFile         = "finish.yaml"
	intermediariesFile = "intermediaries.yaml"
	periodsFile        = "periods.yaml"
)

// Load reads and checks the files in a folder.
func Load(dir string) (entries []Entry, finishes []FinishReason, err error) {
	if err = decode(filepath.Join(dir, errorsFile), &entries); err != nil {
		return nil, nil, err
	}
	if err = decode(filepath.Join(dir, finishFile), &finishes); err != nil {
		return nil, nil, err
	}
	return entries, finishes, errors.Join(checkEntries(entries), checkFinishes(finishes))
}

// LoadIntermediaries reads and checks the file about servers in front of providers.
func LoadIntermediaries(dir string) (in Intermediaries, err error) {
	if err = decode(filepath.Join(dir, intermediariesFile), &in); err != nil {
		return in, err
	}
	for _, server := range in.Servers {
		if server == "" || server != strings.ToLower(server) || strings.Contains(server, "/") {
			return in, fmt.Errorf("the server %q: it is in lower case and up to a slash", server)
		}
	}
	for _, server := range in.Own.Servers {
		if !slices.Contains(in.Servers, server) {
			return in, fmt.Errorf("the server %q is not among the servers", server)
		}
	}
	for _, s := range slices.Concat(in.Own.Headers, in.Own.Types, in.Own.Words) {
		if s == "" || s != strings.ToLower(s) {
			return in, fmt.Errorf("%q: headers, types and words are in lower case", s)
		}
	}
	for _, status := range in.Statuses {
		if status < 400 || status > 599 {
			return in, fmt.Errorf("the status %d is not that of an error", status)
		}
	}
	return in, nil
}

func decode(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the catalogue: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("cannot decode %s: %w", path, err)
	}
	return nil
}

// Name is the code or the type by which an error is found, in lower case; "": it has none. An
// HTTP status in digits is not a name.
func (e *Entry) Name() string {
	if e.By != "" {
		return ""
	}
	for _, name := range [...]string{e.Code, e.Type} {
		if name != "" && !httpStatus.MatchString(name) {
			return strings.ToLower(name)
		}
	}
	return ""
}

// The values of By for an entry whose names do not decide.
const (
	byStatus = "status"
	byPeriod = "period"
)

var httpStatus = regexp.MustCompile(`^[45]\d\d$`)

// StatusCode is the status by which an error is found, or the one that the error itself names.
func (e *Entry) StatusCode() int {
	if e.Status == 0 && httpStatus.MatchString(e.Code) {
		n, _ := strconv.Atoi(e.Code)
		return n
	}
	return e.Status
}

// Key identifies the rule that an entry is part of. Entries with one key say the same.
func (e *Entry) Key() string {
	key := "status " + strconv.Itoa(e.StatusCode())
	switch name := e.Name(); {
	case e.By == byPeriod:
		return "limit of a long period"
	case e.Phrase != "":
		return "phrase " + e.Phrase
	case name != "":
		key = "name " + name
		if e.Exact {
			key += " " + strconv.Itoa(e.Status)
		}
	}
	return key
}

// ProviderErrorKind is the kind as an enum value.
func (e *Entry) ProviderErrorKind() semconv.ProviderErrorKind {
	if e.Kind == "" {
		return semconv.ProviderErrorKindInvalidRequest
	}
	kind, _ := semconv.ParseProviderErrorKind(e.Kind)
	return kind
}

// Body is the example, or the usual form of an OpenAI error with what the entry has.
func (e *Entry) Body() string {
	if e.Example != "" || e.Name() == "" && e.Phrase == "" {
		return e.Example
	}
	type object struct {
		Message string `json:"message"`
		Type    string `json:"type,omitempty"`
		Code    string `json:"code,omitempty"`
	}
	b, err := json.Marshal(map[string]object{"error": {Message: "Sorry: " + e.Phrase + ".", Type: e.Type, Code: e.Code}})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(b)
}

var idForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

func checkEntries(entries []Entry) error {
	var problems []error
	ids, keys := map[string]bool{}, map[string]*Entry{}
	for i := range entries {
		e := &entries[i]
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s: %s", e.ID, fmt.Sprintf(format, args...)))
		}
		if !idForm.MatchString(e.ID) || ids[e.ID] {
			problem("an id is unique and lower case, and begins with who sends the error")
		}
		ids[e.ID] = true
		if !slices.Contains(Providers, e.Provider) {
			problem("unknown provider %q", e.Provider)
		}
		if _, ok := semconv.ParseProviderErrorKind(e.Kind); !ok && (e.Kind != "" || e.History == "") {
			problem("unknown kind %q", e.Kind)
		}
		if _, ok := semconv.ParseProviderErrorHistory(e.History); !ok && e.History != "" {
			problem("unknown history %q", e.History)
		}
		if e.Source == "" {
			problem("the source is missing")
		}
		if e.Phrase != strings.ToLower(e.Phrase) || strings.ContainsAny(e.Phrase, "\\\n\t") || strings.Contains(e.Phrase, "  ") || len(e.Phrase) > 0 && len(e.Phrase) < 8 {
			problem("a phrase has 8 bytes or more, in lower case, with single blanks and without backslashes")
		}
		if e.Status != 0 && (e.Status < 400 || e.Status > 599) || e.Exact && e.Status == 0 {
			problem("the status %d", e.Status)
		}
		if e.By != "" && (e.By != byStatus && e.By != byPeriod || e.Phrase != "") {
			problem("by may be %q or %q, without a phrase", byStatus, byPeriod)
		}
		if e.By == byPeriod && (e.Kind != "quota_exhausted" || e.Example == "") {
			problem("a limit of a long period is quota_exhausted, and has an example")
		}
		if (e.Host != "" || e.BrokenInput) && e.Phrase == "" {
			problem("only a phrase may depend on the request")
		}
		if e.Yields != "" && e.Yields != "phrase" && e.Yields != "status" {
			problem("it cannot yield to %q", e.Yields)
		}
		if !slices.Contains([]string{"", "header", "body", "message"}, e.Wait) {
			problem("a wait cannot stand in %q", e.Wait)
		}
		if e.Key() == "status 0" {
			problem("nothing decides: a code, a type, a phrase or a status is missing")
		}
		if other := keys[e.Key()]; other == nil {
			keys[e.Key()] = e
		} else if other.ProviderErrorKind() != e.ProviderErrorKind() || other.History != e.History || other.Yields != e.Yields ||
			e.Phrase != "" && other.Intermediary != e.Intermediary || other.Exact != e.Exact ||
			other.Host != e.Host || other.BrokenInput != e.BrokenInput {
			problem("the same %s means something else in %s", e.Key(), other.ID)
		}
	}
	return errors.Join(problems...)
}

func checkFinishes(finishes []FinishReason) error {
	var problems []error
	ids, means := map[string]bool{}, map[string]string{}
	for i := range finishes {
		f := &finishes[i]
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s: %s", f.ID, fmt.Sprintf(format, args...)))
		}
		if !idForm.MatchString(f.ID) || ids[f.ID] {
			problem("an id is unique and lower case, and begins with who sends the reason")
		}
		ids[f.ID] = true
		if !slices.Contains(Providers, f.Provider) {
			problem("unknown provider %q", f.Provider)
		}
		if _, ok := Protocols[f.Protocol]; !ok {
			problem("unknown protocol %q", f.Protocol)
		}
		if _, ok := Meanings[f.Means]; !ok {
			problem("unknown meaning %q", f.Means)
		}
		if f.Reason == "" || f.Source == "" {
			problem("the reason or the source is missing")
		}
		key := f.Protocol + " " + strings.ToLower(f.Reason)
		if was, ok := means[key]; ok && was != f.Means {
			problem("%s means %s in another entry", key, was)
		}
		means[key] = f.Means
	}
	return errors.Join(problems...)
}
