package kinship

import "github.com/otelllm/otelllm-go/otelllm/internal/wire"

// findByWords finds the request that r repeats or continues in other bytes: in another protocol, with fewer tools, with the
// time in its instructions, or with calls whose ids were renamed. The words of the users and the tools are the same, and so
// are the instructions or the names of the tools. As others may use the same words, the client must be known to be the
// same.
func (t *Tracker) findByWords(r *Request, tr *wire.Transcript, session uint64) {
	if !r.known || r.words == 0 || tr.Previous != 0 {
		return
	}
	t.eachRequestOf(r, session, func(q *Request) {
		if q.Run.over || q.Run.last != q || q.words == 0 || q.answer.Result == Unobserved || !q.sameAgent(r) {
			return
		}
		switch n, point := q.placeIn(tr); {
		case n < 0:
		case n == 0:
			if q.mayBeRetried() {
				t.add(reading{q, Again, point.Before})
			}
		default:
			_, ok := q.continuedBy(tr, &point)
			a := q.soFar()
			// A part of an answer that was cut is in the bytes, or it is not known to be one.
			if relation := a.relationOf(tr, point.Before); relation != Again && (ok || t.renamed(q, tr, &point)) {
				t.add(reading{q, relation, point.Before})
			}
		}
	})
}

// placeIn returns the place, as [wire.Transcript.Point] counts, up to which a history may equal the history of r: the words
// and the number of answers before it are the same. It returns -1 without such a place, or if more than one answer follows it.
func (r *Request) placeIn(tr *wire.Transcript) (int, wire.TranscriptPoint) {
	for n := 0; ; n++ {
		point, ok := tr.Point(n)
		if !ok || tr.Total.Answers > point.Before.Answers+1 {
			return -1, point
		}
		if point.Words == r.words && point.Before.Answers == int(r.answers) {
			return n, point
		}
	}
}

// mayBeRetried reports whether a later request with the same words may be a further attempt of r in other bytes.
func (r *Request) mayBeRetried() bool {
	switch a := r.soFar(); a.Result {
	case Failed, Stopped, Redirected:
		return !r.continued
	default:
		return false
	}
}

// renamed reports whether the calls after the point may be the calls of r's answer, under ids that no response has handed
// out.
func (t *Tracker) renamed(r *Request, tr *wire.Transcript, point *wire.TranscriptPoint) bool {
	a := r.soFar()
	if a.Result == Pending || len(a.Calls) == 0 || tr.Total.Calls-point.Before.Calls != len(a.Calls) {
		return false
	}
	for n := point.Before.Calls; n < tr.Total.Calls; n++ {
		if c, ok := tr.Call(n); !ok || t.ids[c.ID].holders > 0 {
			return false
		}
	}
	return true
}

// sameAgent reports whether two requests may be of one agent in two protocols: they have the same instructions, or offer
// tools of the same names. A title maker has neither in common with the agent that it serves.
func (r *Request) sameAgent(other *Request) bool {
	return r.sender == other.sender && (r.voice == other.voice || r.offers == other.offers && r.offers != 0)
}

// isSummary reports whether r, which continues the request before it, asks for a summary instead of going on: unlike the
// one before, it offers no tools, and it has one more message.
func (r *Request) isSummary(before *Request, tr *wire.Transcript, from wire.TranscriptCount) bool {
	return before.tools != 0 && r.tools == 0 && tr.Total.Users > from.Users && !before.Run.last.saysAgain(r)
}

// findBySummary finds the request that was refused because its history was too long, and that r sends again with a summary in
// its place: the same agent had asked for one and got it. The words of the summary are not compared, so the client must be
// known to be the same, and no other request of it may have waited.
func (t *Tracker) findBySummary(r *Request, tr *wire.Transcript, session uint64) {
	if !r.known && !r.affine || r.tools == 0 || tr.Previous != 0 {
		return
	}
	var refused *Request
	several := false
	t.eachRequestOf(r, session, func(q *Request) {
		before := q.Before
		if !q.shortens || q.answer.Result != Answered || before == nil || before.gone || before.Run.over || before.Run.last != before || before.continued {
			return
		}
		several = several || refused != nil && refused != before
		refused = before
	})
	if refused != nil && !several && refused.tools == r.tools && refused.voice == r.voice && r.answers <= refused.answers {
		t.add(reading{refused, Again, tr.Total})
	}
}

// saysAgain reports whether later comes from the same client as r, with the same words of its users and tools.
func (r *Request) saysAgain(later *Request) bool {
	return r != nil && later.known && r.words == later.words && r.words != 0 && r.sameAgent(later)
}

// maxConversations bounds the conversations that are searched for one that a client goes on with.
const maxConversations = 8

// eachRequestOf calls f with the remembered requests of the client of r, which is known: of its session, or of the conversations
// that were used last.
func (t *Tracker) eachRequestOf(r *Request, session uint64, f func(q *Request)) {
	each := func(c *Conversation) {
		for _, q := range c.requests[:c.n] {
			if q.sender == r.sender {
				f(q)
			}
		}
	}
	own := t.sessions[session]
	if own != nil {
		each(own)
	}
	c := t.newest
	for n := 0; c != nil && n < maxConversations; n++ {
		if c != own && c.session == session {
			each(c)
		}
		c = c.older
	}
}

// previous returns the state of the conversation before the run that r begins.
func (t *Tracker) previous(r *Request, session uint64) Previous {
	if before := r.Before; before != nil {
		if before.answer.finished() && !before.ended.IsZero() {
			return Settled
		}
		return Unknown // its history has the earlier effects
	}
	if !r.known || r.offers == 0 {
		return Unknown
	}
	p := Unknown
	t.eachRequestOf(r, session, func(q *Request) {
		switch c := q.Run.conversation; {
		case !c.acted || q.offers != r.offers || q.voice != r.voice:
		case session == 0 && (q.Run.over || q.Run.Answered()):
			// A task of its own, as nothing says that it is not.
		default:
			p = Unsettled
		}
	})
	return p
}

// madeUp returns the calls in the history whose outputs the agent made up.
func (t *Tracker) madeUp(tr *wire.Transcript) (list []Call) {
	for _, id := range tr.MadeUp {
		call := Call{ID: id}
		if maker := t.requestByID(wire.TranscriptID(id)); maker != nil {
			for _, c := range maker.answer.Calls {
				if c.ID == id {
					call.Name = c.Name
				}
			}
		}
		list = append(list, call)
	}
	return list
}
