package faultyllm

// Sent counts what the server sent in a response body.
type Sent struct {
	Events     int // SSE events without keepalives; includes the terminal event
	Keepalives int // comments and pings
	Bytes      int // body bytes, before compression; 0 on Realtime, which has messages

	TextChunks, ReasoningChunks            int // deltas
	ToolInputsStarted, ToolInputsCompleted int
	Terminal                               bool // the terminal event was sent; on Gemini the chunk with the reason
}

func (s *Sent) add(o Sent) {
	s.Events += o.Events
	s.Keepalives += o.Keepalives
	s.Bytes += o.Bytes
	s.TextChunks += o.TextChunks
	s.ReasoningChunks += o.ReasoningChunks
	s.ToolInputsStarted += o.ToolInputsStarted
	s.ToolInputsCompleted += o.ToolInputsCompleted
	s.Terminal = s.Terminal || o.Terminal
}

// Ending is how the server ended an exchange.
type Ending uint8

// The endings.
const (
	EndedWhole     Ending = iota // everything in the script was sent and the HTTP body ended normally
	EndedEarly                   // the script cut the content, and the HTTP body ended normally
	EndedReset                   // TCP reset
	EndedTruncated               // connection closed inside the body, or before the headers
	EndedByClient                // the client disconnected first
)

// String returns a short lower-case name.
func (e Ending) String() string {
	switch e {
	case EndedWhole:
		return "whole"
	case EndedEarly:
		return "early"
	case EndedReset:
		return "reset"
	case EndedTruncated:
		return "truncated"
	case EndedByClient:
		return "by_client"
	default:
		return "unknown"
	}
}

// Record is the ground truth of one exchange: what the server sent, and how it ended.
type Record struct {
	Wire       Wire
	Streamed   bool     // the request asked for a stream
	Status     int      // 0 if no headers were sent, and on Realtime
	RequestID  string   // from the response header; empty without headers, on Gemini and on Realtime
	RetryCount string   // the request's X-Stainless-Retry-Count
	Outputs    []string // on Realtime: the calls whose outputs had arrived when the client asked
	Encoding   Encoding // of the response's body
	Sent       Sent
	Ending     Ending
}
