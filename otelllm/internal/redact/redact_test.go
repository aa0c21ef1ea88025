package redact

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fields are the kinds of fields, by the file with real values of each.
var fields = map[string]func(string) string{
	"models": Model[string], "codes": Code[string], "tools": Name[string], "hosts": Host, "ids": ID[string], "types": Type[string], "labels": Label,
}

func values(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	require.NoError(tb, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Values that providers, hubs, gateways and agents really write are recorded unchanged.
func TestRealValues(t *testing.T) {
	for name, field := range fields {
		list := values(t, name)
		assert.Greater(t, len(list), 10, name)
		for _, s := range list {
			assert.Equal(t, s, field(s), name)
		}
	}
}

// secrets are credentials in the form in which they are issued. None was ever valid.
var secrets = map[string]string{
	"OpenAI":            "sk-" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr",
	"OpenAI project":    "sk-" + "proj-Zt4_b-N8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7RV",
	"OpenAI, cut":       "sk-" + "9fKq2LmZx7Rt4VbN",
	"Anthropic":         "sk-" + "ant-api03-b-N8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7RVAA",
	"OpenRouter":        "sk-" + "or-v1-0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
	"Google":            "AIza" + "SyB3fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3Te",
	"Google OAuth":      "ya29." + "a0AfB_byC3fKq2LmZx7Rt4VbN8sWc1YhJ",
	"Hugging Face":      "hf_" + "QiBkFzCvMnSrKqLmZxRtVbNsWcYhJdGpTe",
	"Groq":              "gsk_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSrabcd",
	"xAI":               "xai-" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr",
	"Perplexity":        "pplx-" + "9f4q2lmzx7rt4vbn8swc1yhj6dgp3tea0uxoqibkfzcvmnsr",
	"Replicate":         "r8_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQ",
	"GitHub":            "ghp_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"GitHub app":        "ghs_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"GitHub OAuth":      "gho_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"GitHub, fine":      "github_pat_" + "11ABCDEFG0fKq2LmZx7Rt4_VbN8sWc1YhJ6dGp3TeA0uXo",
	"GitLab":            "glpat-" + "fKq2LmZx7Rt4VbN8sWc1",
	"Slack":             "xoxb-" + "123456789012-1234567890123-fKq2LmZx7Rt4VbN8sWc1YhJ6",
	"AWS key id":        "AKIA" + "IOSFODNN7EXAMPLE",
	"AWS session":       "ASIA" + "IOSFODNN7EXAMPLE",
	"AWS secret":        "qR7wLx2Tn9KzF/4VbN8sWc1YhJ6dGp3TeA0uXoQi",
	"npm":               "npm_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"SendGrid":          "SG." + "fKq2LmZx7Rt4VbN8sWc1Yh.J6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7Rt4VbN8s",
	"Stripe":            "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
	"JSON Web Token":    "eyJ" + "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"bearer":            "Bearer:" + "fKq2LmZx7Rt4",
	"Mistral, 32":       "fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0",
	"Cohere, 40":        "fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkF",
	"Azure, 84":         "fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7Rt4VbN8sWc1JQQJ99AKACYeBjFXJ3w3",
	"base64url":         "Zt4_bN8sWc1Yh-J6dGp3TeA0uXoQiBkFzCvMn_Sr9fKq2Lm",
	"base32":            "MFRGG2LTMVRXEZLUONSWG4TFORZWKY3SMV2HG",
	"lower case":        "9f4q2lmzx7rt4vbn8swc1yhj6dgp3tea0uxo",
	"Telegram":          "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
	"Discord":           "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
	"Langfuse":          "sk-" + "lf-7027d986-3c59-a37a-9a5f-50713e01c8a6",
	"in front of words": "gho_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo-for-the-build",
}

// hexSecrets are credentials that cannot be distinguished from an id.
var hexSecrets = map[string]string{
	"Azure, 32":    "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
	"Together, 64": "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f1",
}

// No field records a credential, at any position of the value.
func TestSecrets(t *testing.T) {
	for name, field := range fields {
		for what, secret := range secrets {
			for _, around := range [][2]string{{"", ""}, {"key_", ""}, {"invalid-key:", ""}, {"a.", "-b"}} {
				got := field(around[0] + secret + around[1])
				assert.NotContains(t, got, secret[len(secret)/2:], "%s: %s", name, what)
				if name == "ids" {
					assert.Regexp(t, `^id-[0-9a-f]{16}$`, got, what)
				} else {
					assert.Equal(t, Redacted, got, "%s: %s after %q", name, what, around[0])
				}
			}
		}
		if name == "ids" {
			continue
		}
		for what, secret := range hexSecrets {
			assert.Equal(t, Redacted, field(secret), "%s: %s", name, what)
		}
	}
	// The prefix of an id does not hide a key that has a prefix of its own.
	for _, prefix := range []string{"call_", "resp_", "chatcmpl-", "req_"} {
		for _, what := range []string{"OpenAI", "Anthropic", "Google", "GitHub", "JSON Web Token", "AWS key id"} {
			assert.Regexp(t, `^id-[0-9a-f]{16}$`, ID(prefix+secrets[what]), what)
		}
	}
}

// Most random keys without a prefix are detected. The shares are those for keys of the
// minimum length that is issued; longer keys are detected more often.
func TestRandomIsFound(t *testing.T) {
	const lower = "abcdefghijklmnopqrstuvwxyz"
	for name, tt := range map[string]struct {
		letters string
		length  int
		least   float64
	}{
		"base62":             {alphanumeric, 32, 0.99},
		"base62, long":       {alphanumeric, 48, 0.999},
		"base64url":          {alphanumeric + "-_", 32, 0.89},
		"base64url, 43":      {alphanumeric + "-_", 43, 0.98},
		"hex":                {"0123456789abcdef", 32, 0.999},
		"letters and digits": {lower + "0123456789", 32, 0.95},
		"letters":            {lower, 32, 0.9},
		"base32":             {"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32, 0.87},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			const n = 20_000
			found := 0
			for range n {
				key := make([]byte, tt.length)
				for i := range key {
					key[i] = tt.letters[r.IntN(len(tt.letters))]
				}
				if Credential(key) {
					found++
				}
			}
			assert.GreaterOrEqual(t, float64(found)/n, tt.least)
		})
	}
}

func TestShapes(t *testing.T) {
	long := strings.Repeat("tool_", 60)
	for _, tt := range []struct{ field, in, want string }{
		{"codes", "", ""},
		{"codes", "is not a code", Redacted},
		{"codes", "a/b", Redacted},
		{"codes", long[:MaxCode], long[:MaxCode]},
		{"codes", long[:MaxCode+1], Redacted},
		{"tools", "", ""},
		{"tools", "say hello", Redacted},
		{"tools", long[:MaxName], long[:MaxName]},
		{"tools", long[:MaxName+1], Redacted},
		{"models", "", ""},
		{"models", "my model", Redacted},
		{"models", "gpt-5?key=1", Redacted},
		{"models", "gpt%2D5", Redacted},
		{"models", "gpt-5&key", Redacted},
		{"models", "https://user:word@host/model", Redacted},
		{"models", long[:MaxModel], long[:MaxModel]},
		{"models", long[:MaxModel+1], Redacted},
		{"ids", "", ""},
		{"ids", "call 1", "id-21c5c2a600ce3c16"},
		{"hosts", "", ""},
		{"hosts", "user:word@host", Redacted},
		{"hosts", "https://host/path", Redacted},
		{"hosts", "host/path", Redacted},
		{"hosts", "host?key=1", Redacted},
		{"hosts", strings.Repeat("a.", 128), Redacted},
		{"hosts", secrets["Mistral, 32"] + ".example.com", Redacted},
		{"hosts", "a\xff", Redacted},
		{"types", "Connection error: the key is wrong", Redacted},
		{"types", "", ""},
		{"labels", "", ""},
		{"labels", "key " + secrets["Mistral, 32"], Redacted},
		{"labels", "Authorization: Bearer " + secrets["bearer"], Redacted},
		{"labels", "a\xff", "a"},
		{"labels", strings.Repeat("é", 200), strings.Repeat("é", 128)},
	} {
		assert.Equal(t, tt.want, fields[tt.field](tt.in), "%s: %q", tt.field, tt.in)
	}
}

// An e-mail address or a telephone number is not the name of a model, and not an id.
func TestPersonal(t *testing.T) {
	for _, s := range []string{
		"jane.doe@example.com", "x@y.io", "user:jane_doe+1@mail.example.co.uk", "org/jane@example.com/model", "jane@example.com:latest",
		"+4917612345678", "+1-555-123-4567", "+1(555)123.4567", "user:+4917612345678",
	} {
		assert.Equal(t, Redacted, Model(s), s)
		assert.False(t, Opaque(s), s)
		assert.Regexp(t, `^id-[0-9a-f]{16}$`, ID(s), s)
	}
	for _, s := range []string{
		"claude-sonnet-4@20250514", "chat-bison-32k@002", "gpt-5@preset/x.y", "org/model@v1.0", "llama3.2@sha256:365c0bd3c000", "@cf/meta/llama-3.3-70b",
		"@hf/thebloke/mistral-7b.gguf", "model@main", "c4ai-command-r+", "a+123", "gpt-4+20250514", "phi-3.5@1.2.3", "x@.com", "x@a..com",
	} {
		assert.Equal(t, s, Model(s), s)
		assert.False(t, personal(s), s)
	}
	for _, id := range []string{"4bf92f3577b34da6a3ce929d0e0e4736.00f067aa0ba902b7", "0f1e2d3c4b5a69788796a5b4c3d2e1f0.json", "1f3c+abc/12345678="} {
		assert.True(t, Opaque(id), id)
	}
}

// A value that was sanitized stays unchanged when it is sanitized again.
func FuzzFields(f *testing.F) {
	for name := range fields {
		for _, s := range values(f, name) {
			f.Add(s)
		}
	}
	for _, s := range secrets {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, field := range fields {
			once := field(s)
			if twice := field(once); twice != once {
				t.Errorf("%s: %q becomes %q, and then %q", name, s, once, twice)
			}
			if len(once) > MaxModel || name != "ids" && hasToken(once) {
				t.Errorf("%s: %q becomes %q", name, s, once)
			}
		}
		if a, b := ID(s), ID([]byte(s)); a != b {
			t.Errorf("%q and %q", a, b)
		}
	})
}

func BenchmarkFields(b *testing.B) {
	for _, bench := range []struct {
		name  string
		field func(string) string
		value string
	}{
		{"id", ID[string], "call_8GZvm5Bs4q0YSJIFH8hZeIcp"},
		{"UUID", ID[string], "7027d986-3c59-a37a-9a5f-50713e01c8a6"},
		{"model", Model[string], "claude-sonnet-4-5-20250929"},
		{"code", Code[string], "rate_limit_exceeded"},
		{"host", Host, "api.openai.com"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.field(bench.value)
			}
		})
	}
}
