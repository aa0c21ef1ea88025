package wire

// unknownUsage is a Usage of which nothing was reported.
var unknownUsage = Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1}

// latest is n, or known if n is negative: nothing was reported.
func latest(known, n int) int {
	if n >= 0 {
		return n
	}
	return known
}

// messagesUsage are the counts of Anthropic and Bedrock. Their input excludes what was
// read from or written to the cache. -1: not reported.
type messagesUsage struct {
	input, output, cacheRead, cacheCreation int
}

var unknownMessagesUsage = messagesUsage{-1, -1, -1, -1}

// counts returns the counts as the GenAI conventions define them: the whole input.
func (u *messagesUsage) counts() Usage {
	total := Usage{Input: u.input, Output: u.output, CacheRead: u.cacheRead, CacheCreation: u.cacheCreation, Reasoning: -1}
	if total.Input >= 0 {
		total.Input += max(total.CacheRead, 0) + max(total.CacheCreation, 0)
	}
	return total
}

// readMember reads one count of an object; -1 if it is absent.
func readMember(c *cursor, name string) int {
	n := -1
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == name {
			n = c.count()
		} else {
			c.skip()
		}
	}
	return n
}
