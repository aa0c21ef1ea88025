package page

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
)

const (
	maxAnswer  = 2_000            // rows in one answer, and as many of the trace that exceeds it
	maxWait    = 25 * time.Second // for a change
	maxWaiting = 64               // pages that wait at the same time
)

// Handler serves the page and keeps it up to date with the store. It is meant for a listener
// on loopback: it answers only requests that name a loopback address or the address that they
// came to, so that no name of a website can be made to point at it, and only requests of its
// own page.
//
//	/      the page
//	/runs  the runs that changed after ?cursor=, at once or within ?wait= seconds
//	/run   one record, of ?trace= and ?span=
func Handler(store *runs.Store) http.Handler {
	h := &handler{store: store, waiting: make(chan struct{}, maxWaiting)}
	h.instance = rand.Text()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.page)
	mux.HandleFunc("GET /runs", h.runs)
	mux.HandleFunc("GET /run", h.run)
	return guard(mux)
}

type handler struct {
	store    *runs.Store
	instance string        // a cursor of another process means nothing here
	waiting  chan struct{} // a place for each page that waits
}

// guard refuses requests that come from elsewhere, and sets what holds for every answer.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r) {
			http.Error(w, "this page is for this machine only", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "frame-ancestors 'none'") // the rest is in the page itself
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// local reports whether the request names this machine, and whether no other site made it.
func local(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		// Following a link to the page is fine; everything else is not.
		if r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return false
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	to, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	addr, err := netip.ParseAddrPort(to.String())
	return err == nil && addr.Addr().Unmap() == ip.Unmap()
}

func (h *handler) page(w http.ResponseWriter, _ *http.Request) {
	raw, err := json.Marshal(meta{Live: true, Written: time.Now().UTC(), Words: words})
	if err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "%s<script type=\"application/json\" id=\"meta\">%s</script>\n%s", liveShell.before, raw, liveShell.after)
}

// answer is what changed since a cursor.
type answer struct {
	Cursor  string        `json:"cursor"`
	Reset   bool          `json:"reset,omitempty"` // the page has to forget all that it has
	More    bool          `json:"more,omitempty"`  // ask again at once
	Oldest  uint64        `json:"oldest"`          // traces that have not changed since are gone
	Dropped int           `json:"dropped"`         // spans that were forgotten, because there were too many
	Traces  []traceAnswer `json:"traces"`
}

// traceAnswer replaces all rows of a trace.
type traceAnswer struct {
	Trace  string `json:"trace"`
	Change uint64 `json:"change"`
	Rows   []row  `json:"rows"`
}

func (h *handler) runs(w http.ResponseWriter, r *http.Request) {
	after, known := h.cursor(r.FormValue("cursor"))
	changed := h.store.Changed() // before the look at the store, so that no change is missed
	traces, oldest := h.store.Since(after, maxAnswer)
	if seconds, err := strconv.Atoi(r.FormValue("wait")); err == nil && known && len(traces) == 0 && seconds > 0 {
		if h.wait(r.Context(), changed, min(time.Duration(seconds)*time.Second, maxWait)) {
			traces, oldest = h.store.Since(after, maxAnswer)
		}
	}
	out := answer{Reset: !known, Oldest: oldest, Dropped: h.store.Dropped(), Traces: make([]traceAnswer, 0, len(traces))}
	n := 0
	for i := range traces {
		t := &traces[i]
		rows := make([]row, 0, len(t.Records))
		for j := range t.Records[:min(len(t.Records), maxAnswer)] { // one trace has few, unless it is an attack
			rows = append(rows, newRow(&t.Records[j]))
		}
		n += max(1, len(rows))
		out.Traces = append(out.Traces, traceAnswer{Trace: t.ID.String(), Change: t.Change, Rows: rows})
		after = t.Change
	}
	out.More = n >= maxAnswer
	out.Cursor = h.instance + "." + strconv.FormatUint(after, 10)
	send(w, out)
}

// cursor reads a cursor. It reports false for none, and for one of another process.
func (h *handler) cursor(text string) (uint64, bool) {
	instance, number, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || instance != h.instance {
		return 0, false
	}
	return n, true
}

// wait waits for a change, and reports whether there was one. Where too many pages wait, it
// waits for a second without a place, so that they ask less often instead of failing.
func (h *handler) wait(ctx context.Context, changed <-chan struct{}, most time.Duration) bool {
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		most = time.Second
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func (h *handler) run(w http.ResponseWriter, r *http.Request) {
	var id pcommon.TraceID
	raw, err := hex.DecodeString(r.FormValue("trace"))
	if err != nil || len(raw) != len(id) {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	copy(id[:], raw)
	records := h.store.Trace(id)
	for i := range records {
		if records[i].SpanID != r.FormValue("span") {
			continue
		}
		body, err := detail(&records[i])
		if err != nil {
			http.Error(w, "the run cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return
	}
	http.Error(w, "no such run", http.StatusNotFound)
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the page may be gone
}
