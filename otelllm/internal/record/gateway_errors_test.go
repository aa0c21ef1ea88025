package record

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
)

// TestGatewaysOwnErrors: an error in the form of a provider's is the gateway's if its type says so,
// whatever the code and the status, also within a stream. Without that type, the same error may
// have been passed on.
func TestGatewaysOwnErrors(t *testing.T) {
	for typ, want := range map[string]bool{
		"new_api_error": true, "one_api_error": true, "NEW_API_ERROR": true,
		"invalid_request_error": false, "upstream_error": false, "bad_response_status_code": false, "": false,
	} {
		for _, code := range []string{"do_request_failed", "channel:no_available_key", "model_not_found", "insufficient_user_quota", ""} {
			object := `{"message":"no available channel for model m","type":"` + typ + `","code":"` + code + `"}`
			for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
				r := response{protocol: protocolNamed(t, "openai_chat"), errorResponse: &errorResponse{header: http.Header{}, body: []byte(`{"error":` + object + `}`)}}
				f := spanfacts.Request{}
				f.Status = status
				r.readError(&f, catalogue.Request{})
				assert.Equal(t, want, f.Provider.Intermediary, "%d %s", status, object)
			}
			d := protocolNamed(t, "openai_chat").NewDecoder("text/event-stream")
			d.Write([]byte(`data: {"error":` + object + "}\n\n"))
			require.NotNil(t, d.State().Err)
			f := spanfacts.Request{}
			applyError(&f, catalogue.Request{}, http.StatusOK, d.State().Err)
			assert.Equal(t, want, f.Provider.Intermediary, object)
		}
	}
}
