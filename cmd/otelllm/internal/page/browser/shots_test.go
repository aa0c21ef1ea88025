package browser_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the page to this folder")

// maxPicture bounds a picture of the documentation, in bytes.
const maxPicture = 300_000

// TestScreenshots writes the pictures of the documentation:
//
//	go test . -run TestScreenshots -screenshots ../../../../../docs/images
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots")
	}
	url := writeFile(t, fleet(t, 160, 7))
	for _, view := range []struct {
		name          string
		width, height int64
		scheme        string
		keys          []string
	}{
		{"page-light.png", 1280, 800, "light", nil},
		{"page-dark.png", 1280, 800, "dark", []string{"j", "j", "j"}},
		{"page-phone-light.png", 420, 860, "light", nil},
		{"page-phone-dark.png", 420, 860, "dark", []string{"j", "Enter"}},
	} {
		ctx := tab(t, view.width, view.height, view.scheme)
		open(ctx, t, url)
		for _, key := range view.keys {
			do(ctx, t, press(key))
		}
		do(ctx, t, chromedp.Sleep(settle))
		path := filepath.Join(*screenshots, view.name)
		shot(ctx, t, path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Less(t, info.Size(), int64(maxPicture), view.name)
	}
}
