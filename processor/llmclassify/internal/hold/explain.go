package hold

import "slices"

// maxForeign bounds the items of other runs that are evidence for one.
const maxForeign = 256

// addForeign adds the requests of other groups to g as evidence, the newest ones. A trace
// may have many groups, so it looks at no more than it adds.
func (b *Buffer[F]) addForeign(g *group[F], groups []*group[F]) {
	for _, other := range slices.Backward(groups) {
		if other == g {
			continue
		}
		for i, it := range slices.Backward(other.items) {
			if it.Role != Request || it.Gone() {
				continue
			}
			if len(g.others) == maxForeign {
				break
			}
			b.read(it) // it may be released before g is
			g.others = append(g.others, Member[F]{Item: it, Above: other.above[i], Foreign: true})
		}
		if len(g.others) == maxForeign {
			break
		}
	}
	slices.Reverse(g.others)
}

// waitsForEvidence reports whether a complete run is to wait for what explains it, for
// Config.Settle from now, or from when it began to wait.
func (b *Buffer[F]) waitsForEvidence(t *Trace[F], g *group[F], now age) bool {
	r := t.runs.get(g.place.Run)
	if r == nil || g.run == nil || r.waited && !t.settles(g.run) {
		return false
	}
	release := Release[F]{
		Reason: Complete, Final: true, Trace: t.id, RunID: g.place.Run, Named: g.named, Run: g.run,
		Members: make([]Member[F], 0, len(g.items)+len(g.others)),
	}
	for i, it := range g.items {
		release.Members = append(release.Members, Member[F]{Item: it, Out: it.Held(), Above: g.above[i]})
	}
	release.Members = append(release.Members, g.others...)
	if b.cfg.Explained(&release) {
		return false
	}
	if !r.waited {
		r.waited = true
		t.settling = append(t.settling, settling[F]{g.run, now + age(b.cfg.Settle), Complete})
	}
	return true
}

// settles reports whether a run span is waiting.
func (t *Trace[F]) settles(run *Item[F]) bool {
	for _, s := range t.settling {
		if s.span == run {
			return true
		}
	}
	return false
}
