package agents

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/tidwall/jsonc"
)

// setGemini says of which sign-ins of Gemini CLI the calls are left alone. With an API key the
// variables of all programs do.
func setGemini(b *builder) error {
	b.takeDotenv(".gemini")
	switch b.geminiSignIn() {
	case "", "gemini-api-key", "gateway":
	case "vertex-ai":
		if b.env("GOOGLE_VERTEX_BASE_URL") == "" {
			b.note("the model calls of Gemini CLI go to Vertex, and are left alone; to see them, set GOOGLE_VERTEX_BASE_URL, such as https://aiplatform.googleapis.com")
		}
	default:
		b.note("Gemini CLI is signed in with Google: its model calls go to Code Assist, and are left alone; to see them, sign in with an API key")
	}
	return nil
}

// setQwen reads the file of variables of Qwen Code. For the rest the variables of all programs do.
func setQwen(b *builder) error {
	b.takeDotenv(".qwen")
	return nil
}

// geminiSignIn returns the kind of sign-in that Gemini CLI's settings or variables choose.
func (b *builder) geminiSignIn() (kind string) {
	switch {
	case b.env("GOOGLE_GENAI_USE_GCA") == "true":
		kind = "oauth-personal"
	case b.env("GOOGLE_GENAI_USE_VERTEXAI") == "true":
		kind = "vertex-ai"
	}
	for _, dir := range []string{cmp.Or(b.env("GEMINI_CLI_HOME"), b.Home), b.Dir} { // the project's settings come last
		raw, err := os.ReadFile(filepath.Join(dir, ".gemini", "settings.json"))
		var settings struct {
			Old      string `json:"selectedAuthType"`
			Security struct {
				Auth struct {
					Kind string `json:"selectedType"`
				} `json:"auth"`
			} `json:"security"`
		}
		if err == nil && json.Unmarshal(jsonc.ToJSON(raw), &settings) == nil {
			kind = cmp.Or(settings.Security.Auth.Kind, settings.Old, kind)
		}
	}
	return kind
}
