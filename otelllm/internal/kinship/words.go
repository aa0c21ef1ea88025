package kinship

import "github.com/otelllm/otelllm-go/otelllm/internal/wire"

// byWords finds the request that r repeats or continues in other bytes: in another protocol, with
// fewer tools, with the time in its instructions, or with calls whose ids were renamed. What the
// users and the tools said is the same, and so are the instructions or the names of the tools. As
// others may say the same, the client has to be known to be the same.
func (t *Tracker) byWords(r *Request, tr *wire.Transcript, session uint64) {
	if !r.known || r.words == 0 || tr.Previous != 0 {
		return
	}
	t.eachOf(r, session, func(q *Request) {
		if q.Run.over || q.Run.last != q || q.words == 0 || q.answer.Result == Unobserved || !q.sameAgent(r) {
			return
		}
		switch n, point := wordsOf(tr, q.words); {
		case n < 0:
		case n == 0:
			if q.failedBy(r) {
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

// wordsOf returns the first place, as [wire.Transcript.Point] counts, with these words before it:
// behind what a user or a tool said, and before an answer, if one follows. It returns -1 if there is
// none, or if more than one answer follows it.
func wordsOf(tr *wire.Transcript, words uint64) (at int, place wire.TranscriptPoint) {
	at = -1
	for n := 0; ; n++ {
		point, ok := tr.Point(n)
		switch {
		case !ok || tr.Total.Answers > point.Before.Answers+1:
			return at, place
		case point.Words == words:
			at, place = n, point
		case at >= 0:
			return at, place
		}
	}
}

// failedBy reports whether later, which has the same words, may be a further attempt of r in other
// bytes.
func (r *Request) failedBy(later *Request) bool {
	switch a := r.soFar(); a.Result {
	case Failed, Stopped, Redirected:
		return !r.continued
	default:
		return false
	}
}

// renamed reports whether the calls that follow the point may be those of the answer of r, under
// ids that no response has handed out.
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

// sameAgent reports whether two requests may be of one agent in two protocols: they have the same
// instructions, or offer tools of the same names. A title maker has neither in common with the
// agent that it serves.
func (r *Request) sameAgent(other *Request) bool {
	return r.sender == other.sender && (r.voice == other.voice || r.offers == other.offers && r.offers != 0)
}

// isSummary reports whether r, which has the outputs of the calls of the request before it, asks
// for something else than to go on with them: it offers no tools, unlike that, and has a message
// besides. Such is a request for a summary.
func (r *Request) isSummary(before *Request, tr *wire.Transcript, from wire.TranscriptCount) bool {
	return before.tools != 0 && r.tools == 0 && tr.Total.Users > from.Users && !before.continued
}

// maxConversations bounds the conversations that are looked through for one that an agent without
// ids of a session goes on with.
const maxConversations = 8

// eachOf calls f with the remembered requests of the client of r, which is known.
func (t *Tracker) eachOf(r *Request, session uint64, f func(q *Request)) {
	each := func(c *Conversation) {
		for _, q := range c.requests[:c.n] {
			if q.sender == r.sender {
				f(q)
			}
		}
	}
	if session != 0 {
		if c := t.sessions[session]; c != nil {
			each(c)
		}
		return
	}
	c := t.newest
	for n := 0; c != nil && n < maxConversations; n++ {
		each(c)
		c = c.older
	}
}

// previous returns what became of what the conversation did before the run that r begins.
func (t *Tracker) previous(r *Request, session uint64) Previous {
	if before := r.Before; before != nil {
		if before.answer.finished() && !before.ended.IsZero() {
			return Settled
		}
		return Unknown // its history has what was done
	}
	if !r.known || r.offers == 0 {
		return Unknown
	}
	p := Unknown
	t.eachOf(r, session, func(q *Request) {
		switch c := q.Run.conversation; {
		case !c.acted || q.offers != r.offers || q.voice != r.voice:
		case session == 0 && (q.Run.over || q.Run.answered()):
			// A task of its own, as nothing says that it is not.
		default:
			p = Unsettled
		}
	})
	return p
}

// madeUp returns the calls whose outputs, which the request has, were made up by its agent.
func (t *Tracker) madeUp(tr *wire.Transcript) (list []Call) {
	for _, id := range tr.MadeUp {
		call := Call{ID: id}
		if maker := t.byID(wire.TranscriptID(id)); maker != nil {
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
