package trace

import "time"

// Replay begins a replay of spans that an earlier process held. Until [Buffer.Replayed] no time passes for spans that are
// added, as more of the same runs may follow. Call it before Add.
func (b *Buffer) Replay() { b.replaying = true }

// Replayed ends a replay. Runs that wait for Config.Settle wait for it from now: the senders of missing spans could not
// send them while the process was down.
func (b *Buffer) Replayed(now time.Time) {
	b.replaying = false
	settled := b.age(now.Add(b.cfg.Settle))
	for _, t := range b.traces {
		for i := range t.settling {
			t.settling[i].until = max(t.settling[i].until, settled)
		}
		b.schedule(t)
	}
}
