package otelllm

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// everyCut reports whether the properties of this file and of shapes_test.go are
// checked at every byte and for every mutation, which takes minutes, or at a sample.
func everyCut() bool { return os.Getenv("OTELLLM_EVERY_CUT") != "" }

// way is how a body ends after a prefix of an answer.
type way struct {
	name     string
	end      error // of the body; nil: the consumer closes it, unless watchdog is set
	watchdog bool  // the body goes silent, and a watchdog ends it
}

var (
	endsClean     = way{name: "clean EOF", end: io.EOF}
	endsReset     = way{name: "reset", end: &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}}
	endsTruncated = way{name: "truncated", end: io.ErrUnexpectedEOF}
	endsClosed    = way{name: "closed"}
	endsWatched   = way{name: "watchdog", watchdog: true} // needs a synctest bubble
)

// cutter reads prefixes of answers through a transport, without a network.
type cutter struct {
	plain, watched *Transport
	body           cutBody
	header         http.Header
	buf            []byte
	agent          string // the User-Agent of its requests
}

// cutBody is a body that returns a prefix, and then ends or goes silent.
type cutBody struct {
	left string
	end  error           // nil: it goes silent
	ctx  context.Context // ends the silence
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left != "" {
		n := copy(p, b.left)
		b.left = b.left[n:]
		return n, nil
	}
	if b.end != nil {
		return 0, b.end
	}
	<-b.ctx.Done()
	return 0, context.Cause(b.ctx)
}

func (*cutBody) Close() error { return nil }

// checkingClient is the User-Agent of a client that executes no call with half an input.
const checkingClient = "OpenAI/Go 3.1.0"

func newCutter() *cutter {
	c := &cutter{header: http.Header{}, buf: make([]byte, 64<<10), agent: checkingClient}
	below := roundTripper(func(req *http.Request) (*http.Response, error) {
		c.body.ctx = req.Context() //nolint:fatcontext // each body serves one request
		return &http.Response{StatusCode: http.StatusOK, Header: c.header, Body: &c.body, Request: req}, nil
	})
	c.plain, c.watched = NewTransport(below), NewTransport(below, WithWatchdog(Watchdog{Total: time.Minute}))
	return c
}

// facts returns the facts of a request to path that was answered with the prefix of an
// answer and ended in this way. Facts that depend on the clock are set to fixed values.
func (c *cutter) facts(tb testing.TB, path, request, contentType, prefix string, w way) classify.Request {
	tb.Helper()
	ctx, run := StartRun(tb.Context(), "")
	defer run.End(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/", strings.NewReader(request))
	if err != nil {
		tb.Fatal(err)
	}
	req.URL.Path = path
	req.Header.Set("User-Agent", c.agent)
	c.header["Content-Type"] = []string{contentType}
	c.body = cutBody{left: prefix, end: w.end}
	rt := c.plain
	if w.watchdog {
		rt = c.watched
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	for c.body.left != "" || w.end != nil || w.watchdog {
		if _, err = resp.Body.Read(c.buf); err != nil {
			break
		}
	}
	_ = resp.Body.Close()
	seen, _ := run.run.Facts()
	if len(seen.Requests) != 1 {
		tb.Fatalf("%d requests recorded under %q", len(seen.Requests), path)
	}
	r := seen.Requests[0]
	r.Start, r.End = began, began.Add(time.Minute)
	r.TimeToHeaders, r.LastProgress, r.LongestGap = 0, 0, 0
	return r
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// asking is what a request asked for, as far as the rules depend on it.
type asking struct {
	name string
	set  func(*classify.Request)
	// open: it is not known what the provider did, or still does, beyond a cut. The end
	// of the answer decides it.
	open bool
}

var askings = []asking{
	{"nothing offered", func(*classify.Request) {}, false},
	{"code_interpreter offered", func(r *classify.Request) { r.ProviderTools = []string{"code_interpreter"} }, true},
	{"web_search offered", func(r *classify.Request) { r.ProviderTools = []string{"web_search"} }, false},
	{"mcp offered, background", func(r *classify.Request) {
		r.ProviderTools, r.Background = []string{"mcp"}, true
	}, true},
	{"provider tools not observed", func(r *classify.Request) { r.ProviderTools = nil }, true},
	{"background", func(r *classify.Request) { r.Background = true }, true},
	{"an open call in the history", func(r *classify.Request) { r.HistoryCalls = append(r.HistoryCalls, "call_open") }, false},
}

// setting is the run that a request is part of.
type setting struct {
	name string
	run  func(classify.Request) classify.Run
}

var settings = []setting{
	{"alone", func(r classify.Request) classify.Run { return classify.Run{Requests: []classify.Request{r}} }},
	{"tools recorded", func(r classify.Request) classify.Run {
		return classify.Run{
			ToolsRecorded: classify.Yes, AnnouncedRequests: classify.Counted(1), AnnouncedTools: classify.Counted(0),
			Requests: []classify.Request{r},
		}
	}},
	{"after a tool", func(r classify.Request) classify.Run {
		r.HistoryCalls, r.HistoryOutputs = append([]string{"call_before"}, r.HistoryCalls...), append([]string{"call_before"}, r.HistoryOutputs...)
		return classify.Run{
			ToolsRecorded: classify.Yes, AnnouncedRequests: classify.Counted(2), AnnouncedTools: classify.Counted(1),
			Requests: []classify.Request{{
				Start: began.Add(-3 * time.Minute), End: began.Add(-2 * time.Minute), Basis: classify.Typed,
				Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Failed: classify.No, Status: http.StatusOK,
				Finish: classify.FinishToolCalls, Events: classify.Counted(3),
				Text: classify.Counted(0), Reasoning: classify.Counted(0),
				ToolInputsStarted: classify.Counted(1), ToolInputsCompleted: classify.Counted(1), ToolCalls: classify.Counted(1),
				CallIDs: []string{"call_before"}, ProviderToolsStarted: classify.Counted(0),
				ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
			}, r},
			Tools: []classify.Tool{{
				Start: began.Add(-90 * time.Second), End: began.Add(-80 * time.Second), CallID: "call_before", Name: "read_file",
				Effect: semconv.ToolEffectReadOnly, Outcome: semconv.ToolOutcomeSucceeded, Delivery: semconv.OutputDeliverySent,
			}},
		}
	}},
}

// judged holds the verdicts on one request in every setting and for everything that it may ask for.
type judged struct {
	facts    classify.Request
	verdicts []classify.Diagnosis // of the request and of its run, by case
}

// judgedCase is one verdict in a judged.
type judgedCase struct {
	name string
	open bool // of its asking
}

// cases lists the cases in the order of the verdicts in a judged.
var cases = func() (all []judgedCase) {
	for _, s := range settings {
		for _, a := range askings {
			for _, of := range []string{"request", "run"} {
				all = append(all, judgedCase{s.name + ", " + a.name + ", " + of, a.open})
			}
		}
	}
	return all
}()

// judgeCases judges the facts in every case. What the request asked for comes from the
// case, not from its body.
func judgeCases(facts *classify.Request) judged {
	j := judged{facts: *facts}
	for _, s := range settings {
		for _, a := range askings {
			r := *facts
			r.ProviderTools, r.HistoryCalls, r.HistoryOutputs = []string{}, []string{}, []string{}
			a.set(&r)
			run := s.run(r)
			v := classify.Judge(&run)
			j.verdicts = append(j.verdicts, v.Requests[len(v.Requests)-1], v.Run)
		}
	}
	return j
}

// endedComplete reports whether the answer came to the end that its protocol defines, so that
// its level is no longer that of a cut.
func endedComplete(r *classify.Request) bool {
	return r.Ended == semconv.StreamEndTerminalEvent && r.Provider.Kind == semconv.ProviderErrorKindUnset &&
		r.Finish != classify.FinishMissing
}

// endedInError reports whether the answer ended with an error event.
func endedInError(r *classify.Request) bool {
	return r.Ended == semconv.StreamEndTerminalEvent && r.Provider.Kind != semconv.ProviderErrorKindUnset
}

func equalFacts(a, b *classify.Request) bool { return reflect.DeepEqual(a, b) }

// prefixes checks the invariant that a longer prefix of an answer is never safer to
// repeat. It gets longer and longer prefixes that ended in the same way, and compares
// each with the least safe one before it.
//
// A complete answer is not compared. An error event decides what a cut leaves open: no
// tool of the provider began that was not announced, and a job is over.
//
// A deliberate end by this side is compared only with others of its kind: its level is
// higher than that of the same prefix that the provider or the network ended.
type prefixes struct {
	last    judged
	highest [2][]peak // by case; of other ends, and of deliberate ones
	counts  [6]peak
	unread  int
}

// peak is the highest level, or count, and the cut where it was first reached.
type peak struct {
	level, at int
	verdict   classify.Diagnosis
}

// check compares the next prefix, of n bytes, with those before it. It returns every breach of the
// invariant.
func (p *prefixes) check(n int, facts *classify.Request) (wrong []fault) {
	if p.highest[0] == nil {
		p.highest = [2][]peak{make([]peak, len(cases)), make([]peak, len(cases))}
		p.unread = -1
	}
	if p.last.verdicts == nil || !equalFacts(&p.last.facts, facts) {
		p.last = judgeCases(facts)
	}
	wrong = p.count(n, facts, wrong)
	if endedComplete(facts) {
		return wrong
	}
	settled := endedInError(facts) && facts.ProviderToolsStarted.N() == 0
	for i := range p.last.verdicts {
		if settled && cases[i].open {
			continue
		}
		d := &p.last.verdicts[i]
		if d.Class == semconv.ClassUnset {
			if facts.Ended != semconv.StreamEndUnset { // otherwise nothing is claimed about it
				wrong = append(wrong, fault{kind: "a cut answer is not a failure", in: cases[i].name, a: n, b: n})
			}
			continue
		}
		top := &p.highest[b2i(d.Class == semconv.ClassLocalAbort)][i]
		level := int(d.Retry.Safety)
		if level < top.level {
			wrong = append(wrong, fault{
				kind: fmt.Sprintf("%s/%s %s after %s/%s", d.Class, d.Cause, d.Retry.Safety, top.verdict.Retry.Safety, top.verdict.Retry.Reason),
				in:   cases[i].name, a: top.at, b: n,
			})
		}
		if level > top.level {
			*top = peak{level, n, *d}
		}
	}
	return wrong
}

// count checks that no count falls, and that an unreadable answer stays unreadable.
func (p *prefixes) count(n int, r *classify.Request, wrong []fault) []fault {
	for i, c := range [...]struct {
		name  string
		count classify.Count
	}{
		{"text", r.Text},
		{"reasoning", r.Reasoning},
		{"tool inputs", r.ToolInputsStarted},
		{"complete tool inputs", r.ToolInputsCompleted},
		{"calls", r.ToolCalls},
		{"provider tools", r.ProviderToolsStarted},
	} {
		top := &p.counts[i]
		if c.count.N() < top.level {
			wrong = append(wrong, fault{kind: "the count falls: " + c.name, a: top.at, b: n})
		}
		if c.count.N() > top.level {
			*top = peak{level: c.count.N(), at: n}
		}
	}
	switch {
	case !r.Unread && p.unread >= 0:
		wrong = append(wrong, fault{kind: "an unread answer became read", a: p.unread, b: n})
	case r.Unread && p.unread < 0:
		p.unread = n
	}
	return wrong
}

// brief returns a verdict in short form.
func brief(d *classify.Diagnosis) string {
	if d.Class == semconv.ClassUnset {
		return "no failure"
	}
	return fmt.Sprintf("%s/%s %s/%s", d.Class, d.Cause, d.Retry.Safety, d.Retry.Reason)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fault is one breach of an invariant.
type fault struct {
	kind string
	in   string // the case; "": the facts themselves
	a, b int    // the cuts
}

// faults collects breaches by kind, so that one mistake is reported in one line.
type faults struct {
	kinds map[string]*faultKind
}

type faultKind struct {
	n       int
	in      map[string]int
	example string
}

func (f *faults) add(kind, in, example string) {
	if f.kinds == nil {
		f.kinds = map[string]*faultKind{}
	}
	k := f.kinds[kind]
	if k == nil {
		k = &faultKind{in: map[string]int{}, example: example}
		f.kinds[kind] = k
	}
	k.n++
	if in != "" {
		k.in[in]++
	}
}

// report fails the test with one line per kind.
func (f *faults) report(tb testing.TB) {
	tb.Helper()
	for _, kind := range slices.Sorted(maps.Keys(f.kinds)) {
		k := f.kinds[kind]
		in := slices.Sorted(maps.Keys(k.in))
		if len(in) > 3 {
			in = append(in[:3:3], fmt.Sprintf("and %d more", len(k.in)-3))
		}
		tb.Errorf("%d × %s\n\tin: %s\n\tfirst: %s", k.n, kind, strings.Join(in, "; "), k.example)
	}
}

// around returns the bytes before and after a cut.
func around(text string, n int) string {
	return fmt.Sprintf("%q ✂ %q", text[max(0, n-90):n], text[n:min(len(text), n+30)])
}

// checkPrefixes checks the invariant for one answer, at these cuts in ascending order.
func (c *cutter) checkPrefixes(tb testing.TB, f *faults, w *wireStream, cuts []int, ways ...way) {
	tb.Helper()
	text := w.text()
	for _, end := range ways {
		var p prefixes
		for _, n := range cuts {
			facts := c.facts(tb, w.path, w.request, w.contentType, text[:n], end)
			if facts.ToolInputsCompleted.N() > inputsCompleted(tb, w, text[:n]) {
				continue // see inputsCompleted
			}
			for _, wrong := range p.check(n, &facts) {
				f.add(wrong.kind, wrong.in, fmt.Sprintf("%s (%s), %d and %d bytes:\n\t\t%s\n\t\t%s",
					w.name, end.name, wrong.a, wrong.b, around(text, wrong.a), around(text, wrong.b)))
			}
		}
	}
}

// inputsCompleted returns how many inputs of calls were complete before the answer ended. If
// more are after it, the end itself hands over calls that had no arguments so far: whether
// more were to come, only a longer answer shows. So that end may be less safe than a later
// one, within the input: TestCleanEndBeforeTheArguments has the exception alone.
func inputsCompleted(tb testing.TB, w *wireStream, text string) int {
	tb.Helper()
	path, _, _ := strings.Cut(w.path, "?")
	p, _, ok := wire.Match(http.MethodPost, path)
	require.True(tb, ok, path)
	d := p.NewDecoder(w.contentType)
	d.Write([]byte(text))
	return d.State().ToolInputsCompleted
}

// The one exception to what TestPrefixes checks. At a clean end before the arguments of a call a
// client executes it without arguments, and within them one that checks them cannot: so a longer
// answer is safer there. After an error neither is executed.
func TestCleanEndBeforeTheArguments(t *testing.T) {
	c := newCutter()
	whole := answerOf(t, "chat", "", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`)
	const ask, safe = classify.UserConfirmedRetry, classify.SafeAutoRetry
	for _, tt := range []struct {
		agent string
		end   way
		want  []semconv.RetrySafety
	}{
		{checkingClient, endsClean, []semconv.RetrySafety{ask, safe, ask}},
		{checkingClient, endsReset, []semconv.RetrySafety{safe, safe, ask}},
		{checkingClient, endsTruncated, []semconv.RetrySafety{safe, safe, ask}},
		{"", endsClean, []semconv.RetrySafety{ask, ask, ask}}, // the client may repair half an input
		{"", endsReset, []semconv.RetrySafety{safe, safe, ask}},
		{"", endsTruncated, []semconv.RetrySafety{safe, safe, ask}},
	} {
		c.agent = tt.agent
		end, want := tt.end, tt.want
		for i := range want {
			facts := c.facts(t, whole.path, whole.request, whole.contentType, strings.Join(whole.events[:i+1], ""), end)
			run := classify.Run{Requests: []classify.Request{facts}}
			d := classify.Judge(&run).Requests[0]
			assert.Equal(t, want[i], d.Retry.Safety, "%s after event %d, from %q: %s", end.name, i+1, tt.agent, d.Summary)
		}
	}
}

// cutsOf returns the cuts of a text: all of them, or a sample of about most, three quarters
// of it where lines and objects end.
func cutsOf(name, text string, most int) (cuts []int) {
	if len(text) < most || everyCut() {
		for n := range len(text) + 1 {
			cuts = append(cuts, n)
		}
		return cuts
	}
	var ends []int
	for i := range len(text) {
		if text[i] == '\n' || text[i] == '}' || i > 0 && text[i-1] == '\n' {
			ends = append(ends, i, i+1)
		}
	}
	ends = slices.Compact(ends)
	h := fnv.New32a()
	_, _ = io.WriteString(h, name)
	start := int(h.Sum32() % 1024)
	take := func(n, most int, at func(int) int) {
		step := n/most + 1
		for i := start % step; i < n; i += step {
			cuts = append(cuts, at(i))
		}
	}
	take(len(ends), most*3/4, func(i int) int { return ends[i] })
	take(len(text), most/4, func(i int) int { return i })
	cuts = append(cuts, 0, len(text))
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// TestPrefixes cuts own, sloppy, generated and recorded answers at a sample of their bytes
// or, with OTELLLM_EVERY_CUT, at every byte: a longer prefix is never safer to repeat.
func TestPrefixes(t *testing.T) {
	for _, group := range []struct {
		name    string
		answers []wireStream
		most    int // cuts of one answer
		ways    []way
	}{
		{"own", ownAnswers(t), 300, []way{endsClean, endsReset}},
		{"own, other ends", ownAnswers(t), 40, []way{endsTruncated, endsClosed, endsWatched}},
		{"sloppy", sloppyAnswers(t), 25, []way{endsClean, endsReset, endsClosed}},
		{"generated", generatedAnswers(t), 20, []way{endsClean, endsReset, endsClosed}},
		{"spliced", splicedAnswers(t), 20, []way{endsClean, endsReset}},
		{"recorded", recordedAnswers(t), 25, []way{endsClean, endsReset, endsClosed}},
	} {
		t.Run(group.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCutter()
				var f faults
				for i := 0; i < len(group.answers); i += sample.Every(4) {
					w := &group.answers[i]
					c.checkPrefixes(t, &f, w, cutsOf(w.name, w.text(), group.most/sample.Every(5)), group.ways...)
				}
				f.report(t)
			})
		})
	}
}

// FuzzPrefixes answers with any bytes, cut at two places: the longer prefix is never
// safer to repeat.
func FuzzPrefixes(f *testing.F) {
	answers := slices.Concat(ownAnswers(f), sloppyAnswers(f), generatedAnswers(f))
	kinds := wireKinds()
	for i := 0; i < len(answers); i += sample.Every(8) {
		w := &answers[i]
		kind := slices.IndexFunc(kinds, func(k wireStream) bool { return k.path == w.path && k.contentType == w.contentType })
		if kind < 0 {
			f.Fatalf("%s is of no kind", w.name)
		}
		text := w.text()
		for _, event := range []int{1, len(w.events) / 2} {
			n := len(strings.Join(w.events[:event], ""))
			f.Add(uint8(kind), []byte(text), uint32(n), uint32(len(text)))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, a, b uint32) {
		if len(body) > 16<<10 {
			return
		}
		w := kinds[int(kind)%len(kinds)]
		w.events = []string{string(body)}
		cuts := []int{int(a) % (len(body) + 1), int(b) % (len(body) + 1)}
		slices.Sort(cuts)
		var wrong faults
		newCutter().checkPrefixes(t, &wrong, &w, cuts, endsClean, endsReset, endsClosed)
		wrong.report(t)
	})
}
