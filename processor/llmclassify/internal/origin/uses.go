package origin

// Uses counts the memory of the scopes of spans, each resource and each scope of it once. Its zero value is ready to use.
// It is not safe for concurrent use.
type Uses struct {
	scopes    map[*Scope]int
	resources map[*Resource]int // by how many scopes
	bytes     int
}

// Add adds n spans of a scope, which may be nil.
func (u *Uses) Add(s *Scope, n int) {
	if s == nil || n == 0 {
		return
	}
	if u.scopes == nil {
		u.scopes, u.resources = make(map[*Scope]int), make(map[*Resource]int)
	}
	if u.scopes[s] += n; u.scopes[s] != n {
		return
	}
	u.bytes += s.size
	if u.resources[s.Resource]++; u.resources[s.Resource] == 1 {
		u.bytes += s.Resource.size
	}
}

// Remove removes a span of a scope, which may be nil.
func (u *Uses) Remove(s *Scope) {
	if s == nil {
		return
	}
	if u.scopes[s]--; u.scopes[s] > 0 {
		return
	}
	delete(u.scopes, s)
	u.bytes -= s.size
	if u.resources[s.Resource]--; u.resources[s.Resource] == 0 {
		delete(u.resources, s.Resource)
		u.bytes -= s.Resource.size
	}
}

// Bytes is the estimated memory of the scopes and their resources.
func (u *Uses) Bytes() int { return u.bytes }
