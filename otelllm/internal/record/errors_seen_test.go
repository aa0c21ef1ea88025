package record

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestErrorsSeen reads bodies of errors from public issues, which the catalogue was not written
// from, as the response of every protocol.
func TestErrorsSeen(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "errors-seen.yaml"))
	require.NoError(t, err)
	var seen []struct {
		Source       string            `yaml:"source"`
		Status       int               `yaml:"status"`       // 0: in an answer with status 200
		Host         string            `yaml:"host"`         // of the server, where the error depends on it
		BrokenInput  bool              `yaml:"broken_input"` // the history of the request has a call whose input is not JSON
		Headers      map[string]string `yaml:"headers"`
		Body         string            `yaml:"body"`
		Kind         string            `yaml:"kind"`
		Wrong        string            `yaml:"wrong"`   // the kind that is read although it is not Kind
		History      string            `yaml:"history"` // the kind is then invalid_request
		Intermediary bool              `yaml:"intermediary"`
	}
	require.NoError(t, yaml.Unmarshal(data, &seen))
	require.Greater(t, len(seen), 50)
	for _, s := range seen {
		t.Run(s.Source, func(t *testing.T) {
			history, _ := semconv.ParseProviderErrorHistory(s.History)
			switch {
			case s.History != "":
				s.Kind = "invalid_request"
			case s.Wrong != "":
				s.Kind = s.Wrong
			}
			asked := catalogue.Request{Host: s.Host, BrokenInput: s.BrokenInput}
			check := func(protocol string, f *spanfacts.Request) {
				assert.Equal(t, s.Kind, f.Provider.Kind.String(), protocol)
				assert.Equal(t, history, f.Provider.History, protocol)
				assert.Equal(t, s.Intermediary, f.Provider.Intermediary, protocol)
			}
			if s.Status == 0 {
				d := protocolNamed(t, "openai_responses").NewDecoder("text/event-stream")
				defer d.Release()
				d.Write([]byte(s.Body))
				d.Close()
				require.NotNil(t, d.State().Err)
				f := spanfacts.Request{}
				applyError(&f, asked, http.StatusOK, d.State().Err)
				check("openai_responses", &f)
				return
			}
			header := http.Header{}
			for name, value := range s.Headers {
				header.Set(name, value)
			}
			for _, name := range [...]string{"openai_chat", "openai_responses", "anthropic_messages", "gemini", "ollama", "bedrock_converse"} {
				resp := response{protocol: protocolNamed(t, name), errorResponse: &errorResponse{header: header, body: []byte(s.Body)}}
				f := spanfacts.Request{}
				f.Status = s.Status
				resp.readError(&f, asked)
				check(name, &f)
			}
		})
	}
}

// TestErrorsWritten reads bodies that are like those of public issues, and requires the kind
// after the wait, as the verdict has it.
func TestErrorsWritten(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "errors-written.yaml"))
	require.NoError(t, err)
	var written []struct {
		Host        string            `yaml:"host"`
		BrokenInput bool              `yaml:"broken_input"`
		Status      int               `yaml:"status"`
		Headers     map[string]string `yaml:"headers"`
		Body        string            `yaml:"body"`
		Kind        string            `yaml:"kind"`
		History     string            `yaml:"history"` // the kind is then invalid_request
		Missed      bool              `yaml:"missed"`  // no history is read
	}
	require.NoError(t, yaml.Unmarshal(data, &written))
	for _, w := range written {
		if w.Missed {
			w.History = ""
		}
		if w.Kind == "" {
			w.Kind = "invalid_request"
		}
		header := http.Header{}
		for name, value := range w.Headers {
			header.Set(name, value)
		}
		asked := catalogue.Request{Host: w.Host, BrokenInput: w.BrokenInput}
		resp := response{protocol: protocolNamed(t, "openai_chat"), errorResponse: &errorResponse{
			header: header, body: []byte(w.Body), retryAfter: httpcall.RetryAfter(header, time.Now()),
		}}
		f := spanfacts.Request{}
		f.Status = w.Status
		if w.Status == http.StatusOK {
			f.Status = 0 // the error says what it is
		}
		resp.readError(&f, asked)
		kind := classify.KindByWait(f.Provider.Kind, f.Status, f.Provider.Code, f.RetryAfter)
		assert.Equal(t, w.Kind, kind.String(), w.Body)
		assert.Equal(t, w.History, strings.TrimSuffix(f.Provider.History.String(), "unset"), w.Body)
	}
}
