package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// rt returns a server event of response r1 as the API writes it.
func rt(typ, more string) string {
	return `{"type":"` + typ + `","event_id":"event_` + fmt.Sprint(len(typ), len(more)) + `","response_id":"r1"` + more + `}`
}

func rtCreated(id string) string {
	return `{"type":"response.created","event_id":"event_1","response":{"object":"realtime.response","id":"` + id + `","status":"in_progress","status_details":null,"output":[],"conversation_id":"conv_1","output_modalities":["audio"],"max_output_tokens":"inf","usage":null,"metadata":null}}`
}

func rtDone(id, status, details, output string) string {
	return `{"type":"response.done","event_id":"event_9","response":{"object":"realtime.response","id":"` + id + `","status":"` + status + `","status_details":` + details + `,"output":` + output +
		`,"conversation_id":"conv_1","usage":{"total_tokens":253,"input_tokens":132,"output_tokens":121,"input_token_details":{"text_tokens":119,"audio_tokens":13,"image_tokens":0,"cached_tokens":64,"cached_tokens_details":{"text_tokens":64,"audio_tokens":0}},"output_token_details":{"text_tokens":30,"audio_tokens":91}},"metadata":null}}`
}

func rtItem(kind, item string) string {
	return rt("response.output_item."+kind, `,"output_index":0,"item":`+item)
}

func rtCall(status string) string {
	return `{"id":"item_1","object":"realtime.item","type":"function_call","status":"` + status + `","name":"f","call_id":"call_a","arguments":""}`
}

const rtMessage = `{"id":"item_1","object":"realtime.item","type":"message","status":"in_progress","role":"assistant","content":[]}`

func rtDelta(typ, delta string) string {
	return rt(typ, `,"item_id":"item_1","output_index":0,"content_index":0,"delta":"`+delta+`"`)
}

func TestRealtimeResponses(t *testing.T) {
	begun := rtCreated("r1")
	identified := func(s *State) { s.ResponseID = "r1" }
	used := func(s *State) {
		s.Usage = Usage{Input: 132, Output: 121, CacheRead: 64, CacheCreation: -1, Reasoning: -1}
	}
	arguments := rt("response.function_call_arguments.delta", `,"item_id":"item_1","output_index":0,"call_id":"call_a","delta":"{\"a\""`)
	argumentsDone := rt("response.function_call_arguments.done", `,"item_id":"item_1","output_index":0,"call_id":"call_a","name":"f","arguments":"{\"a\":1}"`)
	mcp := `{"id":"mcp_1","object":"realtime.item","type":"mcp_call","server_label":"s","name":"f","arguments":"{}"}`
	message := `{"id":"item_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_audio","transcript":"secret"}]}`
	turn, client := `{"type":"cancelled","reason":"turn_detected"}`, `{"type":"cancelled","reason":"client_cancelled"}`
	notComplete := func(s *State) { s.Terminal = true }

	for _, tt := range []struct {
		name   string
		frames []string
		want   func(*State)
		last   Frame // without ResponseID and State
	}{
		{"begun", []string{begun}, events(1), Frame{Kind: FrameBegan}},
		{"begun twice", []string{begun, begun}, events(2), Frame{Kind: FrameProgress}},
		{"an item", []string{begun, rtItem("added", rtMessage)}, events(2), Frame{Kind: FrameProgress}},
		{"text", []string{begun, rtDelta("response.output_text.delta", "hi"), rtDelta("response.output_text.delta", " \\u00e9"), rtDelta("response.output_text.delta", "")}, all(events(4), texts(2), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},
		{"text of the beta", []string{begun, rtDelta("response.text.delta", "hi")}, all(events(2), texts(1), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},
		{"speech", []string{begun, rtDelta("response.output_audio_transcript.delta", "hi"), rtDelta("response.output_audio.delta", "AAAA"), rtDelta("response.output_audio.delta", "BBBB")}, all(events(4), texts(3), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},
		{"speech of the beta", []string{begun, rtDelta("response.audio_transcript.delta", "hi"), rtDelta("response.audio.delta", "AAAA")}, all(events(3), texts(2), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},
		{"an event that is not known", []string{begun, rt("response.news.delta", "")}, events(2), Frame{Kind: FrameProgress}},
		{"ends of the Responses API mean nothing", []string{begun, rt("response.failed", ""), rt("response.completed", ""), rt("response.cancelled", "")}, events(4), Frame{Kind: FrameProgress}},
		{"deltas that are objects", []string{begun, rt("response.output_text.delta", `,"output_index":0,"delta":{"a":"b"}`), rt("response.output_text.delta", `,"output_index":0,"delta":{"a":"b"}`)}, all(events(3), texts(2), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},
		{"an item of another shape", []string{begun, rtItem("added", `{"type":"message","content":{"a":"hi"}}`)}, all(events(2), unread), Frame{Kind: FrameProgress}},
		{"no response named", []string{begun, `{"type":"response.output_text.delta","delta":"hi"}`}, all(events(2), texts(1), phase(semconv.PhaseText)), Frame{Kind: FrameProgress}},

		{"a call begun", []string{begun, rtItem("added", rtCall("in_progress"))}, all(events(2), calls("call_a"), phase(semconv.PhaseToolInput)), Frame{Kind: FrameProgress}},
		{"its input", []string{begun, rtItem("added", rtCall("in_progress")), arguments}, all(events(3), calls("call_a"), phase(semconv.PhaseToolInput)), Frame{Kind: FrameProgress}},
		{"its input complete", []string{begun, rtItem("added", rtCall("in_progress")), arguments, argumentsDone}, all(events(4), calls("call_a+"), phase(semconv.PhaseToolCallReady)), Frame{Kind: FrameProgress}},
		{"handed over", []string{begun, rtItem("added", rtCall("in_progress")), arguments, argumentsDone, rtItem("done", rtCall("completed"))}, all(events(5), calls("call_a!"), phase(semconv.PhaseToolCallReady)), Frame{Kind: FrameProgress}},
		{"a whole call", []string{begun, rtItem("added", rtCall("in_progress")), argumentsDone, rtItem("done", rtCall("completed")), rtDone("r1", "completed", "null", "["+rtCall("completed")+"]")}, all(used, events(5), calls("call_a!"), ended("tool_calls")), Frame{Kind: FrameDone}},
		{"a call in response.done alone", []string{begun, rtDone("r1", "completed", "null", "["+rtCall("completed")+"]")}, all(used, events(2), calls("call_a!"), ended("tool_calls")), Frame{Kind: FrameDone}},
		{"an answer in response.done alone", []string{begun, rtDone("r1", "completed", "null", "["+message+"]")}, all(used, events(2), texts(1), ended("stop")), Frame{Kind: FrameDone}},
		{"the provider's tool", []string{begun, rtItem("added", mcp), rt("response.mcp_call_arguments.delta", `,"output_index":0,"item_id":"mcp_1","delta":"{"`), `{"type":"response.mcp_call.in_progress","event_id":"e","output_index":0,"item_id":"mcp_1"}`}, all(events(4), providerTools(1, "mcp")), Frame{Kind: FrameProgress}},

		{"completed", []string{begun, rtItem("added", rtMessage), rtDelta("response.output_text.delta", "hi"), rtItem("done", message), rtDone("r1", "completed", "null", "["+message+"]")}, all(used, events(5), texts(1), ended("stop")), Frame{Kind: FrameDone}},
		{"cancelled by speech", []string{begun, rtDelta("response.output_audio.delta", "hi"), rtDone("r1", "cancelled", turn, "[]")}, all(used, events(3), texts(1), phase(semconv.PhaseText), notComplete, finished("cancelled")), Frame{Kind: FrameDone, Cancelled: true, CancelReason: CancelTurnDetected}},
		{"cancelled by the client", []string{begun, rtDone("r1", "cancelled", client, "[]")}, all(used, events(2), notComplete, finished("cancelled")), Frame{Kind: FrameDone, Cancelled: true, CancelReason: CancelClient}},
		{"cancelled within a call", []string{begun, rtItem("added", rtCall("in_progress")), arguments, rtItem("done", rtCall("incomplete")), rtDone("r1", "cancelled", client, "["+rtCall("incomplete")+"]")}, all(used, events(5), calls("call_a"), phase(semconv.PhaseToolInput), notComplete, finished("cancelled")), Frame{Kind: FrameDone, Cancelled: true, CancelReason: CancelClient}},
		{"a reason that is a text", []string{begun, rtDone("r1", "cancelled", `{"reason":"because of you"}`, "[]")}, all(used, events(2), notComplete, finished("cancelled")), Frame{Kind: FrameDone, Cancelled: true, CancelReason: "redacted"}},
		{"incomplete", []string{begun, rtDone("r1", "incomplete", `{"type":"incomplete","reason":"max_output_tokens"}`, "[]")}, all(used, events(2), ended("max_output_tokens")), Frame{Kind: FrameDone}},
		{"filtered", []string{begun, rtDone("r1", "incomplete", `{"type":"incomplete","reason":"content_filter"}`, "[]")}, all(used, events(2), ended("content_filter")), Frame{Kind: FrameDone}},
		{"failed", []string{begun, rtDone("r1", "failed", `{"type":"failed","error":{"type":"server_error","code":"rate_limit_exceeded","message":"secret"}}`, "[]")}, all(used, events(2), failed(Error{Type: "server_error", Code: "rate_limit_exceeded"})), Frame{Kind: FrameDone}},
		{"failed without a word", []string{begun, rtDone("r1", "failed", "null", "[]")}, all(used, events(2), failed(Error{})), Frame{Kind: FrameDone}},
		{"a status that is not known", []string{begun, rtDone("r1", "new", "null", "[]")}, all(used, events(2), notComplete), Frame{Kind: FrameDone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := started()
			identified(want)
			tt.want(want)
			r, plain := NewRealtime(), NewRealtime()
			plain.values = nil
			var first *State
			var f Frame
			for _, frame := range tt.frames {
				p := []byte(frame)
				f = r.Received(p)
				for i := range p {
					p[i] = '~' // a reader that retains the frame shows it
				}
				assert.Equal(t, plain.Received([]byte(frame)), f, "the same with every frame parsed")
				if first == nil {
					first = f.State
				}
				assert.Same(t, first, f.State)
				assert.Equal(t, "r1", f.ResponseID)
			}
			assert.Equal(t, want, f.State)
			f.ResponseID, f.State = "", nil
			assert.Equal(t, tt.last, f)
		})
	}
}

func TestRealtimeFrames(t *testing.T) {
	sent, received := (*Realtime).Sent, (*Realtime).Received
	const long = "an id that no provider would write"
	for _, tt := range []struct {
		name  string
		take  func(*Realtime, []byte) Frame
		frame string
		want  Frame
	}{
		{"asked", sent, `{"type":"response.create"}`, Frame{Kind: FrameCreateSent}},
		{"asked by id", sent, `{"event_id":"evt_1","type":"response.create","response":{"conversation":"none","input":[]}}`, Frame{Kind: FrameCreateSent, EventID: "evt_1"}},
		{"asked by a long id", sent, `{"event_id":"` + long + `","type":"response.create"}`, Frame{Kind: FrameCreateSent, EventID: SafeID(long)}},
		{"asked by an escaped id", sent, `{"event_id":"a\u002fb","type":"response.create"}`, Frame{Kind: FrameCreateSent, EventID: "a/b"}},
		{"not an id", sent, `{"event_id":7,"type":"response.create"}`, Frame{Kind: FrameCreateSent}},
		{"asked, received", received, `{"type":"response.create"}`, Frame{}},
		{"an output", sent, `{"type":"conversation.item.create","event_id":"evt_2","item":{"type":"function_call_output","call_id":"call_a","output":"secret"}}`, Frame{Kind: FrameOutputSent, CallID: "call_a", EventID: "evt_2"}},
		{"a message", sent, `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"secret"}]}}`, Frame{}},
		{"an approval", sent, `{"type":"conversation.item.create","item":{"type":"mcp_approval_response","approval_request_id":"a","approve":true}}`, Frame{}},
		{"cancel", sent, `{"type":"response.cancel"}`, Frame{Kind: FrameCancelSent}},
		{"cancel one", sent, `{"type":"response.cancel","event_id":"evt_3","response_id":"r1"}`, Frame{Kind: FrameCancelSent, ResponseID: "r1", EventID: "evt_3"}},
		{"delete", sent, `{"type":"conversation.item.delete","item_id":"i"}`, Frame{Kind: FrameHistoryChanged}},
		{"truncate", sent, `{"type":"conversation.item.truncate","item_id":"i","content_index":0,"audio_end_ms":1500}`, Frame{Kind: FrameHistoryChanged}},
		{"deleted", received, `{"type":"conversation.item.deleted","item_id":"i"}`, Frame{Kind: FrameHistoryChanged}},
		{"truncated", received, `{"type":"conversation.item.truncated","item_id":"i"}`, Frame{Kind: FrameHistoryChanged}},
		{"audio", sent, `{"type":"input_audio_buffer.append","audio":"AAAA"}`, Frame{}},
		{"an error", received, `{"type":"error","event_id":"event_890","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"secret","param":null,"event_id":"evt_1"}}`, Frame{Kind: FrameError, EventID: "evt_1", Err: &Error{Type: "invalid_request_error", Code: "conversation_already_has_active_response"}}},
		{"an error about nothing", received, `{"type":"error","error":{"type":"server_error","code":null,"message":"secret","event_id":null}}`, Frame{Kind: FrameError, Err: &Error{Type: "server_error"}}},
		{"an error that is flat", received, `{"type":"error","code":"x","message":"secret"}`, Frame{Kind: FrameError, Err: &Error{Code: "x"}}},
		{"an error that is a text", received, `{"type":"error","error":"bad"}`, Frame{Kind: FrameError, Err: &Error{}}},
		{"rate limits", received, `{"type":"rate_limits.updated","rate_limits":[]}`, Frame{}},
		{"the user speaks", received, `{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":7}`, Frame{}},
		{"an item of the conversation", received, `{"type":"conversation.item.added","item":` + rtCall("in_progress") + `}`, Frame{}},
		{"of a response that is not known", received, rtDelta("response.text.delta", "a"), Frame{}},
		{"the end of one", received, rtDone("r1", "completed", "null", "[]"), Frame{}},
		{"without a type", received, `{}`, Frame{}},
		{"not a type", received, `{"type":7}`, Frame{}},
		{"a list", received, `[]`, Frame{Kind: FrameUnreadable}},
		{"nothing", received, ``, Frame{Kind: FrameUnreadable}},
		{"cut", received, `{"type":"response.cre`, Frame{Kind: FrameUnreadable}},
		{"a text", sent, `hello`, Frame{Kind: FrameUnreadable}},
		{"as long as may be", sent, strings.Repeat(" ", MaxEvent-2) + `{}`, Frame{}},
		{"too long", sent, strings.Repeat(" ", MaxEvent) + `{}`, Frame{Kind: FrameUnreadable}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.take(NewRealtime(), []byte(tt.frame)))
		})
	}
}

func TestRealtimeModel(t *testing.T) {
	r := NewRealtime()
	assert.Empty(t, r.Model())
	r.Sent([]byte(`{"type":"session.update","session":{"type":"realtime","model":"asked","instructions":"secret"}}`))
	assert.Equal(t, "asked", r.Model())
	r.Received([]byte(`{"type":"session.created","session":{"object":"realtime.session","id":"sess_1","model":"gpt-realtime","audio":{"input":{"transcription":{"model":"whisper-1"}}}}}`))
	assert.Equal(t, "gpt-realtime", r.Model())
	r.Sent([]byte(`{"type":"session.update","session":{"model":"asked"}}`))
	assert.Equal(t, "gpt-realtime", r.Model(), "the server's word outweighs the client's")
	r.Received([]byte(`{"type":"session.updated","session":{"instructions":"secret"}}`))
	assert.Equal(t, "gpt-realtime", r.Model())
	r.Received([]byte(`{"type":"session.updated","session":{"model":"gpt realtime"}}`))
	assert.Equal(t, "redacted", r.Model())
}

// Responses outside of the conversation are open at the same time as the one in it.
func TestRealtimeResponsesAtOnce(t *testing.T) {
	r := NewRealtime()
	text := func(id string) Frame {
		return r.Received([]byte(`{"type":"response.output_text.delta","event_id":"e","response_id":"` + id + `","item_id":"i","output_index":0,"content_index":0,"delta":"a"}`))
	}
	a := r.Received([]byte(rtCreated("a")))
	b := r.Received([]byte(rtCreated("b")))
	text("a")
	text("b")
	text("b")
	assert.Equal(t, FrameOther, text("c").Kind)
	assert.Equal(t, FrameOther, r.Received([]byte(`{"type":"response.output_text.delta","delta":"a"}`)).Kind, "either")
	assert.Equal(t, FrameDone, r.Received([]byte(rtDone("b", "completed", "null", "[]"))).Kind)
	assert.Equal(t, FrameOther, text("b").Kind, "it is done")
	assert.Equal(t, FrameProgress, text("a").Kind)
	assert.Equal(t, 2, a.State.TextChunks)
	assert.Equal(t, 2, b.State.TextChunks)

	strange := "an id with spaces " + strings.Repeat("x", 200)
	first := r.Received([]byte(rtCreated(strange)))
	assert.Equal(t, SafeID(strange), first.ResponseID)
	assert.Same(t, first.State, text(strange).State)

	for i := range MaxOpenResponses - 2 {
		assert.Equal(t, FrameBegan, r.Received([]byte(rtCreated(strconv.Itoa(i)))).Kind)
	}
	assert.Equal(t, FrameProgress, text("a").Kind)
	r.Received([]byte(rtCreated("one more")))
	assert.Equal(t, FrameOther, text("a").Kind, "the oldest is forgotten")
	assert.Equal(t, FrameProgress, text(strange).Kind)
	assert.Len(t, r.open, MaxOpenResponses)
}

// A response is found by its id, also if that is too long to be kept.
func TestRealtimeLongIDs(t *testing.T) {
	for _, n := range []int{maxSafeID, maxSafeID + 1} {
		r := NewRealtime()
		r.Received([]byte(rtCreated("another")))
		id := strings.Repeat("word.", n)[:n]
		begun := r.Received([]byte(rtCreated(id)))
		f := r.Received([]byte(`{"type":"response.output_text.delta","response_id":"` + id + `","output_index":0,"delta":"a"}`))
		assert.Equal(t, FrameProgress, f.Kind, "%d bytes", n)
		assert.Same(t, begun.State, f.State)
	}
}

// A frame that names no response belongs to the only open one, but not to the one that was
// the only one when a frame of the same form came.
func TestRealtimeFramesWithoutResponse(t *testing.T) {
	r := NewRealtime()
	text := []byte(`{"type":"response.output_text.delta","output_index":0,"delta":"a"}`)
	r.Received([]byte(rtCreated("r1")))
	assert.Equal(t, FrameProgress, r.Received(text).Kind)
	assert.Equal(t, FrameProgress, r.Received(text).Kind)
	r.Received([]byte(rtCreated("r2")))
	assert.Equal(t, Frame{}, r.Received(text))
}

// A frame that is too long is not read, also if its form is known.
func TestRealtimeFrameTooLong(t *testing.T) {
	r := NewRealtime()
	r.Received([]byte(rtCreated("r1")))
	frame := func(size int) []byte {
		const head, end = `{"type":"response.output_text.delta","response_id":"r1","output_index":0,"delta":"`, `"}`
		return []byte(head + strings.Repeat("a", size-len(head+end)) + end)
	}
	for _, size := range []int{100, MaxEvent} {
		assert.Equal(t, FrameProgress, r.Received(frame(size)).Kind)
	}
	assert.Equal(t, FrameUnreadable, r.Received(frame(MaxEvent+1)).Kind)
}

func TestRealtimeSteadyStateAllocatesNothing(t *testing.T) {
	r := NewRealtime()
	r.Received([]byte(rtCreated("r1")))
	var frames [][]byte
	for i := range 20 {
		frames = append(frames, []byte(fmt.Sprintf(`{"type":"response.output_audio.delta","event_id":"event_%d","response_id":"r1","item_id":"item_1","output_index":0,"content_index":0,"delta":"%s"}`, i, strings.Repeat("AbC0", 100+i))))
	}
	run := func() {
		for _, f := range frames {
			r.Received(f)
		}
	}
	run()
	assert.Zero(t, testing.AllocsPerRun(20, run))
	fast := &r.open[0].fast
	assert.Equal(t, 1, int(fast.kept))
	assert.NotContains(t, fast.literals(), "AbC0", "no content is kept")
}

func FuzzRealtime(f *testing.F) {
	session := strings.Join([]string{
		`{"type":"session.created","event_id":"event_1","session":{"model":"gpt-realtime"}}`,
		`>{"type":"response.create","event_id":"evt_1"}`,
		rtCreated("r1"), rtCreated("r2"), rtItem("added", rtMessage),
		rtDelta("response.output_text.delta", "a"), rtDelta("response.output_text.delta", "\\u00e9"), rtDelta("response.audio.delta", "AAAA"),
		rtItem("done", rtCall("completed")),
		`>{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_a","output":"x"}}`,
		rtDone("r1", "completed", "null", "["+rtCall("completed")+"]"),
		rtDone("r2", "failed", `{"error":{"type":"t","code":"c"}}`, "[]"),
		`{"type":"error","error":{"type":"invalid_request_error","code":"x","event_id":"evt_1"}}`,
	}, "\n")
	f.Add([]byte(session))
	f.Add([]byte(rtCreated("r1") + "\n" + rtDone("r1", "cancelled", `{"reason":"turn_detected"}`, "[]") + "\n" + rtDelta("response.text.delta", "late")))
	f.Add([]byte(rtCreated("r1") + "\n" + rtDelta("response.text.delta", "a") + "\n" + strings.Replace(rtDelta("response.text.delta", "a"), "r1", "r2", 1) + "\n{"))
	f.Fuzz(func(t *testing.T, session []byte) {
		r, plain := NewRealtime(), NewRealtime()
		plain.values = nil
		for line := range strings.SplitSeq(string(session), "\n") {
			take := (*Realtime).Received
			line, sent := strings.CutPrefix(line, ">")
			if sent {
				take = (*Realtime).Sent
			}
			p := []byte(line)
			got := take(r, p)
			require.Equal(t, line, string(p), "the frame is changed")
			for i := range p {
				p[i] = '~'
			}
			require.Equal(t, take(plain, []byte(line)), got, "the same with every frame parsed")
			var object map[string]json.RawMessage
			require.Equal(t, json.Unmarshal([]byte(line), &object) == nil && object != nil, got.Kind != FrameUnreadable)
			for _, id := range []string{got.ResponseID, got.CallID, got.EventID} {
				assert.Equal(t, SafeID(id), id)
			}
			assert.Equal(t, SafeName(got.CancelReason), got.CancelReason)
			assert.LessOrEqual(t, len(r.open), MaxOpenResponses)
			assert.Equal(t, safeModel([]byte(r.Model())), r.Model())
			switch got.Kind {
			case FrameBegan, FrameProgress, FrameDone:
				require.NotNil(t, got.State)
				checkState(t, got.State)
				assert.Equal(t, got.Kind == FrameDone, got.State.Terminal)
			default:
				assert.Nil(t, got.State)
			}
		}
	})
}

// The tools that the provider may execute are those of the session, or not known.
func TestRealtimeTools(t *testing.T) {
	r := NewRealtime()
	ask := []byte(`{"type":"response.create"}`)
	assert.Nil(t, r.Sent(ask).ProviderTools, "not declared")
	r.Received([]byte(`{"type":"session.created","session":{"model":"m"}}`))
	assert.Nil(t, r.Sent(ask).ProviderTools)
	r.Received([]byte(`{"type":"session.created","session":{"model":"m","tools":[]}}`))
	assert.Equal(t, []string{}, r.Sent(ask).ProviderTools)
	r.Sent([]byte(`{"type":"session.update","session":{"tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"s"}]}}`))
	assert.Equal(t, []string{"mcp"}, r.Sent(ask).ProviderTools)
	assert.Equal(t, []string{"mcp"}, r.Received([]byte(rtCreated("r1"))).ProviderTools)
	for own, want := range map[string][]string{
		`[]`: {},
		`[{"type":"function","name":"f"},{"type":"mcp","server_label":"x"}]`: {"mcp"},
		`null`:                 {"mcp"}, // those of the session
		`[{"server_url":"x"}]`: nil,     // of what kind it is, is not shown
	} {
		asked := r.Sent([]byte(`{"type":"response.create","response":{"metadata":{"tools":["x"]},"tools":` + own + `}}`))
		assert.Equal(t, FrameCreateSent, asked.Kind)
		assert.Equal(t, want, asked.ProviderTools, own)
	}
	assert.Equal(t, []string{"mcp"}, r.Sent(ask).ProviderTools, "the session's are as they were")
}

// What a client sets has to be known, in the session as in a single response.
func TestRealtimeMembers(t *testing.T) {
	begin := func() *Realtime {
		r := NewRealtime()
		r.Received([]byte(`{"type":"session.created","session":{"model":"m","tools":[],"agent":"x"}}`))
		return r
	}
	asked := func(r *Realtime, response string) []string {
		return r.Sent([]byte(`{"type":"response.create","response":` + response + `}`)).ProviderTools
	}
	require.Equal(t, []string{}, asked(begin(), "{}"))
	for name := range realtimeMembers {
		for _, v := range []string{`"x"`, `1`, `{"x":1}`} {
			if name == "tools" {
				continue
			}
			member := fmt.Sprintf("{%q:%s}", name, v)
			assert.Equal(t, []string{}, asked(begin(), member), member)
			r := begin()
			r.Sent([]byte(`{"type":"session.update","session":` + member + `}`))
			assert.Equal(t, []string{}, asked(r, "{}"), member)
		}
	}
	for _, name := range []string{"agent", "mcp_servers", "prompt", "assistant_id", "toolsets", "Tools", "workflow"} {
		for v, hides := range map[string]bool{`"x"`: true, `{"id":"x"}`: true, `[1]`: true, `null`: false, `""`: false, `{"id":null}`: false} {
			member := fmt.Sprintf("%q:%s", name, v)
			assert.Equal(t, hides, asked(begin(), "{"+member+"}") == nil, member)
			assert.Equal(t, hides, asked(begin(), `{"tools":[],`+member+"}") == nil, member)
			r := begin()
			r.Sent([]byte(`{"type":"session.update","session":{"tools":[],` + member + `}}`))
			assert.Equal(t, hides, asked(r, "{}") == nil, member)
			// The server's answer repeats the tools alone.
			r.Received([]byte(`{"type":"session.updated","session":{"tools":[]}}`))
			f := r.Received([]byte(`{"type":"response.created","response":{"id":"resp_1"}}`))
			assert.Equal(t, hides, f.ProviderTools == nil, member)
			assert.Equal(t, []string{}, asked(r, `{"tools":[]}`), member)
		}
	}
}
