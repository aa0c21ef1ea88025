package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	pages "github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// The tests of the page run in a real browser: in Debian's Chromium, or another one that
// CHROMIUM_BIN names.

// findBrowser returns the browser's program, or "".
func findBrowser() string {
	if bin := os.Getenv("CHROMIUM_BIN"); bin != "" {
		return bin
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin
		}
	}
	return ""
}

// browser is the one browser of all tests, started by the first.
var browser struct {
	once    sync.Once
	tab     func() (context.Context, context.CancelFunc)
	stop    func()
	dataDir string
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.stop != nil {
		browser.stop()
		_ = os.RemoveAll(browser.dataDir)
	}
	os.Exit(code)
}

func startBrowser(bin string) {
	if browser.dataDir, browser.err = os.MkdirTemp("", "otelllm-page-"); browser.err != nil {
		return
	}
	flag := chromedp.Flag
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(bin), chromedp.UserDataDir(browser.dataDir), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, flag("disable-quic", true), flag("disable-background-networking", true),
		flag("disable-component-update", true), flag("disable-sync", true), flag("disable-dev-shm-usage", true), flag("hide-scrollbars", false),
		chromedp.Env("TZ=UTC", "LANG=en_GB.UTF-8"), chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := chromedp.NewContext(alloc)
	_, browser.err = chromedp.Run(ctx, chromedp.Sleep(0))
	browser.tab = func() (context.Context, context.CancelFunc) { return chromedp.NewContext(ctx) }
	browser.stop = func() { stop(); stopAlloc() }
}

// tab opens a new tab of the given width and height, in the given scheme of colours.
func tab(t *testing.T, width, height int64, scheme string) context.Context {
	t.Helper()
	bin := findBrowser()
	if bin == "" {
		t.Skip("LEFT OUT: no Chromium in PATH or CHROMIUM_BIN")
	}
	browser.once.Do(func() { startBrowser(bin) })
	require.NoError(t, browser.err)
	ctx, cancel := browser.tab()
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	ctx = failOnException(ctx, t)
	call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	return ctx
}

// failOnException returns a context that ends when a script of the tab throws, with the exception as its
// cause: a page that is broken is not waited for.
func failOnException(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	t.Cleanup(func() { cancel(nil) })
	call(ctx, t, cdpruntime.Enable, cdp.Empty{})
	require.NoError(t, chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*cdpruntime.EventExceptionThrown); ok {
			text := e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				text += ": " + e.ExceptionDetails.Exception.Description
			}
			cancel(fmt.Errorf("exception in the page, line %d: %s", e.ExceptionDetails.LineNumber+1, text))
		}
	}))
	return ctx
}

func do[T any](ctx context.Context, t *testing.T, action chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(ctx, action)
	require.NoError(t, err, "%v", context.Cause(ctx))
	return value
}

// call runs a command of the DevTools protocol.
func call[P, R any](ctx context.Context, t *testing.T, command cdp.Command[P, R], params P) R {
	t.Helper()
	return do(ctx, t, chromedp.Action[R](func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	}))
}

// eval returns the value of an expression in the page.
func eval[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	return do(ctx, t, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until a condition is true in the page. The page's policy forbids it to make
// functions of text, so the test asks again and again.
func until(ctx context.Context, t *testing.T, condition string) {
	t.Helper()
	for !eval[bool](ctx, t, condition) {
		select {
		case <-ctx.Done():
			require.Fail(t, "never true: "+condition, "%v", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// writeFile writes a report into a new file and returns its URL.
func writeFile(t *testing.T, records []report.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, pages.WriteReport(f, records))
	return "file://" + path
}

// open opens a page and waits until it has drawn its rows.
func open(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	do(ctx, t, chromedp.Navigate(url))
	until(ctx, t, `document.querySelector('.row, #none:not([hidden])') !== null`)
}

// shot writes a picture of what is in view.
func shot(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	raw := call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
	require.NoError(t, os.WriteFile(path, raw, 0o644))
}
