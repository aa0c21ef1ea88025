package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// TestHashSpreads: ids that differ in any two of their bytes only are spread over the
// slots of Live, and over the shards, as those that are random throughout.
func TestHashSpreads(t *testing.T) {
	const each = 64 // values of a byte
	slots := uint64(len(Live{}.slots))
	for i := range 16 {
		for j := range i {
			seen := make(map[uint64]bool, each*each)
			var shards [3]int
			for a := range each {
				for b := range each {
					var id pcommon.TraceID
					id[i], id[j] = byte(a), byte(b)
					seen[Hash(id)>>16%slots] = true
					shards[Hash(id)%3]++
				}
			}
			// Thrown at random, 4,096 hit 3,971 slots of 65,536, give or take 11.
			assert.Greater(t, len(seen), 3900, "slots, bytes %d and %d", i, j)
			for _, n := range shards {
				assert.InDelta(t, each*each/3, n, 200, "of a shard, bytes %d and %d", i, j)
			}
		}
	}
}
