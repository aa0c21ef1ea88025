package classify

// Some models give the id of an earlier call to a new one, and so does a response that a client
// asks for again. An output in a history then shows by its id alone that one of the calls was
// answered, not which of them.

// making is a response that made a call with an id, with sums over it and the responses before
// it that made calls with the same id.
type making struct {
	pos      int32 // of the request
	calls    int32 // how many calls with the id they made
	outputs  int32 // the most outputs of the id that a history has which contains those of one of them
	earliest int32 // the fewest outputs of the id that the history of one of them has: they belong to earlier calls
}

// makings returns the responses that made the calls with an id. It returns nil if only one did, and
// made no more than one call with it.
func (j *judge) makings(n int32) []making {
	made := j.index.uses(n, roleMade)
	if len(made) == 0 || len(made) == 1 && made[0].times == 1 {
		return nil
	}
	if list, known := j.makingsOf[n]; known {
		return list
	}
	carried := j.index.uses(n, roleCarried)
	list := make([]making, len(made))
	sum := making{earliest: none}
	for i, u := range made {
		before := timesAt(carried, u.pos)
		sum = making{u.pos, sum.calls + u.times, max(sum.outputs, before+u.times), min(sum.earliest, before)}
		list[i] = sum
	}
	if j.makingsOf == nil {
		j.makingsOf = map[int32][]making{}
	}
	j.makingsOf[n] = list
	return list
}

// carriesAll reports whether the history of the request that was looked at has an output for each call
// with an id that earlier responses made, as far as their number and the order of the responses show it.
func (j *judge) carriesAll(n int32) bool {
	sum := j.madeBefore(n)
	carried := j.times(n, roleCarried)
	return sum == nil || sum.outputs <= carried && sum.calls <= carried-sum.earliest
}

// carriesEach reports the same for so many executions of calls with the id. To which of them an output
// belongs is not known.
func (j *judge) carriesEach(n int32, executions int) bool {
	sum := j.madeBefore(n)
	return sum == nil || int32(executions) <= j.times(n, roleCarried)-sum.earliest //nolint:gosec // fewer than tools
}

// madeBefore sums up the responses before the request that was looked at that made calls with an id. It
// returns nil if there are none, or if the id is that of one call alone.
func (j *judge) madeBefore(n int32) *making {
	earlier := usesBefore(j.index.uses(n, roleMade), j.looked-1)
	if makings := j.makings(n); makings != nil && earlier > 0 {
		return &makings[earlier-1]
	}
	return nil
}
