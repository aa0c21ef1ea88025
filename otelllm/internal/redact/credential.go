package redact

// Credential reports whether s looks like a credential or contains one: a token with the
// prefix of a known issuer (see tokens), a JSON Web Token, or more random characters than
// a name has.
func Credential[T ~string | ~[]byte](s T) bool {
	return hasToken(s) || !isHexID(s) && looksRandom(s, noExemption)
}

// minCredential is the length of the shortest credential that is searched for, in bytes.
const minCredential = 14

// token describes the credentials of one issuer.
type token struct {
	prefix  string
	charset *set // the characters after the prefix
	minLen  int  // the minimum number of them
	mixed   bool // they contain a digit, or letters of both cases: words alone may be a name
}

var (
	base62   = setOf(alphanumeric)
	base64   = setOf(alphanumeric + "_-")
	encoded  = setOf(alphanumeric + "_-+/=.")
	hexBytes = setOf("0123456789abcdef")
	capital  = setOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
)

// byStart has the tokens by their first two bytes. With so many of them the first byte alone
// would leave too many to compare.
var byStart = func() (t [1024][]token) {
	for _, k := range tokens {
		at := &t[startOf(k.prefix[0], k.prefix[1])]
		*at = append(*at, k)
	}
	return t
}()

func startOf(first, second byte) uint { return (uint(first)<<5 ^ uint(second)) & 1023 }

// hasToken reports whether a token of a known issuer begins in s at the start of a word.
func hasToken[T ~string | ~[]byte](s T) bool {
	if len(s) < minCredential {
		return false
	}
	before := false // whether the previous byte is a letter or a digit
	for i := range len(s) - 1 {
		c := s[i]
		if !before {
			list := byStart[startOf(c, s[i+1])]
			for k := range list {
				if startsWithToken(s[i:], &list[k]) {
					return true
				}
			}
		}
		if c == '.' && isDottedKey(s[:i], s[i+1:]) {
			return true
		}
		before = wordBytes[c]
	}
	return false
}

// isDottedKey reports whether id ends and secret begins as a key of GLM does, which has no
// prefix: 32 hex digits, a dot, and 16 letters and digits. 16 hex digits after the dot are the
// span of a trace.
// https://github.com/trufflesecurity/trufflehog/issues/4662
func isDottedKey[T ~string | ~[]byte](id, secret T) bool {
	const digits, shortest = 32, 12
	n, hex := 0, 0
	for n < len(id) && wordBytes[id[len(id)-1-n]] {
		if hexBytes[id[len(id)-1-n]] {
			hex++
		}
		n++
	}
	if n != digits || hex != digits {
		return false
	}
	n, hex = 0, 0
	for n < len(secret) && wordBytes[secret[n]] {
		if hexBytes[secret[n]] {
			hex++
		}
		n++
	}
	return n >= shortest && hex < n
}

func startsWithToken[T ~string | ~[]byte](s T, t *token) bool {
	if len(s) < len(t.prefix)+t.minLen || string(s[:len(t.prefix)]) != t.prefix {
		return false
	}
	n := 0
	var lower, upper, digit bool
	for _, c := range []byte(s[len(t.prefix):]) {
		if !t.charset[c] {
			break
		}
		n++
		switch {
		case 'a' <= c && c <= 'z':
			lower = true
		case 'A' <= c && c <= 'Z':
			upper = true
		case '0' <= c && c <= '9':
			digit = true
		}
	}
	return n >= t.minLen && (!t.mixed || digit || lower && upper)
}

// idPrefixes are prefixes of ids whose rest is known to be random.
var idPrefixes = [...]string{
	"call_", "toolu_", "tooluse_", "srvtoolu_", "mcptoolu_", "chatcmpl-", "cmpl-", "resp_", "msg_", "req_", "fc_", "rs_", "gen-",
	"run_", "thread_", "step_", "asst_", "conv_", "item_", "event_", "evt_", "ctc_", "fco_", "ctco_", "ws_", "ci_", "ig_", "cu_",
	"lsh_", "sh_", "mcp_", "mcpl_", "mcpr_", "cmp_", "batch_", "sess_", "id-", "function-call-", "as-", "gen_", "interaction_",
}

// idsByFirst has the idPrefixes by their first byte.
var idsByFirst = func() (t [256][]string) {
	for _, prefix := range idPrefixes {
		t[prefix[0]] = append(t[prefix[0]], prefix)
	}
	return t
}()

func hasIDPrefix[T ~string | ~[]byte](s T) bool {
	if len(s) == 0 {
		return false
	}
	for _, prefix := range idsByFirst[s[0]] {
		if len(s) > len(prefix) && string(s[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// isHexID reports whether s is an id with a known prefix whose rest is hex digits, as the
// responses of OpenAI and vLLM have. A random key of another alphabet behind such a prefix
// cannot be distinguished from an id, so it is not exempt in a field that is not for ids.
func isHexID[T ~string | ~[]byte](s T) bool {
	n := 0
	for n < len(s) && hexBytes[s[len(s)-1-n]] {
		n++
	}
	if n < 16 || n > 64 {
		return false
	}
	for _, prefix := range idsByFirst[s[0]] {
		if len(s) > len(prefix) && len(s) <= len(prefix)+n && string(s[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// exemption says which random runs are expected in a field.
type exemption uint8

const (
	noExemption exemption = iota
	digests               // 40 hex digits after @, 64 after a colon
	hexRuns               // up to 64 hex digits
)

const (
	// minRun is the length from which a run of letters and digits is examined. Most parts
	// of versions are shorter (a22b, 480b, w4a16).
	minRun = 5
	// maxRandom is how many characters a value may have in random runs; maxRandomID is the
	// bound for an id. A UUID has 20, the name of an AWS VPC endpoint 25, a ULID 26 and a
	// KSUID 27. The keys of providers have 32 or more.
	maxRandom   = 25
	maxRandomID = 27
)

// looksRandom reports whether s has more characters in random runs of letters and digits
// than a name has. A run is random if less than two thirds of it are words: see
// lettersInWords. A run of digits only is not random: it is a time, a version or an
// account.
func looksRandom[T ~string | ~[]byte](s T, except exemption) bool {
	limit := maxRandom
	if except == hexRuns {
		limit = maxRandomID
	}
	if len(s) <= limit {
		return false
	}
	if hasSecretKey(s) {
		return true
	}
	random, start := 0, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && wordBytes[s[i]] {
			continue
		}
		if run := s[start:i]; len(run) >= minRun && !exempted(s[:start], run, except) && 3*lettersInWords(run) < 2*len(run) {
			random += len(run)
		}
		start = i + 1
	}
	return random > limit
}

// secretKey is the length of a secret access key of AWS, which has no prefix: base64 with its
// plus and slash, so that it may be several runs.
const secretKey = 40

// hasSecretKey reports whether s contains 40 characters that may be a secret access key: with
// letters of both cases, digits, and few words.
func hasSecretKey[T ~string | ~[]byte](s T) bool {
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (wordBytes[s[i]] || s[i] == '/' || s[i] == '+') {
			continue
		}
		if run := s[start:i]; len(run) == secretKey && mixedCase(run) && 3*lettersInWords(run) < 2*secretKey {
			return true
		}
		start = i + 1
	}
	return false
}

func mixedCase[T ~string | ~[]byte](s T) bool {
	var lower, upper, digit bool
	for i := range len(s) {
		lower, upper, digit = lower || lowerCase(s[i]), upper || upperCase(s[i]), digit || '0' <= s[i] && s[i] <= '9'
	}
	return lower && upper && digit
}

// exempted reports whether the run consists of digits, or may be random in this field.
func exempted[T ~string | ~[]byte](before, run T, except exemption) bool {
	digits, lower, upper := 0, 0, 0
	for i := range len(run) {
		switch c := run[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'f':
			lower++
		case 'A' <= c && c <= 'F':
			upper++
		}
	}
	switch {
	case digits == len(run):
		return true
	case except == noExemption, digits+max(lower, upper) != len(run), len(run) > 64:
		return false
	case except == hexRuns:
		return true
	default: // digests
		n := len(before)
		return len(run) == 40 && n > 0 && before[n-1] == '@' ||
			len(run) == 64 && n > 0 && before[n-1] == ':'
	}
}

// lettersInWords returns how many letters of a run are in words. A word has at least three
// letters of one case, of which the first may be a capital, at least one vowel, and at
// most five consonants in a row. If it has more than eight letters, at least one in four
// is a vowel. In CamelCase each part is a word.
func lettersInWords[T ~string | ~[]byte](run T) (n int) {
	for i := 0; i < len(run); {
		start := i
		switch c := run[i]; {
		case upperCase(c):
			for i < len(run) && upperCase(run[i]) {
				i++
			}
			if i < len(run) && lowerCase(run[i]) {
				if i-start > 1 { // HTTPError: the last capital begins the next word
					i--
					break
				}
				for i < len(run) && lowerCase(run[i]) {
					i++
				}
			}
		case lowerCase(c):
			for i < len(run) && lowerCase(run[i]) {
				i++
			}
		default:
			i++
			continue
		}
		if isWord(run[start:i]) {
			n += i - start
		}
	}
	return n
}

func isWord[T ~string | ~[]byte](s T) bool {
	if len(s) < 3 {
		return false
	}
	vowels, consonants := 0, 0
	for i := range len(s) {
		switch s[i] | 0x20 {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			vowels++
			consonants = 0
		default:
			if consonants++; consonants > 5 {
				return false
			}
		}
	}
	return vowels > 0 && (len(s) <= 8 || 4*vowels >= len(s))
}

func upperCase(c byte) bool { return 'A' <= c && c <= 'Z' }

func lowerCase(c byte) bool { return 'a' <= c && c <= 'z' }
