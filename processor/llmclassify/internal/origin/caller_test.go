package origin

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
)

func in(metadata map[string][]string) context.Context {
	return client.NewContext(context.Background(), client.Info{Metadata: client.NewMetadata(metadata)})
}

func TestCallers(t *testing.T) {
	table := NewCallers([]string{"Tenant", "region"})
	a := table.Of(in(map[string][]string{"tenant": {"a"}, "authorization": {"secret"}}))
	require.NotNil(t, a)
	assert.Same(t, a, table.Of(in(map[string][]string{"TENANT": {"a"}})), "keys have no case, and others do not count")
	assert.Equal(t, []string{"a"}, client.FromContext(a.Context(t.Context())).Metadata.Get("tenant"))
	assert.Empty(t, client.FromContext(a.Context(t.Context())).Metadata.Get("authorization"))
	assert.Same(t, a, table.With(a.Metadata()), "it comes back from where it was written")

	assert.Nil(t, NewCallers(nil).Of(in(map[string][]string{"tenant": {"a"}})))
	var unknown *Caller
	assert.Empty(t, unknown.Metadata())
	ctx := unknown.Context(in(map[string][]string{"tenant": {"a"}}))
	assert.Empty(t, client.FromContext(ctx).Metadata.Get("tenant"), "spans without a caller go out without one")
}

// What differs in any value is not one, however the values are put together.
func TestCallersDiffer(t *testing.T) {
	table := NewCallers([]string{"x", "y"})
	seen := map[*Caller]bool{}
	for _, metadata := range []map[string][]string{
		{},
		{"x": {""}},
		{"x": {"a"}},
		{"y": {"a"}},
		{"x": {"a", "b"}},
		{"x": {"b", "a"}},
		{"x": {"ab"}},
		{"x": {"a"}, "y": {"b"}},
		{"x": {"a\x00\x01b"}},
		{"x": {"a\x00\x02\x01b"}},
		{"x": {"a\x00", "b"}},
		{"x": {"a", "\x00b"}},
		{"x": {"a\x00\x01"}},
	} {
		c := table.Of(in(metadata))
		assert.False(t, seen[c], "%q", metadata)
		seen[c] = true
	}
}

func TestCallersAreBounded(t *testing.T) {
	table := NewCallers([]string{"x"})
	for i := range 5 * maxCallers {
		table.Of(in(map[string][]string{"x": {strconv.Itoa(i)}}))
		require.LessOrEqual(t, table.shared.Len(), 2*maxCallers)
	}
}
