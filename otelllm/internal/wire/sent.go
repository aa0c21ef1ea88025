package wire

// sent is a protocol of which the headers and the host of a request say more.
type sent struct {
	Protocol
	toAgent bool // what the tools on the server are is not known
	fills   bool // see [FillsInputs]
}

func asSent(p Protocol) sent {
	if s, ok := p.(sent); ok {
		return s
	}
	return sent{Protocol: p}
}

// ForAgent returns p for requests to an agent that has tools of its own, which the requests
// need not show. It returns nil for nil.
func ForAgent(p Protocol) Protocol {
	if p == nil {
		return nil
	}
	s := asSent(p)
	s.toAgent = true
	return s
}

// FillsInputs returns p for requests of a client that may execute a call of which only the
// beginning of the input has arrived, if the stream ends without an error or the answer was cut
// by a limit: it repairs the JSON, or takes {} in its place. It returns nil for nil.
func FillsInputs(p Protocol) Protocol {
	if p == nil {
		return nil
	}
	s := asSent(p)
	s.fills = true
	return s
}

// ReadRequest implements [Protocol].
func (p sent) ReadRequest(body []byte) (Request, error) {
	req, err := p.Protocol.ReadRequest(body)
	if p.toAgent {
		req.ProviderTools = nil
	}
	return req, err
}

// NewDecoder implements [Protocol].
func (p sent) NewDecoder(contentType string) Decoder {
	d := p.Protocol.NewDecoder(contentType)
	if f, ok := d.(interface{ fillInputs() }); ok && p.fills {
		f.fillInputs()
	}
	return d
}

// bare returns p without what [ForAgent] and [FillsInputs] add.
func bare(p Protocol) Protocol {
	if s, ok := p.(sent); ok {
		return s.Protocol
	}
	return p
}
