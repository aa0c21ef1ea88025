package redact

// Credential reports whether s looks like a credential or contains one: a token with the
// prefix of a known issuer (see tokens), a JSON Web Token, or more random characters than
// a name has.
func Credential[T ~string | ~[]byte](s T) bool {
	return hasToken(s) || looksRandom(s, noExemption)
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
	base62  = setOf(alphanumeric)
	base64  = setOf(alphanumeric + "_-")
	encoded = setOf(alphanumeric + "_-+/=.")
	capital = setOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
)

// tokens are the credentials that are recognized by their prefix. The lengths are shorter
// than those of issued tokens, so that a token that was cut is recognized too.
var tokens = [...]token{
	// Model providers and their gateways. sk- is the prefix of OpenAI (sk-proj-,
	// sk-svcacct-), Anthropic (sk-ant-), OpenRouter (sk-or-), DeepSeek, LiteLLM and
	// Langfuse.
	{"sk-", base64, 16, true},
	{"sk-ant-", base64, 8, false},
	{"sk-proj-", base64, 8, false},
	{"sk_", base62, 20, true}, // ElevenLabs
	{"AIza", base64, 16, true},
	{"AQ.", base64, 20, true},
	{"ya29.", base64, 12, false},
	{"GOCSPX-", base64, 12, false},
	{"1//0", base64, 20, true},
	{"hf_", base62, 20, true},
	{"gsk_", base62, 20, true},
	{"xai-", base62, 20, true},
	{"pplx-", base62, 20, true},
	{"csk-", base62, 20, true},
	{"fw_", base62, 20, true},
	{"nvapi-", base64, 20, true},
	{"tgp_v1_", base64, 20, true},
	{"r8_", base62, 20, true},
	{"jina_", base62, 20, true},
	{"tvly-", base64, 20, true},
	{"ABSK", encoded, 40, true}, // Bedrock
	{"bedrock-api-key-", encoded, 16, true},
	{"dapi", base62, 32, true}, // Databricks
	{"lsv2_", base64, 20, true},
	{"pcsk_", base64, 20, true},
	// Clouds, code hosting and package registries.
	{"AKIA", capital, 12, false},
	{"ASIA", capital, 12, true},
	{"ghp_", base62, 12, true},
	{"gho_", base62, 12, true},
	{"ghu_", base62, 12, true},
	{"ghs_", base62, 12, true},
	{"ghr_", base62, 12, true},
	{"github_pat_", base64, 12, true},
	{"glpat-", base64, 12, true},
	{"npm_", base62, 20, true},
	{"pypi-", base64, 40, true},
	{"dckr_pat_", base64, 16, true},
	{"hvs.", base64, 16, true},
	{"glsa_", base64, 20, true},
	{"xoxa-", base64, 10, true},
	{"xoxb-", base64, 10, true},
	{"xoxe-", base64, 10, true},
	{"xoxp-", base64, 10, true},
	{"xoxr-", base64, 10, true},
	{"xoxs-", base64, 10, true},
	{"xapp-", base64, 10, true},
	{"SG.", base64, 16, true},
	{"sk_live_", base62, 10, true},
	{"sk_test_", base62, 10, true},
	{"rk_live_", base62, 10, true},
	{"whsec_", base62, 16, true},
	// JSON Web Tokens: eyJ is {" in base64.
	{"eyJ", base64, 12, true},
	// The value of a header.
	{"Bearer ", encoded, 8, true},
	{"Bearer_", encoded, 16, true},
	{"Bearer-", encoded, 16, true},
	{"Bearer:", encoded, 8, true},
	{"bearer ", encoded, 8, true},
	{"bearer_", encoded, 16, true},
	{"bearer-", encoded, 16, true},
	{"bearer:", encoded, 8, true},
}

// byFirst has the tokens by the first byte of their prefix.
var byFirst = func() (t [256][]token) {
	for _, k := range tokens {
		t[k.prefix[0]] = append(t[k.prefix[0]], k)
	}
	return t
}()

// hasToken reports whether a token of a known issuer begins in s at the start of a word.
func hasToken[T ~string | ~[]byte](s T) bool {
	if len(s) < minCredential {
		return false
	}
	before := false // whether the previous byte is a letter or a digit
	for i := range len(s) {
		c := s[i]
		if !before {
			for k := range byFirst[c] {
				if startsWithToken(s[i:], &byFirst[c][k]) {
					return true
				}
			}
		}
		before = wordBytes[c]
	}
	return false
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
