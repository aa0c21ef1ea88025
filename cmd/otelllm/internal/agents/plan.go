package agents

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Command is a command that is to be sent through a proxy.
type Command struct {
	Args  []string
	Env   []string // key=value
	Dir   string   // working directory
	Home  string   // home directory
	Proxy *url.URL // origin of the proxy
	Agent string   // name of the agent; "" to go by the command
	// Upstreams are the providers' URLs in place of the defaults, by the provider's name;
	// "" is for all others.
	Upstreams map[string]*url.URL
	// Temp returns a folder that is removed after the command, for an agent that needs a
	// file. Without it such an agent is not sent through the proxy.
	Temp func() (string, error)
}

// Route is where the proxy sends requests: those whose path begins with Prefix go to URL,
// without the prefix.
type Route struct {
	Prefix string
	URL    *url.URL
}

// Rest is where the proxy sends requests whose path has no route's prefix: programs exist that
// keep only the host of a base URL. They have the credentials for the server that the base URL
// named.
type Rest struct {
	Host string   // of the provider that a request names by its path or headers; "" for all others
	URL  *url.URL // nil: they are refused
}

// Plan is how the command is started.
type Plan struct {
	Agent  Agent
	Args   []string
	Env    []string
	Routes []Route
	Rests  []Rest
	Notes  []string // what the user should know, without values of variables

	// Getenv returns a variable of the environment that the agent gets; "": it is not set.
	Getenv func(name string) string

	home, dir string
	at        place
}

// Prepare returns the plan for a command. It reads the agent's configuration for base URLs,
// and no other value.
func Prepare(c Command) (*Plan, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("no command is given")
	}
	agent, at, found := locate(c.Args)
	if !found {
		agent, _ = ByName(Generic)
	}
	if c.Agent != "" {
		var ok bool
		if agent, ok = ByName(c.Agent); !ok {
			return nil, fmt.Errorf("unknown agent %q: known are %s", c.Agent, strings.Join(Names(), ", "))
		}
	}
	for name := range c.Upstreams {
		if !slices.Contains(ProviderNames(), name) && name != "" {
			return nil, fmt.Errorf("unknown provider %q: known are %s", name, strings.Join(ProviderNames(), ", "))
		}
	}
	b := &builder{Command: c, at: at, plan: &Plan{Agent: agent, Args: slices.Clone(c.Args), Env: slices.Clone(c.Env), home: c.Home, dir: c.Dir, at: at}}
	b.plan.Getenv = b.agentEnv
	for i := range providers {
		b.variables(&providers[i])
	}
	variables := slices.Clone(b.plan.Routes)
	if agent.set != nil {
		if err := agent.set(b); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", agent.Title, err)
		}
	}
	settings := slices.DeleteFunc(slices.Clone(b.plan.Routes), func(r Route) bool { return slices.Contains(variables, r) })
	for i := range providers {
		b.rest(&providers[i], settings)
	}
	if all := b.Upstreams[""]; all != nil {
		b.plan.Rests = append(b.plan.Rests, Rest{URL: all})
	}
	b.exceptLoopback()
	if b.env("NODE_TLS_REJECT_UNAUTHORIZED") == "0" {
		b.note("NODE_TLS_REJECT_UNAUTHORIZED=0 is not followed: certificates are verified; set NODE_EXTRA_CA_CERTS to the file of the authority")
	}
	return b.plan, nil
}

// notJSON is the error for a configuration that cannot be read. It says nothing of what is in it.
func notJSON(name string) error {
	return fmt.Errorf("%s is not valid JSON: mend it, or run the agent without otelllm to see what it says", name)
}

// builder makes a plan.
type builder struct {
	Command
	plan *Plan
	at   place // where the command names the agent
	// settings are variables that the agent sets itself, from its settings. They outweigh those of its environment.
	settings map[string]string
	// file are variables that the agent reads from a file if its environment lacks them.
	file map[string]string
}

// env returns a variable of the command's environment.
func (b *builder) env(name string) string {
	for _, i := range slices.Backward(b.at.assigned) {
		if value, ok := strings.CutPrefix(b.plan.Args[i], name+"="); ok {
			return value
		}
	}
	for _, kv := range slices.Backward(b.plan.Env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// agentEnv returns a variable as the agent uses it.
func (b *builder) agentEnv(name string) string {
	if value, ok := b.settings[name]; ok {
		return value
	}
	return cmp.Or(b.env(name), b.file[name])
}

// setenv sets a variable of the command's environment, also where the command sets it: env NAME=VALUE.
func (b *builder) setenv(name, value string) {
	for _, i := range b.at.assigned {
		if strings.HasPrefix(b.plan.Args[i], name+"=") {
			b.plan.Args[i] = name + "=" + value
		}
	}
	b.plan.Env = slices.DeleteFunc(b.plan.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	b.plan.Env = append(b.plan.Env, name+"="+value)
}

// variables sets a provider's variables. Where one is set already, it leads through the proxy
// to what it names, and the others stay unset: a program that reads only those is not
// redirected.
func (b *builder) variables(p *provider) {
	given := b.upstream(p.Name) != nil
	b.keep(p.Name, p.Own)
	taken := false
	if !given {
		taken = b.keep(p.Name, p.Vars)
	}
	if given {
		b.setAll(p, b.base(p))
		return
	}
	if taken {
		return
	}
	elsewhere, ok := b.plan.Agent.elsewhere[p.Name]
	file, name := b.dotenv(p.Vars)
	switch other := b.firstSet(p.Unless); {
	case file == "" && ok:
		if base, ok := b.through(p.Name, elsewhere); ok {
			b.setAll(p, base)
		}
	case file == "" && other != "":
		b.note("%s is set, and some programs would send its key to what %s names; so that is not set, and %s's own API is left alone; to include it, add --upstream %s=%s", other, p.Vars[0], p.Name, p.Name, p.URL)
	case file == "":
		b.setAll(p, b.base(p))
	default:
		b.note("%s sets %s, so calls of that provider are left alone; to include them, add --upstream %s=URL", file, name, p.Name)
	}
}

// setAll sets the variables of a provider.
func (b *builder) setAll(p *provider, base string) {
	for _, name := range p.Vars {
		b.setenv(name, base)
	}
}

// firstSet returns the first of the variables that the user has set, or "".
func (b *builder) firstSet(names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { return b.env(name) != "" })
	if i < 0 {
		return ""
	}
	return names[i]
}

// leaveAlone takes back what variables has set for a provider.
func (b *builder) leaveAlone(p *provider) {
	for _, name := range slices.Concat(p.Vars, p.Own) {
		b.plan.Env = slices.DeleteFunc(b.plan.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	for _, i := range b.at.assigned {
		if name, _, _ := strings.Cut(b.Args[i], "="); slices.Contains(p.Vars, name) || slices.Contains(p.Own, name) {
			b.plan.Args[i] = b.Args[i]
		}
	}
	for _, kv := range b.Env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(p.Vars, name) || slices.Contains(p.Own, name) {
			b.plan.Env = append(b.plan.Env, kv)
		}
	}
	b.plan.Routes = slices.DeleteFunc(b.plan.Routes, p.has)
}

// keep sends what the user has set through the proxy, and reports whether there was any.
func (b *builder) keep(provider string, names []string) bool {
	taken := false
	for _, name := range names {
		value := b.env(name)
		if value == "" {
			continue
		}
		taken = true
		if name == bedrockVar && b.signs() {
			b.note("%s is left alone: the signature of requests to Bedrock is for its host", name)
			continue
		}
		if base, ok := b.through(provider, value); ok {
			b.setenv(name, base)
		} else {
			b.note("%s is not an http or https URL, so its calls are left alone", name)
		}
	}
	return taken
}

// chatGPTPath ends the base URL of the model calls of ChatGPT's subscribers. Nothing follows it
// in their base URL, as /v1 does elsewhere.
const chatGPTPath = "/backend-api/codex"

// bedrockVar is the base URL of Bedrock for Anthropic's SDKs and for Claude Code.
const bedrockVar = "ANTHROPIC_BEDROCK_BASE_URL"

// signs reports whether requests to Bedrock are signed, which covers their host.
func (b *builder) signs() bool {
	return b.env("AWS_BEARER_TOKEN_BEDROCK") == "" && !isTrue(b.env("CLAUDE_CODE_SKIP_BEDROCK_AUTH"))
}

// upstream returns what the user has given as the provider's URL, or nil.
func (b *builder) upstream(provider string) *url.URL {
	return cmp.Or(b.Upstreams[provider], b.Upstreams[""])
}

// base returns the provider's base URL through the proxy.
func (b *builder) base(p *provider) string {
	target := b.upstream(p.Name)
	if target == nil {
		target, _ = url.Parse(p.URL) // a constant
	} else if rest, ok := strings.CutSuffix(strings.TrimSuffix(target.Path, "/"), p.Path); ok {
		target = target.JoinPath() // a copy
		target.Path, target.RawPath = rest, ""
	}
	prefix := b.prefix(p.Name, target)
	if strings.HasSuffix(strings.TrimSuffix(target.Path, "/"), chatGPTPath) {
		return b.Proxy.String() + prefix // it is a base URL as it is
	}
	for _, r := range p.routes(prefix, target)[1:] {
		if !slices.ContainsFunc(b.plan.Routes, func(have Route) bool { return have.Prefix == r.Prefix }) {
			b.plan.Routes = append(b.plan.Routes, r)
		}
	}
	return b.Proxy.String() + prefix + p.Path
}

// through returns the base URL by which the server of another base URL is reached through
// the proxy. Path, query and user information stay the client's.
func (b *builder) through(name, value string) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", false
	}
	base := *u
	prefix := b.prefix(name, &url.URL{Scheme: u.Scheme, Host: u.Host})
	base.Scheme, base.Host = b.Proxy.Scheme, b.Proxy.Host
	base.Path, base.RawPath = prefix+u.Path, ""
	if u.RawPath != "" {
		base.RawPath = prefix + u.RawPath
	}
	return base.String(), true
}

// rest adds where the requests of a provider go without a prefix: to its default if a route leads there, or else
// where its first route leads. They go nowhere if the agent's own settings, whose routes these are, name another
// server: the credentials may be for that one.
func (b *builder) rest(p *provider, settings []Route) {
	known, _ := url.Parse(p.URL) // a constant
	var to *url.URL
	for _, r := range b.plan.Routes {
		if p.has(r) && (to == nil || r.URL.Host == known.Host) {
			to = r.URL
		}
	}
	if to == nil {
		return
	}
	for _, r := range settings {
		if r.URL.Host != to.Host && (p.has(r) || !slices.ContainsFunc(providers, func(p provider) bool { return p.has(r) })) {
			b.plan.Rests = append(b.plan.Rests, Rest{Host: known.Host})
			return
		}
	}
	b.plan.Rests = append(b.plan.Rests, Rest{Host: known.Host, URL: to})
}

// prefix returns the path prefix of the route to target, which it adds if need be.
func (b *builder) prefix(name string, target *url.URL) string {
	prefix := "/" + name
	for n := 2; ; n++ {
		i := slices.IndexFunc(b.plan.Routes, func(r Route) bool { return r.Prefix == prefix })
		if i < 0 {
			b.plan.Routes = append(b.plan.Routes, Route{prefix, target})
			return prefix
		}
		if b.plan.Routes[i].URL.String() == target.String() {
			return prefix
		}
		prefix = "/" + name + "-" + strconv.Itoa(n)
	}
}

func (b *builder) note(format string, args ...any) {
	b.plan.Notes = append(b.plan.Notes, fmt.Sprintf(format, args...))
}

// exceptLoopback keeps the command's requests to the proxy away from an HTTP proxy: one of the environment, or of a
// file that the agent reads later. Claude Code, Gemini CLI and Qwen Code use that of HTTPS for HTTP as well.
func (b *builder) exceptLoopback() {
	upper, lower := b.agentEnv("NO_PROXY"), b.agentEnv("no_proxy")
	// Programs read one of the two, and look at the other if it is not set.
	b.setenv("NO_PROXY", b.excepting(cmp.Or(upper, lower)))
	b.setenv("no_proxy", b.excepting(cmp.Or(lower, upper)))
}

// excepting returns a value of NO_PROXY that has the proxy's host as well.
func (b *builder) excepting(value string) string {
	if value == "*" || slices.Contains(strings.Split(value, ","), b.Proxy.Hostname()) {
		return value
	}
	return strings.TrimPrefix(value+","+b.Proxy.Hostname(), ",")
}

// after inserts arguments after the agent's own name in the command.
func (b *builder) after(args ...string) {
	if len(args) == 0 {
		return
	}
	if b.at.ends == nil {
		b.plan.Args = slices.Insert(b.plan.Args, b.at.arg+1, args...)
		return
	}
	var words strings.Builder
	for _, arg := range args {
		words.WriteString(" " + quoted(arg))
	}
	line := b.plan.Args[b.at.arg]
	for _, end := range slices.Backward(b.at.ends) {
		line = line[:end] + words.String() + line[end:]
	}
	b.plan.Args[b.at.arg] = line
}

// args returns the agent's own arguments.
func (b *builder) args() []string {
	if b.at.ends != nil {
		return b.at.line
	}
	return b.plan.Args[b.at.arg+1:]
}

// flag returns the last value of a flag of the agent's, or "".
func (b *builder) flag(names ...string) (value string) {
	args := b.args()
	for i, arg := range args {
		name, assigned, ok := strings.Cut(arg, "=")
		switch {
		case ok && strings.HasPrefix(name, "--") && slices.Contains(names, name):
			value = assigned
		case !ok && slices.Contains(names, arg) && i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}
