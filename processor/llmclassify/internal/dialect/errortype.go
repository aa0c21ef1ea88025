package dialect

import (
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// failure is the meaning of an error's name. Exactly one of the fields, besides code,
// silence and vague, is set where the name is known.
type failure struct {
	transport semconv.TransportCause
	provider  semconv.ProviderErrorKind
	abort     semconv.AbortSource
	watchdog  semconv.WatchdogKind
	end       semconv.StreamEnd // how it ended, where only that is known
	unstaged  bool              // the transport failed at a stage that is not recorded: before a connection, or after
	timer     bool              // a timeout: of the connection, the headers, reading, or the client's own
	limited   bool              // it ended at a limit
	silence   bool              // with end: undici says the same after undiciPatience without a byte
	pause     bool              // it waits for a person or a job, and has not failed

	code  string // a code that is more precise than the name
	vague bool   // the name has other causes, too: an unknown host, a bad certificate, a read
}

// undiciPatience is how long undici waits for the next byte of a body, by default.
const undiciPatience = 300 * time.Second

func (f failure) known() bool { return f != failure{} }

// failures maps the names of errors to their meanings: system and undici codes, and the
// base names of classes of the providers' SDKs, httpx, httpcore, aiohttp, LiteLLM, Java's
// and Spring's HTTP clients, and agent frameworks.
// Names must match completely, and are never searched for in a text.
//
// A name that means only that something failed (APIError, Error, TypeError) is not here.
// Neither is a plain "timeout", which may be either side's.
var failures = map[string]failure{
	// System codes.
	"ECONNRESET":   {transport: semconv.TransportCauseConnectionReset},
	"EPIPE":        {transport: semconv.TransportCauseWriteFailed},
	"ECONNREFUSED": {transport: semconv.TransportCauseConnectRefused},
	"ETIMEDOUT":    {transport: semconv.TransportCauseConnectTimeout, vague: true}, // also of reading
	"EHOSTUNREACH": {transport: semconv.TransportCauseConnectUnreachable},
	"ENETUNREACH":  {transport: semconv.TransportCauseConnectUnreachable},
	"ENOTFOUND":    {transport: semconv.TransportCauseDNSNotFound},
	"EAI_AGAIN":    {transport: semconv.TransportCauseDNSTemporary},

	// Node's TLS. Which of them are about the certificate is decided in classify.
	"CERT_HAS_EXPIRED":                  {transport: semconv.TransportCauseTLS},
	"CERT_NOT_YET_VALID":                {transport: semconv.TransportCauseTLS},
	"CERT_REVOKED":                      {transport: semconv.TransportCauseTLS},
	"CERT_REJECTED":                     {transport: semconv.TransportCauseTLS},
	"CERT_UNTRUSTED":                    {transport: semconv.TransportCauseTLS},
	"DEPTH_ZERO_SELF_SIGNED_CERT":       {transport: semconv.TransportCauseTLS},
	"SELF_SIGNED_CERT_IN_CHAIN":         {transport: semconv.TransportCauseTLS},
	"UNABLE_TO_VERIFY_LEAF_SIGNATURE":   {transport: semconv.TransportCauseTLS},
	"UNABLE_TO_GET_ISSUER_CERT":         {transport: semconv.TransportCauseTLS},
	"UNABLE_TO_GET_ISSUER_CERT_LOCALLY": {transport: semconv.TransportCauseTLS},
	"ERR_TLS_CERT_ALTNAME_INVALID":      {transport: semconv.TransportCauseTLS},
	"HOSTNAME_MISMATCH":                 {transport: semconv.TransportCauseTLS},
	"INVALID_CA":                        {transport: semconv.TransportCauseTLS},
	"EPROTO":                            {transport: semconv.TransportCauseTLS},

	// undici.
	undSocket:                             {transport: semconv.TransportCauseBodyTruncated},
	"UND_ERR_CONNECT_TIMEOUT":             {transport: semconv.TransportCauseConnectTimeout},
	"UND_ERR_HEADERS_TIMEOUT":             {transport: semconv.TransportCauseHeaderTimeout},
	bodyTimeout:                           {watchdog: semconv.WatchdogKindIdle},
	"UND_ERR_RES_CONTENT_LENGTH_MISMATCH": {transport: semconv.TransportCauseBodyTruncated},
	"UND_ERR_PRX_TLS":                     {transport: semconv.TransportCauseProxy},
	"UND_ERR_PRX_CONN":                    {transport: semconv.TransportCauseProxy},
	"UND_ERR_ABORTED":                     {abort: semconv.AbortSourceUnknown},

	// Cancellation, by either side.
	"AbortError":            {abort: semconv.AbortSourceUnknown},
	"APIUserAbortError":     {abort: semconv.AbortSourceUnknown},
	"CancelledError":        {abort: semconv.AbortSourceUnknown},
	"CancellationException": {abort: semconv.AbortSourceUnknown},
	"GeneratorExit":         {abort: semconv.AbortSourceUnknown},
	"cancelled":             {abort: semconv.AbortSourceUnknown},
	"canceled":              {abort: semconv.AbortSourceUnknown},
	"TimeoutError":          {abort: semconv.AbortSourceDeadline}, // AbortSignal.timeout, asyncio.timeout: the caller's own
	"deadlineExceededError": {abort: semconv.AbortSourceDeadline}, // Go's context

	// httpx, httpcore, aiohttp.
	"ConnectTimeout":                  {transport: semconv.TransportCauseConnectTimeout},
	"ConnectionTimeoutError":          {transport: semconv.TransportCauseConnectTimeout},
	"PoolTimeout":                     {transport: semconv.TransportCauseConnectTimeout},
	"ConnectError":                    {transport: semconv.TransportCauseConnectRefused, vague: true},
	"ClientConnectorError":            {transport: semconv.TransportCauseConnectRefused, vague: true},
	"ClientConnectorDNSError":         {transport: semconv.TransportCauseDNSNotFound},
	"ClientConnectorCertificateError": {transport: semconv.TransportCauseTLS, code: classify.CodeCertificate},
	"ClientConnectorSSLError":         {transport: semconv.TransportCauseTLS},
	"RemoteProtocolError":             {transport: semconv.TransportCauseBodyTruncated},
	"ClientPayloadError":              {transport: semconv.TransportCauseBodyTruncated},
	"ReadError":                       {transport: semconv.TransportCauseConnectionReset},
	"ServerDisconnectedError":         {transport: semconv.TransportCauseConnectionReset},
	"ClientOSError":                   {transport: semconv.TransportCauseConnectionReset},
	"WriteError":                      {transport: semconv.TransportCauseWriteFailed},
	"WriteTimeout":                    {transport: semconv.TransportCauseWriteFailed},
	"ProxyError":                      {transport: semconv.TransportCauseProxy},
	"ClientProxyConnectionError":      {transport: semconv.TransportCauseProxy},
	"ReadTimeout":                     {watchdog: semconv.WatchdogKindIdle},
	"SocketTimeoutError":              {watchdog: semconv.WatchdogKindIdle},

	// The providers' SDKs. Their connection errors may be of any stage, their timeouts of any kind.
	"APIConnectionError":        {unstaged: true},
	"APITimeoutError":           {timer: true},
	"APIConnectionTimeoutError": {timer: true},
	"RateLimitError":            {provider: semconv.ProviderErrorKindRateLimited},
	"OverloadedError":           {provider: semconv.ProviderErrorKindOverloaded},
	"ServiceUnavailableError":   {provider: semconv.ProviderErrorKindOverloaded},
	"AuthenticationError":       {provider: semconv.ProviderErrorKindAuthentication},
	"PermissionDeniedError":     {provider: semconv.ProviderErrorKindPermission},
	"NotFoundError":             {provider: semconv.ProviderErrorKindNotFound},
	"BadRequestError":           {provider: semconv.ProviderErrorKindInvalidRequest},
	"UnprocessableEntityError":  {provider: semconv.ProviderErrorKindInvalidRequest},
	"RequestTooLargeError":      {provider: semconv.ProviderErrorKindInvalidRequest},
	"InternalServerError":       {provider: semconv.ProviderErrorKindServerError},
	"DeadlineExceededError":     {provider: semconv.ProviderErrorKindTimeout}, // anthropic-sdk: HTTP 504

	// Spring's HTTP clients: nested classes named after the status.
	"HttpClientErrorException$BadRequest":          {provider: semconv.ProviderErrorKindInvalidRequest},
	"HttpClientErrorException$Unauthorized":        {provider: semconv.ProviderErrorKindAuthentication},
	"HttpClientErrorException$Forbidden":           {provider: semconv.ProviderErrorKindPermission},
	"HttpClientErrorException$NotFound":            {provider: semconv.ProviderErrorKindNotFound},
	"HttpClientErrorException$TooManyRequests":     {provider: semconv.ProviderErrorKindRateLimited},
	"HttpServerErrorException$InternalServerError": {provider: semconv.ProviderErrorKindServerError},
	"HttpServerErrorException$BadGateway":          {provider: semconv.ProviderErrorKindServerError},
	"HttpServerErrorException$ServiceUnavailable":  {provider: semconv.ProviderErrorKindOverloaded},

	"WebClientResponseException$BadRequest":          {provider: semconv.ProviderErrorKindInvalidRequest},
	"WebClientResponseException$Unauthorized":        {provider: semconv.ProviderErrorKindAuthentication},
	"WebClientResponseException$Forbidden":           {provider: semconv.ProviderErrorKindPermission},
	"WebClientResponseException$NotFound":            {provider: semconv.ProviderErrorKindNotFound},
	"WebClientResponseException$TooManyRequests":     {provider: semconv.ProviderErrorKindRateLimited},
	"WebClientResponseException$InternalServerError": {provider: semconv.ProviderErrorKindServerError},
	"WebClientResponseException$BadGateway":          {provider: semconv.ProviderErrorKindServerError},
	"WebClientResponseException$ServiceUnavailable":  {provider: semconv.ProviderErrorKindOverloaded},

	// Java's network, and the SDKs of OpenAI and Anthropic for Java.
	"UnknownHostException":         {transport: semconv.TransportCauseDNSNotFound},
	"ConnectException":             {transport: semconv.TransportCauseConnectRefused, vague: true},
	"SSLHandshakeException":        {transport: semconv.TransportCauseTLS},
	"ReadTimeoutException":         {watchdog: semconv.WatchdogKindIdle}, // netty
	"SocketTimeoutException":       {timer: true},                        // of the connection, or of reading
	"ResourceAccessException":      {unstaged: true},                     // Spring
	"WebClientRequestException":    {unstaged: true},                     // Spring
	"OpenAIIoException":            {unstaged: true},
	"AnthropicIoException":         {unstaged: true},
	"RateLimitException":           {provider: semconv.ProviderErrorKindRateLimited},
	"BadRequestException":          {provider: semconv.ProviderErrorKindInvalidRequest},
	"UnauthorizedException":        {provider: semconv.ProviderErrorKindAuthentication},
	"PermissionDeniedException":    {provider: semconv.ProviderErrorKindPermission},
	"NotFoundException":            {provider: semconv.ProviderErrorKindNotFound},
	"UnprocessableEntityException": {provider: semconv.ProviderErrorKindInvalidRequest},
	"InternalServerException":      {provider: semconv.ProviderErrorKindServerError},

	// Strands Agents.
	"ModelThrottledException":        {provider: semconv.ProviderErrorKindRateLimited},
	"ContextWindowOverflowException": {provider: semconv.ProviderErrorKindContextLengthExceeded},

	// Microsoft Agent Framework.
	"ChatClientInvalidAuthException":   {provider: semconv.ProviderErrorKindAuthentication},
	"ChatClientContentFilterException": {provider: semconv.ProviderErrorKindContentPolicy},
	"OpenAIContentFilterException":     {provider: semconv.ProviderErrorKindContentPolicy},

	// Semantic Kernel, for Python.
	"ContentFilterAIException": {provider: semconv.ProviderErrorKindContentPolicy},

	"ContextWindowExceededError":  {provider: semconv.ProviderErrorKindContextLengthExceeded},
	"ContentPolicyViolationError": {provider: semconv.ProviderErrorKindContentPolicy},
}

// undSocket is undici's code for a connection that the other side closed: within a body,
// or before a response. One that was reset has ECONNRESET.
const undSocket = "UND_ERR_SOCKET"

// llhttpPrefix begins the codes of undici's HTTP parser.
const llhttpPrefix = "HPE_"

// failureOf looks up the name of an error: a code, or the name of a class with or
// without its packages, or the name of a provider's code.
func failureOf(name string) (failure, bool) {
	if name == "" || len(name) > maxString {
		return failure{}, false
	}
	base := baseName(name)
	if f, ok := failures[base]; ok {
		return f, true
	}
	if isPause(name) {
		return failure{pause: true}, true
	}
	if strings.HasPrefix(base, llhttpPrefix) {
		return failure{transport: semconv.TransportCauseMalformedEvent}, true
	}
	if base == "timeout" || statusOf(base) != 0 {
		return failure{}, false // either side's; an HTTP status, which is not the error's name
	}
	if kind := classify.ProviderErrorKind(0, base); kind != semconv.ProviderErrorKindUnknown {
		return failure{provider: kind}, true
	}
	return failure{}, false
}

// errorTypeOf is the value of an error.type: the name of a class where Python's own text of it is
// recorded ("<class 'openai.RateLimitError'>"), as Semantic Kernel does.
func errorTypeOf(v pcommon.Value) string {
	name := text(v)
	if class, ok := strings.CutPrefix(name, "<class '"); ok {
		return strings.TrimSuffix(class, "'>")
	}
	return name
}

// baseName is the name of a class without its packages.
func baseName(name string) string {
	return name[strings.LastIndexAny(name, ".:/*")+1:]
}
