package redact

// personal reports whether s contains an e-mail address, or ends with a telephone number that
// has the code of its country: some servers name a model or a request after a person. A model with a revision
// or a digest is neither (claude-sonnet-4@20250514, llama@sha256:…, @cf/meta/…).
func personal[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		switch s[i] {
		case '+':
			if (i == 0 || !wordBytes[s[i-1]]) && isTelephone(s[i+1:]) {
				return true
			}
		case '@':
			if i > 0 && s[i-1] != '/' && beginsDomain(s[i+1:]) {
				return true
			}
		}
	}
	return false
}

// beginsDomain reports whether s begins with the name of a domain: labels with dots between
// them, of which the last one consists of letters.
func beginsDomain[T ~string | ~[]byte](s T) bool {
	dots, letters, start := 0, true, 0
	n := 0
	for ; n < len(s) && (wordBytes[s[n]] || s[n] == '-' || s[n] == '.'); n++ {
		switch {
		case s[n] == '.':
			if n == start {
				return false
			}
			dots, letters, start = dots+1, true, n+1
		case !upperCase(s[n]) && !lowerCase(s[n]):
			letters = false
		}
	}
	return dots > 0 && letters && n-start >= 2
}

// isTelephone reports whether s, without the plus sign in front of it, has the 7 to 15 digits of
// a telephone number (E.164) and else nothing but marks between them.
func isTelephone[T ~string | ~[]byte](s T) bool {
	digits := 0
	for i := range len(s) {
		switch c := s[i]; c {
		case '-', '.', '/', '(', ')':
		default:
			if c < '0' || c > '9' {
				return false
			}
			digits++
		}
	}
	return 7 <= digits && digits <= 15
}
