package record

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
)

// What is remembered of histories is bounded, whatever the ids, and the newest ones stay.
func TestHistoriesAreBounded(t *testing.T) {
	for _, id := range []string{"r", strings.Repeat("r", 250)} {
		var h Histories
		made := make([]string, 100)
		for i := range made {
			made[i] = id
		}
		for i := range 3 * maxHistories {
			h.add("host", fmt.Sprintf("%s%d", id, i), &onServer{conversation: strconv.Itoa(i % 7), calls: []string{}}, &spanfacts.Request{}, made)
		}
		assert.LessOrEqual(t, len(h.known), maxHistories)
		assert.LessOrEqual(t, len(h.order), maxHistories)
		assert.LessOrEqual(t, h.bytes, maxHistoriesBytes)
		bytes := 0
		for key, k := range h.known {
			bytes += k.size(key)
		}
		assert.Equal(t, bytes, h.bytes)
		last := historyKey{"host", fmt.Sprintf("%s%d", id, 3*maxHistories-1), false}
		assert.NotNil(t, h.find(last))
		last.server = "another"
		assert.Nil(t, h.find(last), "of another server")
	}
}
