package retry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
)

// A redirect is no attempt of its own: the failure at the place that it leads to decides.
func TestRedirect(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		m := newModel(t, reply{events: []string{started}, cut: true}, overloaded, answer)
		gateway := httptest.NewServer(http.RedirectHandler(m.URL+"/v1/chat/completions", status))
		t.Cleanup(gateway.Close)
		p := m.policy()
		p.Attempts = 3
		redirected := &model{Server: gateway, client: &http.Client{Transport: otelllm.NewTransport(&http.Transport{DisableKeepAlives: true})}}
		require.NoError(t, Do(t.Context(), p, func(ctx context.Context) error {
			_, err := redirected.ask(ctx, nil)
			return err
		}), status)
		assert.Len(t, m.bodies, 3, status)
	}
}
