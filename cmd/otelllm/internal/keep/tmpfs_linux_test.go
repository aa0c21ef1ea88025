package keep

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A real file system that is full.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("LEFT OUT: a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	k, err := Open(dir, 1<<20)
	require.NoError(t, err)
	errs := 0
	const n = 400
	for i := range n {
		if err := k.Add(document(i)); err != nil {
			errs++
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	}
	assert.Equal(t, 1, errs)
	got, skipped := numbers(t, dir)
	assert.Zero(t, skipped, "no half line is left")
	require.NotEmpty(t, got)
	require.Less(t, len(got), n)

	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=4m")) // there is room again
	require.NoError(t, k.Add(document(n)))
	require.NoError(t, k.Close())
	got, skipped = numbers(t, dir)
	assert.Zero(t, skipped)
	assert.Len(t, got, n+1)
}

// A file system that is full from the start is an error of Open, which leaves nothing behind.
func TestOpenOnFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("LEFT OUT: a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	_, err := Open(dir, 1<<20)
	require.ErrorIs(t, err, syscall.ENOSPC)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, files)
}
