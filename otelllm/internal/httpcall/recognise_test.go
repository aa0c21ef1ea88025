package httpcall

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProviderByHost(t *testing.T) {
	for host, want := range map[string]string{
		"api.openai.com": "openai", "API.OpenAI.com.": "openai", "my-res.openai.azure.com": "azure.ai.openai", "openai.azure.com": "openai",
		"api.groq.com": "groq", "api.mistral.ai": "mistral_ai", "api.deepseek.com": "deepseek", "api.x.ai": "x_ai", "us-east-1.api.x.ai": "x_ai",
		"bedrock-runtime.us-east-1.amazonaws.com": "aws.bedrock", "my-lb.us-east-1.elb.amazonaws.com": "openai",
		"us-east1-aiplatform.googleapis.com": "gcp.vertex_ai", "openrouter.ai": "openrouter", "127.0.0.1": "openai", "": "openai",
		"api.openai.com.evil.example": "openai", "notapi.groq.com": "openai",
	} {
		req, err := http.NewRequest(http.MethodPost, "https://x/v1/chat/completions", http.NoBody)
		require.NoError(t, err)
		protocol, _, ok := (&Recogniser{}).Recognise(NewPreview(req))
		require.True(t, ok)
		assert.Equal(t, want, providerOf(host, protocol), host)
	}
	for target, want := range map[string]int{"https://a": 443, "http://a": 80, "http://a:8080": 8080, "ftp://a": 0, "http://a:x": 0} {
		u, err := url.Parse(target)
		if err == nil {
			assert.Equal(t, want, portOf(u), target)
		}
	}
}
