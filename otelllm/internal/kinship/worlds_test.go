package kinship

import "slices"

// What agents do besides going on with a conversation: they do not take a whole answer, follow a
// redirect, fall back to another protocol or to fewer tools, and ask for titles and summaries on
// the side.

// again ends a request in a way after which its agent sends the same again, sometimes. It reports
// whether it did.
func (w *world) again(f *flight) bool {
	a := f.agent
	if a.hidden || a.stored || a.prefill {
		return false
	}
	switch w.rng.IntN(24) {
	case 0:
		f.answer = Answer{Result: Redirected}
		if len(a.history) == 1 {
			w.failed[a.history[0].parts[0]] = w.now
		}
	case 1: // its answer is whole, and the agent does not take it
		if a.session == 0 && w.find {
			return false // the second one is another agent, for all that is known
		}
		f.answer = Answer{Result: Answered, Text: true}
		a.told = a.session != 0
	default:
		return false
	}
	a.failed = true // for the agent
	w.tracker.End(w.now, f.request, f.answer)
	return true
}

// fallBack lets an agent repeat its request, which failed, in other bytes. Only in a session that
// is known to be the same agent.
func (w *world) fallBack(a *agent) {
	if a.stored || a.prefill || a.hidden || a.session == 0 && w.find {
		return
	}
	switch w.rng.IntN(8) {
	case 0:
		a.noTools = true
	case 1:
		if a.ids == noIDs || a.format == ollama {
			return
		}
		a.format = []format{chat, messages, gemini}[w.rng.IntN(3)]
	default:
		return
	}
	a.told, a.fell = a.told && a.session != 0, true
}

// aside lets an agent ask for a title, or for a summary of its conversation so far. Neither is a
// part of what it works on, which goes on afterwards. While its last request failed and had no tools,
// a summary would look as if it went on with that.
func (w *world) aside(from *agent) {
	if from.stored || from.hidden || from.prefill || from.bare && from.failed || w.busy(from) {
		return
	}
	a := *from
	w.runs++
	a.run, a.told, a.once, a.noTools = w.runs, false, true, true
	a.history = slices.Clone(from.history)
	a.history[0].parts = slices.Clone(a.history[0].parts)
	if w.rng.IntN(2) == 0 {
		if from.title == 0 {
			from.title, from.titles = w.runs, a.few("You write titles", 1_000_000)
		}
		a.run = from.title // the same again is a further attempt
		a.system, a.clock, a.history = from.titles, false, a.history[:1]
	} else {
		a.history = append(a.history, message{role: "user", parts: []string{a.few("summarize", 1_000_000)}})
	}
	w.agents = append(w.agents, &a)
	w.send(&a)
}
