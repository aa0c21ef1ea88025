package dialect

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStatusTextsAreThoseOfNetHTTP(t *testing.T) {
	for code := 400; code <= 599; code++ {
		assert.Equal(t, http.StatusText(code), statusTexts[code])
	}
}
