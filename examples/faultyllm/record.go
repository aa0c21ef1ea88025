package faultyllm

// Sent counts what left the server in a response body.
type Sent struct {
	Events     int // SSE events but keepalives; the terminal event included
	Keepalives int // comments and pings
	Bytes      int // body bytes; none on Realtime, which has messages

	TextChunks, ReasoningChunks            int // deltas
	ToolInputsStarted, ToolInputsCompleted int
	Terminal                               bool // the terminal event; on Gemini the chunk with the reason
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
	EndedWhole     Ending = iota // everything in the script was sent and the body ended as HTTP has it
	EndedEarly                   // the body ended as HTTP has it where the script cut it
	EndedReset                   // TCP reset
	EndedTruncated               // connection closed inside the body, or before the headers
	EndedByClient                // the client went away first
)

// String is a short lower-case name.
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

// Record is the truth about one exchange: what the server sent, and how it ended.
type Record struct {
	Wire       Wire
	Streamed   bool     // the request asked for a stream
	Status     int      // 0: no headers were sent, or Realtime
	RequestID  string   // as the response header has it; empty without headers, on Gemini and on Realtime
	RetryCount string   // the request's X-Stainless-Retry-Count
	Outputs    []string // on Realtime: the calls whose outputs had come when the client asked
	Sent       Sent
	Ending     Ending
}
