package browser_test

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// settle is for what only the eye waits for: the pictures.
const settle = 400 * time.Millisecond

var keyNames = map[string]string{
	"Enter": kb.Enter, "Escape": kb.Escape, "ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "Tab": kb.Tab,
}

// press presses a key as a keyboard does: one event with the key and its text, so that a page
// that takes the key does not get the text as well.
func press(key string) chromedp.Action[chromedp.Void] {
	if named, ok := keyNames[key]; ok {
		key = named
	}
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		for _, r := range key {
			events := kb.Encode(r)
			down, up := *events[0], *events[len(events)-1]
			if len(events) > 2 {
				down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			}
			down.Type = input.DispatchKeyEventTypeRawKeyDown
			if down.Text != "" {
				down.Type = input.DispatchKeyEventTypeKeyDown
			}
			for _, event := range []input.DispatchKeyEventParams{down, up} {
				if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, event); err != nil {
					return chromedp.Void{}, err
				}
			}
		}
		return chromedp.Void{}, nil
	}
}
