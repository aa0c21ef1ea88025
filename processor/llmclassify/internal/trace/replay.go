package trace

import "time"

// Replay begins a replay of what an earlier process held: until [Buffer.Replayed] no time
// passes for what is added, as more of the same runs may follow. Call it before Add.
func (b *Buffer) Replay() { b.replaying = true }

// Replayed ends a replay. What waits for Config.Settle waits for it from now: the senders of
// what is missing could not send it for as long as the process was down.
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
